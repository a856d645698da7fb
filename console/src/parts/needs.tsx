// What needs a person: questions by age, calls of which nobody knows the end, sources that are ill, tools that changed.

import { get, me } from "../api";
import { counted, questions } from "../questions";
import { to } from "../router";
import type { Entry, Page, Question, SourceDetails, ToolsPage } from "../types";
import { length, plain, Said, State, Time, useLooked } from "./basics";

const LOOK_MS = 10_000;
const SHOWN = 4;

interface Needed {
  unknown: Entry[];
  more: boolean;
  ill: { name: string; status: string; reason: string }[];
  changed: { id: string; changed?: string[] }[];
}

async function looked(): Promise<Needed> {
  const [calls, tools, changed] = await Promise.all([
    get<Page<Entry>>("v1/calls", { state: "unknown", limit: 20 }),
    get<ToolsPage>("v1/tools", { limit: 1 }),
    get<ToolsPage>("v1/tools", { changed: true, limit: 20 }),
  ]);
  let ill: Needed["ill"] = (tools.unwell ?? []).map((one) => ({ name: one.name, status: one.health, reason: one.reason ?? "" }));
  if (me.value?.admin) {
    const sources = await get<Page<SourceDetails>>("v1/sources").catch(() => ({ items: [] as SourceDetails[] }));
    const known = new Set(ill.map((one) => one.name));
    ill = [
      ...ill,
      ...sources.items
        .filter((one) => !known.has(one.name) && !["ok", "disabled"].includes(one.status))
        .map((one) => ({ name: one.name, status: one.status, reason: one.reason ?? "" })),
    ];
  }
  return { unknown: calls.items, more: !!calls.next, ill, changed: changed.items };
}

export function Needs() {
  const needed = useLooked(looked, LOOK_MS);
  const open = (questions.value ?? []).toSorted((a, b) => a.asked_at - b.asked_at);
  const { unknown = [], more = false, ill = [], changed = [] } = needed.value ?? {};
  if (!needed.value || questions.value === undefined) return <div class="needs waiting-room" />;
  if (!open.length && !unknown.length && !ill.length && !changed.length) {
    return (
      <p class="needs calm" role="status" aria-label="What needs you">
        Nothing waits for you: no question is open, every call has a known end, all sources are well.
      </p>
    );
  }
  const now = Date.now() / 1000;
  return (
    <section class="needs" aria-label="What needs you">
      {open.length > 0 && (
        <div class="need warn">
          <h2>
            <a href={to("inbox")}>{counted.value} waiting for an answer</a>
          </h2>
          {open.slice(0, SHOWN).map((one) => (
            <a key={one.id} class="need-line" href={to("inbox", one.id)}>
              <b class="age">{length(now - one.asked_at)}</b>
              <span class="cut">
                <Said of={asked(one)} most={160} />
              </span>
              <span class="soft small cut">{plain(one.tool)}</span>
            </a>
          ))}
        </div>
      )}
      {unknown.length > 0 && (
        <div class="need odd">
          <h2>
            <a href={`${to("live")}?only=unknown`}>
              {unknown.length}
              {more && "+"} ended, nobody knows how
            </a>
          </h2>
          {unknown.slice(0, SHOWN).map((one) => (
            <a key={one.id} class="need-line" href={to("live", one.session ?? "", one.id)}>
              <Time at={one.accepted_at} />
              <span class="cut mono">{plain(one.tool)}</span>
              <State of="unknown" />
            </a>
          ))}
        </div>
      )}
      {ill.length > 0 && (
        <div class="need bad">
          <h2>
            <a href={to("sources")}>
              {ill.length} {ill.length === 1 ? "source is" : "sources are"} not well
            </a>
          </h2>
          {ill.slice(0, SHOWN).map((one) => (
            <a key={one.name} class="need-line" href={to("sources", one.name)}>
              <b>{plain(one.name)}</b>
              <span class="cut soft small">
                <Said of={one.reason} most={120} />
              </span>
              <State of={one.status} />
            </a>
          ))}
        </div>
      )}
      {changed.length > 0 && (
        <div class="need warn">
          <h2>
            <a href={to("tools")}>
              {changed.length} {changed.length === 1 ? "tool" : "tools"} changed
            </a>
          </h2>
          {changed.slice(0, SHOWN).map((one) => (
            <a key={one.id} class="need-line" href={to("tools", one.id)}>
              <b class="mono">{plain(one.id)}</b>
              <span class="cut soft small">{one.changed?.join(", ")}</span>
            </a>
          ))}
        </div>
      )}
    </section>
  );
}

/** What a question is about: for a yes or no to a call, its arguments say more than the words around them. */
function asked({ kind, prompt, arguments: args }: Question): string {
  const values = Object.entries(args ?? {}).map(([name, value]) => `${name} ${typeof value === "string" ? value : JSON.stringify(value)}`);
  return kind === "confirm" && values.length ? values.join(", ") : prompt;
}
