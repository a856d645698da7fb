// Who called what, with what right, and what came of it.

import { signal, useSignal } from "@preact/signals";
import { written } from "../api";
import { Choice, Do, length, Nothing, Said, Search, State, Time, Trouble, usePages, Value } from "../parts/basics";
import { Answers } from "../parts/call";
import { Rows } from "../parts/rows";
import { saved } from "../parts/saved";
import { to } from "../router";
import type { Audited, AuditPage } from "../types";

const OUTCOMES = [["", "every outcome"], "succeeded", ["failed", "all but succeeded"], "denied", "declined", "cancelled", "timeout", "unknown"] as const;
const TIMES = [["3600", "last hour"], ["43200", "last 12 hours"], ["86400", "last day"], ["604800", "last week"], ["", "ever"]] as const;

const asked = signal<Record<string, string>>({});
const span = signal("86400");
const since = signal(0);

function reach(seconds: string): void {
  span.value = seconds;
  since.value = seconds ? Math.floor(Date.now() / 1000) - Number(seconds) : 0;
}
reach("86400");

export function Audit() {
  const query = { ...asked.value, since: since.value || undefined };
  const lines = usePages<Audited, AuditPage>("v1/audit", query);
  const chosen = useSignal<Audited | undefined>(undefined);
  const set = (name: string) => (value: string) => (asked.value = { ...asked.value, [name]: value });
  const index = lines.items.findIndex((one) => one.cursor === chosen.value?.cursor);
  return (
    <>
      <div class="head">
        <h1>Audit</h1><span class="grow" />
        <div class="filters narrow">
          <Search label="Search" first changed={set("q")} /><Search label="Tool" changed={set("tool")} /><Search label="Who" changed={set("who")} />
          <Choice label="Outcome" value={asked.value.outcome ?? ""} choices={OUTCOMES} changed={set("outcome")} />
          <Choice label="When" value={span.value} choices={TIMES} changed={reach} />
          <Do work={() => all(query)}>Export</Do>
        </div>
      </div>
      <Trouble of={lines.trouble} />
      {lines.onward && !lines.busy && lines.last?.reached && (
        <p class="small soft">Looked back to <Time at={lines.last.reached} />. <button class="small" onClick={lines.more}>Look further</button></p>
      )}
      <div class={`split ${chosen.value ? "chosen" : ""}`}>
        {lines.items.length === 0 && !lines.trouble && (!lines.busy || lines.last) ? <Nothing>{lines.busy ? "Looking…" : "Nothing was found."}</Nothing> : (
          <Rows count={lines.items.length} height={40} label="Calls" more={lines.more} chosen={index} choose={(n) => (chosen.value = lines.items[n])}
            row={(n) => { const one = lines.items[n]!; return (
              <button class="row bare" tabIndex={-1} aria-pressed={n === index} onClick={() => (chosen.value = one)}>
                <Time at={one.ended_at} />
                <span class="grow cut">
                  <b>{one.tool}</b> <span class="soft small"><Said of={one.chain.at(-1)} most={80} /> · {one.session}{one.message && <> · <Said of={one.message} most={200} /></>}</span>
                </span>
                <State of={one.outcome} />
              </button>
            ); }} />
        )}
        <div class="detail">
          {chosen.value && <button class="back" onClick={() => (chosen.value = undefined)}>‹ all lines</button>}
          {chosen.value && <Record of={chosen.value} />}
        </div>
      </div>
    </>
  );
}

function Record({ of }: { of: Audited }) {
  const { verdict } = of;
  return (
    <section class="sheet" aria-label="What was recorded">
      <div class="head"><h2 class="mono title">{of.tool}</h2><span class="grow" /><State of={of.outcome} /></div>
      <dl>
        <dt>asked by</dt><dd><Said of={of.chain.join(" → ")} /></dd>
        <dt>when</dt><dd><Time at={of.accepted_at} />{`, took ${length(of.duration_ms / 1000)}`}</dd>
        {verdict && <><dt>policy</dt><dd>{verdict.effect}{verdict.message && <> because <Said of={verdict.message} /></>}</dd></>}
        {of.answers.length > 0 && <><dt>answers</dt><dd><Answers of={of.answers} /></dd></>}
        {of.message && <><dt>message</dt><dd><Said of={of.message} /></dd></>}
        <dt>where</dt><dd><a href={to("sessions", of.session)}>{of.session}</a> of {of.owner} · <a href={to("live", of.session, of.call)}>the call</a></dd>
      </dl>
      <h3>arguments</h3><Value of={of.arguments} label="Arguments" />
      <details><summary class="small soft">the record</summary><Value of={of} label="Record" /></details>
    </section>
  );
}

/** All that fits, as lines that `toolcrib audit verify` can check. */
async function all(query: Record<string, unknown>): Promise<void> {
  saved("audit.ndjson", [await written("v1/audit", query)]);
}
