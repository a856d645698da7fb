// Sessions, the log of one, and how it looked at any of its events.

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { at, follow, get } from "../api";
import { folded } from "../fold";
import { Nothing, State, Time, Trouble, useAsked, useLater, Value } from "../parts/basics";
import { CallCard } from "../parts/call";
import { Rows } from "../parts/rows";
import { go, route, to } from "../router";
import type { Event, Page, SessionLine } from "../types";

export function Sessions() {
  const chosen = route.value.parts[1];
  return chosen ? <One key={chosen} id={chosen} /> : <All />;
}

function All() {
  const search = useSignal("");
  const items = useSignal<SessionLine[]>([]);
  const next = useSignal<string | undefined>(undefined);
  const trouble = useSignal<unknown>(undefined);
  const busy = useSignal(false);
  const later = useLater();
  const load = async (after?: string) => {
    if (busy.value && after) return;
    busy.value = true;
    try {
      const page = await get<Page<SessionLine>>("v1/sessions", { q: search.value, after, limit: 200 });
      items.value = after ? [...items.value, ...page.items] : page.items;
      next.value = page.next;
    } catch (error) {
      trouble.value = error;
    } finally {
      busy.value = false;
    }
  };
  useEffect(() => void load(), []);
  return (
    <>
      <div class="head">
        <h1>Sessions</h1><span class="grow" />
        <input type="search" aria-label="Search sessions" placeholder="Search (press /)" style={{ width: "240px" }} data-search value={search.value}
          onInput={(event) => { search.value = event.currentTarget.value; later(load); }} />
        <button onClick={() => void load()}>Refresh</button>
      </div>
      <Trouble of={trouble.value} />
      {items.value.length === 0 && !busy.value ? <Nothing>No session yet.</Nothing> : (
        <Rows items={items.value} height={40} label="Sessions" more={() => next.value && void load(next.value)}
          row={(one) => (
            <a class="row" href={to("sessions", one.id)}>
              <b class="grow cut">{one.id}</b>
              <span class="soft small cut">{one.owner}</span>
              {one.agent && <span class="tag">{one.agent}</span>}
              {!!one.waiting && <State of="waiting" />}
              {!!one.running && <State of="running" />}
              <span class="soft small end" style={{ width: "90px" }}>{one.seq.toLocaleString()} events</span>
              <span style={{ width: "150px" }} class="end"><Time at={one.touched} /></span>
            </a>
          )} />
      )}
    </>
  );
}

const PAGE = 1000;
/** So many events of a long log are kept; one scrubs to the rest. */
const LIVE = 200_000;

function One({ id }: { id: string }) {
  const events = useSignal<Event[]>([]);
  const upto = useSignal<number | undefined>(undefined);
  const shown = useSignal<number | undefined>(undefined);
  const trouble = useSignal<unknown>(undefined);
  const kind = useSignal("");

  useEffect(() => {
    let over = false;
    let stop = () => {};
    const load = async () => {
      let after: string | undefined;
      do {
        const page: Page<Event> = await get<Page<Event>>(at("sessions", id, "events"), { after, limit: PAGE });
        if (over) return;
        events.value = [...events.value, ...page.items].slice(-LIVE);
        after = page.items.length === PAGE ? String(page.items.at(-1)!.seq) : undefined;
      } while (after);
      const last = events.value.at(-1)?.seq ?? 0;
      let batch: Event[] = [];
      stop = follow(`${at("sessions", id, "events")}?after=${last}`, (event) => {
        if (!batch.length) requestAnimationFrame(() => { events.value = [...events.value, ...batch].slice(-LIVE); batch = []; });
        batch.push(event);
      });
    };
    load().catch((error) => (trouble.value = error));
    return () => { over = true; stop(); };
  }, [id]);

  const last = events.value.at(-1)?.seq ?? 0;
  const now = upto.value ?? last;
  const past = upto.value === undefined ? events.value : events.value.filter((event) => event.seq <= now);
  const kinds = [...new Set(events.value.map((event) => event.kind))].sort();
  const listed = kind.value ? past.filter((event) => event.kind === kind.value) : past;
  const event = shown.value === undefined ? undefined : events.value.find((one) => one.seq === shown.value);
  return (
    <>
      <div class="head">
        <a href={to("sessions")}>Sessions</a><h1 class="mono cut">{id}</h1><span class="grow" />
        <select aria-label="Kind of event" style={{ width: "auto" }} value={kind.value} onChange={(change) => (kind.value = change.currentTarget.value)}>
          <option value="">every kind</option>{kinds.map((one) => <option key={one}>{one}</option>)}
        </select>
        <button onClick={() => save(id, events.value)}>Export</button>
        <button onClick={() => go(to("agents", "chat", id))}>Talk</button>
      </div>
      <Trouble of={trouble.value} />
      <div class="head">
        <label for="scrub" class="small soft">At event {now.toLocaleString()} of {last.toLocaleString()}</label>
        <input id="scrub" type="range" min={0} max={last} value={now} style={{ flex: 1, minWidth: "120px" }}
          onInput={(input) => { const seq = Number(input.currentTarget.value); upto.value = seq >= last ? undefined : seq; }} />
        <button disabled={now <= 0} onClick={() => (upto.value = Math.max(0, now - 1))} aria-label="One event back">‹</button>
        <button disabled={now >= last} onClick={() => (upto.value = now + 1 >= last ? undefined : now + 1)} aria-label="One event on">›</button>
        <button disabled={upto.value === undefined} onClick={() => (upto.value = undefined)}>Now</button>
      </div>
      <div class="split">
        <Rows items={listed} height={30} label="Events" stick chosen={listed.findIndex((one) => one.seq === shown.value)}
          choose={(n) => (shown.value = listed[n]!.seq)}
          row={(one) => (
            <button class="row bare" style={{ width: "100%", height: "30px", textAlign: "left" }} aria-pressed={one.seq === shown.value} onClick={() => (shown.value = one.seq)}>
              <span class="soft small end" style={{ width: "60px" }}>{one.seq}</span>
              <b style={{ width: "110px" }} class="cut">{one.kind}</b>
              <span class="grow cut soft small" dir="auto">{summary(one)}</span>
              <Time at={one.time} />
            </button>
          )} />
        <div>
          {event && <section class="sheet" aria-label={`Event ${event.seq}`}><h2>{event.seq} {event.kind}</h2><Value of={event.data} label="Event" /></section>}
          <Then id={id} seq={now} past={past} />
        </div>
      </div>
    </>
  );
}

/** The session as it was at an event: state and agent from the server, calls folded here. */
function Then({ id, seq, past }: { id: string; seq: number; past: Event[] }) {
  const state = useAsked<Record<string, any>>(async (abort) => {
    await new Promise((done) => setTimeout(done, 150));
    return abort.aborted ? {} : get(at("sessions", id, "state"), { at: seq }, abort);
  }, [id, seq]);
  const cards = folded(past);
  const open = [...cards.values()].filter((card) => !card.done && !card.parent);
  const recent = [...cards.values()].filter((card) => card.done && !card.parent).slice(-8).reverse();
  return (
    <>
      <section class="sheet" aria-label="State">
        <h2>State {state.value?.agent && <span class="tag">{state.value.agent}</span>}</h2>
        <Value of={state.value?.state ?? {}} label="State" />
      </section>
      {[...open, ...recent].map((card) => <CallCard key={card.id} card={card} cards={cards} small />)}
    </>
  );
}

function summary(event: Event): string {
  const { data } = event;
  return [data.tool, data.label, data.role, data.content, data.delta, data.message, data.answer, data.action, data.actor, data.reason,
    data.failure?.message, data.ok === true ? "ok" : undefined, data.to]
    .filter((part) => typeof part === "string" && part).join(" · ").slice(0, 200);
}

function save(id: string, events: Event[]): void {
  const text = events.map((event) => JSON.stringify(event)).join("\n") + "\n";
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "application/x-ndjson" }));
  link.download = `${id.replace(/[^\w.-]/g, "_")}.ndjson`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
