// A form for any JSON schema, or the JSON itself. What is wrong with the values is for the server to say.

import { useSignal } from "@preact/signals";
import Form from "@rjsf/core";
import type { IconButtonProps, RJSFSchema, ValidatorType } from "@rjsf/utils";
import { useMemo } from "preact/hooks";
import { Trouble } from "./basics";

const anything: ValidatorType = {
  isValid: () => true,
  rawValidation: () => ({ errors: undefined }),
  validateFormData: () => ({ errors: [], errorSchema: {} }),
};

const button =
  (text: string) =>
  ({ onClick, disabled }: IconButtonProps) => (
    <button type="button" class="small" disabled={disabled} onClick={onClick as () => void}>
      {text}
    </button>
  );

const templates = {
  ButtonTemplates: {
    AddButton: button("Add"),
    RemoveButton: button("Remove"),
    MoveUpButton: button("Up"),
    MoveDownButton: button("Down"),
    CopyButton: button("Copy"),
    ClearButton: button("Clear"),
  },
};

type Schema = Record<string, unknown>;

/** A value that may be null as well is a field that may be left empty. */
function simple(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(simple);
  if (typeof schema !== "object" || schema === null) return schema;
  const made = Object.fromEntries(Object.entries(schema).map(([key, value]) => [key, DATA.has(key) ? value : simple(value)])) as Schema;
  const several = (made.anyOf ?? made.oneOf) as Schema[] | undefined;
  const rest = Array.isArray(several) ? several.filter((one) => one?.type !== "null") : [];
  if (rest.length !== 1 || rest.length === several?.length) return made;
  const { anyOf: _, oneOf: __, default: given, ...own } = made;
  return { ...rest[0], ...own, ...(given === null || given === undefined ? {} : { default: given }) };
}

const DATA = new Set(["default", "const", "enum", "examples"]);

interface Given {
  schema: Schema;
  value: unknown;
  changed: (value: unknown) => void;
  label: string;
}

export function SchemaForm({ schema, value, changed, label }: Given) {
  const raw = useSignal(false);
  const shown = useMemo(() => simple(schema) as RJSFSchema, [schema]);
  return (
    <div class="schema-form">
      <div class="actions" role="group" aria-label="How to give values">
        <button type="button" aria-pressed={!raw.value} onClick={() => (raw.value = false)}>
          Form
        </button>
        <button type="button" aria-pressed={raw.value} onClick={() => (raw.value = true)}>
          JSON
        </button>
      </div>
      {raw.value ? (
        <JsonField value={value ?? {}} changed={changed} label={label} />
      ) : (
        <Form
          schema={shown}
          validator={anything}
          formData={value}
          onChange={(event) => changed(event.formData)}
          templates={templates}
          tagName="div"
          liveValidate={false}
          uiSchema={{ "ui:submitButtonOptions": { norender: true } }}
        ></Form>
      )}
    </div>
  );
}

/** A value as JSON that can be changed; told of every change, and with undefined while it is none. */
export function JsonField({ value, changed, label }: { value: unknown; changed: (value: unknown) => void; label: string }) {
  const text = useSignal(JSON.stringify(value, null, 2));
  const trouble = useSignal("");
  const typed = (said: string) => {
    text.value = said;
    try {
      changed(JSON.parse(said));
      trouble.value = "";
    } catch (error) {
      changed(undefined);
      trouble.value = `This is not JSON yet: ${(error as Error).message}`;
    }
  };
  return (
    <>
      <textarea aria-label={label} rows={8} value={text.value} onInput={(event) => typed(event.currentTarget.value)} spellcheck={false} />
      <Trouble of={trouble.value} />
    </>
  );
}
