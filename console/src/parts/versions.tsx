// How a tool of an untrusted source looked before, beside how it looks now.

import { useSignal } from "@preact/signals";
import { at, get } from "../api";
import type { ToolVersion, ToolVersions } from "../forms";
import { Choice, plain, useAsked } from "./basics";
import { SideBySide } from "./difference";

const when = (seconds: number) => new Date(seconds * 1000).toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
const title = (of: ToolVersion, n: number) =>
  `${n + 1}: ${when(of.at)}${of.by ? `, accepted by ${plain(of.by)}` : n ? ", seen" : ", first seen"}${of.current ? ", now" : ""}`;

export function Versions({ tool, over }: { tool: string; over: unknown }) {
  const versions = useAsked((abort) => get<ToolVersions>(at("tools", tool, "versions"), {}, abort), [tool, over]);
  const items = versions.value?.items ?? [];
  const chosen = useSignal<[number, number] | undefined>(undefined);
  if (items.length < 2) return null;
  // At first the last change stands there.
  const last = items.findLastIndex((one) => !!one.changed?.length);
  const [left, right] = chosen.value ?? (last > 0 ? [last - 1, last] : [items.length - 2, items.length - 1]);
  const [before, after] = [items[left]!, items[right]!];
  const names = [...new Set([...Object.keys(before.parts), ...Object.keys(after.parts)])];
  const differing = names.filter((name) => JSON.stringify(before.parts[name]) !== JSON.stringify(after.parts[name]));
  const choices = items.map((one, n) => [String(n), title(one, n)] as const);
  return (
    <section class="sheet" aria-label="Versions">
      <h2>
        Versions <span class="soft small">{items.length.toLocaleString()}</span>
      </h2>
      <div class="filters">
        <Choice
          label="Earlier version"
          value={String(left)}
          choices={choices}
          changed={(value) => (chosen.value = [Number(value), right])}
        />
        <span class="soft small">beside</span>
        <Choice label="Later version" value={String(right)} choices={choices} changed={(value) => (chosen.value = [left, Number(value)])} />
      </div>
      {differing.length === 0 && <p class="soft below">These two look the same.</p>}
      {differing.map((name) => (
        <div key={name} class="below">
          <h3>{name}</h3>
          <SideBySide
            before={readable(name, before.parts[name])}
            after={readable(name, after.parts[name])}
            label={`What changed in the ${name}`}
            names={[`version ${left + 1}`, `version ${right + 1}`]}
          />
        </div>
      ))}
    </section>
  );
}

/** A part as people read it: title and description as text, schemas as what a tool takes and gives. */
function readable(name: string, part: unknown): unknown {
  if (part === undefined) return "(what it was is not kept)";
  const [first, second] = Array.isArray(part) ? part : [];
  if (name === "description" && Array.isArray(part)) return [first, second].filter(Boolean).join("\n");
  return name === "schema" && Array.isArray(part) ? { takes: first, ...(second ? { gives: second } : {}) } : part;
}
