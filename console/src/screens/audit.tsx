// Who called what, with what right, and what came of it.

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { get } from "../api";
import { length, Nothing, State, Time, Trouble, useLater, Value } from "../parts/basics";
import { Rows } from "../parts/rows";
import { to } from "../router";
import type { Page } from "../types";

type Line = Record<string, any>;
const FIELDS = [["q", "Search"], ["tool", "Tool"], ["who", "Who"]] as const;
const OUTCOMES = ["succeeded", "failed", "denied", "declined", "cancelled", "timeout", "unknown"];

export function Audit() {
  const asked = useSignal<Record<string, string>>({});
  const items = useSignal<Line[]>([]);
  const next = useSignal<string | undefined>(undefined);
  const chosen = useSignal<Line | undefined>(undefined);
  const trouble = useSignal<unknown>(undefined);
  const busy = useSignal(false);
  const later = useLater();
  const load = async (after?: string) => {
    if (busy.value && after) return;
    busy.value = true;
    try {
      const page = await get<Page<Line>>("v1/audit", { ...asked.value, after, limit: 200 });
      items.value = after ? [...items.value, ...page.items] : page.items;
      next.value = page.next;
      trouble.value = undefined;
    } catch (error) {
      trouble.value = error;
    } finally {
      busy.value = false;
    }
  };
  useEffect(() => void load(), []);
  const set = (name: string, value: string) => { asked.value = { ...asked.value, [name]: value }; later(load); };
  return (
    <>
      <div class="head">
        <h1>Audit</h1><span class="grow" />
        <div class="filters">
          {FIELDS.map(([name, text]) => <input key={name} type="search" style={{ minWidth: 0, width: "150px" }} aria-label={text} placeholder={text} data-search={name === "q" ? "" : undefined} onInput={(event) => set(name, event.currentTarget.value)} />)}
          <select aria-label="Outcome" onChange={(event) => set("outcome", event.currentTarget.value)}>
            <option value="">every outcome</option>{OUTCOMES.map((one) => <option key={one}>{one}</option>)}
          </select>
        </div>
      </div>
      <Trouble of={trouble.value} />
      <div class={`split ${chosen.value ? "chosen" : ""}`}>
        {items.value.length === 0 && !busy.value ? <Nothing>Nothing was found.</Nothing> : (
          <Rows count={items.value.length} height={40} label="Calls" more={() => next.value && void load(next.value)}
            chosen={items.value.indexOf(chosen.value!)} choose={(n) => (chosen.value = items.value[n])}
            row={(n) => { const one = items.value[n]!; return (
              <button class="row bare" style={{ width: "100%", height: "40px", textAlign: "left" }} aria-pressed={one === chosen.value} onClick={() => (chosen.value = one)}>
                <Time at={seconds(one.at ?? one.time)} />
                <span class="grow cut"><b>{one.tool}</b> <span class="soft small">{name(one.by ?? one.who)} · {one.session}</span></span>
                <State of={one.outcome ?? one.status ?? ""} />
              </button>
            ); }} />
        )}
        <div>
          {chosen.value ? (
            <section class="sheet" aria-label="What was recorded">
              <h2>{chosen.value.tool}</h2>
              {chosen.value.duration_ms !== undefined && <p class="small soft">{length(chosen.value.duration_ms / 1000)}</p>}
              <p><a href={to("sessions", String(chosen.value.session))}>its session</a></p>
              <Value of={chosen.value} label="Record" />
            </section>
          ) : <Nothing>Choose a line.</Nothing>}
        </div>
      </div>
    </>
  );
}

const name = (who: unknown): string => (typeof who === "string" ? who : ((who as any)?.name ?? ""));
const seconds = (at: unknown): number => (typeof at === "number" ? at : Date.parse(String(at)) / 1000);
