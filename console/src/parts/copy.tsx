// A call as something to run elsewhere.

import { useSignal } from "@preact/signals";
import { at, me } from "../api";

interface Given {
  session: string;
  tool: string;
  args: unknown;
}

const here = () => new URL(".", location.href.replace(/[?#].*/, "")).href;
const signed = () => me.value?.auth !== "off";
const shell = (text: string) => `'${text.replaceAll("'", "'\\''")}'`;

const curl = ({ session, tool, args }: Given) =>
  [
    `curl -X POST ${shell(here() + at("sessions", session, "calls"))}`,
    ...(signed() ? ['-H "Authorization: Bearer $TOOLCRIB_TOKEN"'] : []),
    "-H 'Content-Type: application/json'",
    `-d ${shell(JSON.stringify({ tool, args, wait: true }))}`,
  ].join(" \\\n  ");

/** A value as Python writes it. */
function literal(value: unknown): string {
  if (value === null || value === undefined) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (Array.isArray(value)) return `[${value.map(literal).join(", ")}]`;
  if (typeof value === "object")
    return `{${Object.entries(value)
      .map(([key, one]) => `${JSON.stringify(key)}: ${literal(one)}`)
      .join(", ")}}`;
  return JSON.stringify(value);
}

const python = ({ session, tool, args }: Given) => `import asyncio
${signed() ? "import os\n" : ""}
from toolcrib.client import RemoteCrib


async def main() -> None:
    async with RemoteCrib(${literal(here().replace(/\/$/, ""))}${signed() ? ', key=os.environ["TOOLCRIB_TOKEN"]' : ""}) as crib:
        session = await crib.open(${literal(session)})
        result = await session.call(${literal(tool)}, ${literal(args ?? {})})
        print(result.data if result.ok else result.failure)


asyncio.run(main())
`;

const json = ({ tool, args }: Given) => JSON.stringify({ tool, args }, null, 2);

const FORMS = [
  ["curl", curl],
  ["Python", python],
  ["JSON", json],
] as const;

/** Puts text where it can be pasted from; a page that came by plain HTTP from afar has no clipboard of its own. */
async function copied(text: string): Promise<void> {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const field = document.createElement("textarea");
  field.value = text;
  document.body.append(field);
  field.select();
  document.execCommand("copy");
  field.remove();
}

export function Copy(call: Given) {
  const done = useSignal("");
  if (call.args === undefined) return null;
  const copy = (name: string, form: (call: Given) => string) =>
    copied(form(call)).then(
      () => (done.value = `Copied as ${name}.`),
      () => (done.value = "This browser does not let the page copy."),
    );
  return (
    <p class="copy small soft" role="group" aria-label="Copy the call">
      Copy as{" "}
      {FORMS.map(([name, form]) => (
        <button type="button" class="bare" key={name} onClick={() => copy(name, form)}>
          {name}
        </button>
      ))}
      <span role="status">{done.value}</span>
    </p>
  );
}
