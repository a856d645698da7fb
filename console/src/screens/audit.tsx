// Who called what, with what right, and what came of it.

import { computed } from "@preact/signals";
import { written } from "../api";
import { Choice, Do, length, Nothing, Said, Search, State, Time, Trouble, useAddressed, usePages, Value } from "../parts/basics";
import { Answers } from "../parts/call";
import { Copy } from "../parts/copy";
import { Rows } from "../parts/rows";
import { saved } from "../parts/saved";
import { narrow, narrowed, route, to } from "../router";
import type { Audited, AuditPage } from "../types";

const OUTCOMES = [
  ["", "every outcome"],
  "succeeded",
  ["failed", "all but succeeded"],
  "denied",
  "declined",
  "cancelled",
  "timeout",
  "unknown",
] as const;
const TIMES = [
  ["3600", "last hour"],
  ["43200", "last 12 hours"],
  ["86400", "last day"],
  ["604800", "last week"],
  ["0", "ever"],
] as const;

const DAY = "86400";
/** What was looked for stays the same while somebody reads on: it begins when the time was chosen. */
const span = computed(() => TIMES.find(([seconds]) => seconds === route.value.query.get("span"))?.[0] ?? DAY);
const since = computed(() => (span.value === "0" ? 0 : Math.floor(Date.now() / 1000) - Number(span.value)));

export function Audit() {
  const asked = narrowed("q", "tool", "who", "outcome");
  const query = { ...asked, since: since.value || undefined };
  const lines = usePages<Audited, AuditPage>("v1/audit", query);
  const line = useAddressed("line");
  const index = lines.items.findIndex((one) => one.cursor === line.value);
  const chosen = lines.items[index];
  const choose = (one: Audited | undefined) => (line.value = one?.cursor ?? "");
  return (
    <>
      <div class="head">
        <h1>Audit</h1>
        <span class="grow" />
        <div class="filters narrow">
          <Search label="Search" first value={asked.q} changed={narrow("q")} />
          <Search label="Tool" value={asked.tool} changed={narrow("tool")} />
          <Search label="Who" value={asked.who} changed={narrow("who")} />
          <Choice label="Outcome" value={asked.outcome ?? ""} choices={OUTCOMES} changed={narrow("outcome")} />
          <Choice label="When" value={span.value} choices={TIMES} changed={(value) => narrow("span")(value === DAY ? "" : value)} />
          <Do work={() => all(query)}>Export</Do>
        </div>
      </div>
      <Trouble of={lines.trouble} />
      {lines.onward && !lines.busy && lines.last?.reached && (
        <p class="small soft">
          Looked back to <Time at={lines.last.reached} />.{" "}
          <button class="small" onClick={lines.more}>
            Look further
          </button>
        </p>
      )}
      <div class={`split ${chosen ? "chosen" : ""}`}>
        {lines.items.length === 0 && !lines.trouble && (!lines.busy || lines.last) ? (
          <Nothing>
            {lines.busy
              ? "Looking…"
              : "No call that ended fits. Calls stand here once they are over: look further back, or take a filter away."}
          </Nothing>
        ) : (
          <Rows
            count={lines.items.length}
            height={40}
            label="Calls"
            more={lines.more}
            chosen={index}
            choose={(n) => choose(lines.items[n])}
            row={(n) => {
              const one = lines.items[n]!;
              return (
                <button class="row bare" tabIndex={-1} aria-pressed={n === index} onClick={() => choose(one)}>
                  <Time at={one.ended_at} />
                  <span class="grow cut">
                    <b>{one.tool}</b>{" "}
                    <span class="soft small">
                      <Said of={one.chain.at(-1)} most={80} /> · {one.session}
                      {one.message && (
                        <>
                          {" "}
                          · <Said of={one.message} most={200} />
                        </>
                      )}
                    </span>
                  </span>
                  <State of={one.outcome} />
                </button>
              );
            }}
          />
        )}
        <div class="detail">
          {chosen && (
            <button class="back" onClick={() => choose(undefined)}>
              ‹ all lines
            </button>
          )}
          {chosen && <Record of={chosen} />}
        </div>
      </div>
    </>
  );
}

function Record({ of }: { of: Audited }) {
  const { verdict } = of;
  return (
    <section class="sheet" aria-label="What was recorded">
      <div class="head">
        <h2 class="mono title">{of.tool}</h2>
        <span class="grow" />
        <State of={of.outcome} />
      </div>
      <dl>
        <dt>asked by</dt>
        <dd>
          <Said of={of.chain.join(" → ")} />
        </dd>
        <dt>when</dt>
        <dd>
          <Time at={of.accepted_at} />
          {`, took ${length(of.duration_ms / 1000)}`}
        </dd>
        {verdict && (
          <>
            <dt>policy</dt>
            <dd>
              {verdict.effect}
              {verdict.message && (
                <>
                  {" "}
                  because <Said of={verdict.message} />
                </>
              )}
            </dd>
          </>
        )}
        {of.answers.length > 0 && (
          <>
            <dt>answers</dt>
            <dd>
              <Answers of={of.answers} />
            </dd>
          </>
        )}
        {of.message && (
          <>
            <dt>message</dt>
            <dd>
              <Said of={of.message} />
            </dd>
          </>
        )}
        <dt>where</dt>
        <dd>
          <a href={to("sessions", of.session)}>{of.session}</a> of {of.owner} · <a href={to("live", of.session, of.call)}>the call</a>
        </dd>
      </dl>
      <h3>arguments</h3>
      <Value of={of.arguments} label="Arguments" />
      <Copy session={of.session} tool={of.tool} args={of.arguments} />
      <details>
        <summary class="small soft">the record</summary>
        <Value of={of} label="Record" />
      </details>
    </section>
  );
}

/** All that fits, as lines that `toolcrib audit verify` can check. */
async function all(query: Record<string, unknown>): Promise<void> {
  saved("audit.ndjson", [await written("v1/audit", query)]);
}
