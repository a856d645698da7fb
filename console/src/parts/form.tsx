// A form for any JSON schema, or the JSON itself. What is wrong with the values is for the server to say.

import Form from "@rjsf/core";
import type { RJSFSchema, ValidatorType } from "@rjsf/utils";
import { useSignal } from "@preact/signals";
import { Trouble } from "./basics";

const anything: ValidatorType = {
  isValid: () => true,
  rawValidation: () => ({ errors: undefined }),
  validateFormData: () => ({ errors: [], errorSchema: {} }),
};

interface Given {
  schema: Record<string, unknown>;
  value: unknown;
  changed: (value: unknown) => void;
  label: string;
}

export function SchemaForm({ schema, value, changed, label }: Given) {
  const raw = useSignal(false);
  const text = useSignal("");
  const trouble = useSignal("");
  const show = (asText: boolean) => {
    text.value = JSON.stringify(value ?? {}, null, 2);
    trouble.value = "";
    raw.value = asText;
  };
  const typed = (said: string) => {
    text.value = said;
    try {
      changed(JSON.parse(said));
      trouble.value = "";
    } catch (error) {
      trouble.value = `This is not JSON yet: ${(error as Error).message}`;
    }
  };
  return (
    <div class="schema-form">
      <div class="actions" role="group" aria-label="How to give values">
        <button type="button" aria-pressed={!raw.value} onClick={() => show(false)}>Form</button>
        <button type="button" aria-pressed={raw.value} onClick={() => show(true)}>JSON</button>
      </div>
      {raw.value ? (
        <>
          <textarea aria-label={label} rows={10} value={text.value} onInput={(event) => typed(event.currentTarget.value)} spellcheck={false} />
          <Trouble of={trouble.value} />
        </>
      ) : (
        <Form
          schema={schema as RJSFSchema}
          validator={anything}
          formData={value}
          onChange={(event) => changed(event.formData)}
          tagName="div"
          liveValidate={false}
          uiSchema={{ "ui:submitButtonOptions": { norender: true } }}
        >
          <></>
        </Form>
      )}
    </div>
  );
}
