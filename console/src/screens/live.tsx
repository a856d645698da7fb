// What happens right now, in all sessions that one may see.

import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { follow, get } from "../api";
import { take, type Card } from "../fold";
import { length, Nothing, State, Time } from "../parts/basics";
import { CallCard } from "../parts/call";
import { Rows } from "../parts/rows";
import { go, route, to } from "../router";
import type { Entry, Event, Page } from "../types";

const MOST = 2_000;
const FILTERS = ["all", "running", "waiting", "failed", "unknown"] as const;

const cards = signal(new Map<string, Card>());
const only = signal<(typeof FILTERS)[number]>("all");

/** Events come in bursts: they are folded as they come and drawn once a frame. */
let fresh: Map<string, Card> | undefined;

function heard(event: Event): void {
  if (!fresh) {
    fresh = new Map(cards.value);
    requestAnimationFrame(() => {
      const shown = fresh!;
      fresh = undefined;
      for (const id of shown.keys()) {
        if (shown.size <= MOST) break;
        shown.delete(id);
      }
      cards.value = shown;
    });
  }
  take(fresh, event);
}

function known(entry: Entry): void {
  if (cards.value.has(entry.id)) return;
  const card: Card = {
    id: entry.id, session: entry.session, tool: entry.tool, label: entry.label, args: entry.args, status: entry.status, output: "", answers: [],
    accepted: entry.accepted_at, started: entry.started_at, done: entry.done_at, seq: entry.seq, children: [],
    data: entry.result?.data, failure: entry.result?.failure,
    duration: entry.done_at && entry.started_at ? entry.done_at - entry.started_at : undefined,
  };
  cards.value = new Map([...cards.value, [card.id, card]]);
}

const fits = (card: Card) =>
  only.value === "all" || card.status === only.value ||
  (only.value === "running" && ["queued", "streaming"].includes(card.status)) ||
  (only.value === "failed" && card.status === "timed_out");

export function Live() {
  useEffect(() => {
    void get<Page<Entry>>("v1/calls", { limit: 200 }).then((page) => [...page.items].reverse().forEach(known), () => {});
    return follow("v1/live", heard);
  }, []);
  const chosen = route.value.parts[1];
  const shown = [...cards.value.values()].filter((card) => (!card.parent || !cards.value.has(card.parent)) && fits(card)).reverse();
  const card = chosen ? cards.value.get(chosen) : undefined;
  return (
    <>
      <div class="head">
        <h1>Live</h1>
        <span class="grow" />
        <div class="filters" role="group" aria-label="Which calls">
          {FILTERS.map((name) => <button key={name} aria-pressed={only.value === name} class={only.value === name ? "main" : ""} onClick={() => (only.value = name)}>{name}</button>)}
        </div>
      </div>
      <div class={`split ${card ? "chosen" : ""}`}>
        {shown.length === 0 ? <Nothing>Nothing yet. Calls appear here as they are made.</Nothing> : (
          <Rows count={shown.length} height={56} label="Calls" chosen={shown.findIndex((one) => one.id === chosen)}
            choose={(n) => go(to("live", shown[n]!.id))}
            row={(n) => { const one = shown[n]!; return (
              <a class="row" href={to("live", one.id)} aria-selected={one.id === chosen}>
                <span class="grow">
                  <span class="cut" style={{ display: "block" }}><b dir="auto">{one.label || one.tool}</b> <span class="soft small">{one.tool}</span></span>
                  <span class="cut soft small" style={{ display: "block" }}>
                    {one.session} · <Time at={one.accepted} />{one.duration !== undefined && ` · ${length(one.duration)}`}{one.message && !one.done ? ` · ${one.message}` : ""}
                  </span>
                  {one.progress !== undefined && !one.done && <span class="bar" style={{ display: "block", height: "3px" }}><i style={{ width: `${one.progress * 100}%` }} /></span>}
                </span>
                <State of={one.status} />
              </a>
            ); }} />
        )}
        <div>{card ? <CallCard card={card} cards={cards.value} /> : <Nothing>Choose a call to see all of it.</Nothing>}</div>
      </div>
    </>
  );
}
