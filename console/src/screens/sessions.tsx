// Sessions, the log of one, and how it looked at any of its events.

import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { at, follow, get } from "../api";
import { folded, type Card } from "../fold";
import { Do, Nothing, State, Time, Trouble, useAsked, useLater, Value } from "../parts/basics";
import { CallCard } from "../parts/call";
import { Rows } from "../parts/rows";
import { go, route, to } from "../router";
import type { Entry, Event, Page, SessionLine } from "../types";

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
        <Rows count={items.value.length} height={40} label="Sessions" more={() => next.value && void load(next.value)}
          row={(n) => { const one = items.value[n]!; return (
            <a class="row" href={to("sessions", one.id)}>
              <b class="grow cut">{one.id}</b>
              <span class="soft small cut">{one.owner}</span>
              {one.agent && <span class="tag">{one.agent}</span>}
              {!!one.waiting && <State of="waiting" />}
              {!!one.running && <State of="running" />}
              <span class="soft small end" style={{ width: "90px" }}>{one.seq.toLocaleString()} events</span>
              <span style={{ width: "150px" }} class="end"><Time at={one.touched} /></span>
            </a>
          ); }} />
      )}
    </>
  );
}

const PAGE = 200;

/** The log of a session, however long: the pages that were looked at, and what has come since. */
class Log {
  readonly pages = new Map<number, Event[]>();
  private asked = new Set<number>();
  last = 0;

  constructor(
    private id: string,
    private changed: () => void,
    private failed: (error: unknown) => void,
  ) {}

  at(seq: number): Event | undefined {
    return this.pages.get(Math.floor((seq - 1) / PAGE))?.[(seq - 1) % PAGE];
  }

  need(first: number, last: number): void {
    for (let page = Math.floor((first - 1) / PAGE); page <= Math.floor((last - 1) / PAGE); page++) {
      if (page < 0 || this.asked.has(page)) continue;
      this.asked.add(page);
      get<Page<Event>>(at("sessions", this.id, "events"), { after: page * PAGE, limit: PAGE }).then(
        (found) => {
          found.items.forEach((event) => this.put(event));
          this.changed();
        },
        (error) => {
          this.asked.delete(page);
          this.failed(error);
        },
      );
    }
  }

  put(event: Event): void {
    const page = Math.floor((event.seq - 1) / PAGE);
    if (!this.pages.has(page)) this.pages.set(page, []);
    this.pages.get(page)![(event.seq - 1) % PAGE] = event;
    this.last = Math.max(this.last, event.seq);
  }
}

function One({ id }: { id: string }) {
  const drawn = useSignal(0);
  const trouble = useSignal<unknown>(undefined);
  const log = useRef(new Log(id, () => drawn.value++, (error) => (trouble.value = error))).current;
  const upto = useSignal<number | undefined>(undefined);
  const shown = useSignal<number | undefined>(undefined);
  const owner = useSignal("");
  void drawn.value;

  useEffect(() => {
    let stop = () => {};
    let over = false;
    get<SessionLine>(at("sessions", id)).then(
      (found) => {
        if (over) return;
        owner.value = found.owner;
        log.last = found.seq;
        drawn.value++;
        let asked = false;
        stop = follow(`${at("sessions", id, "events")}?after=${found.seq}`, (event) => {
          log.put(event);
          if (!asked) requestAnimationFrame(() => { asked = false; drawn.value++; });
          asked = true;
        });
      },
      (error) => (trouble.value = error),
    );
    return () => { over = true; stop(); };
  }, [id]);

  const now = upto.value ?? log.last;
  const move = (seq: number) => (upto.value = seq >= log.last ? undefined : Math.max(0, seq));
  const event = shown.value === undefined ? undefined : log.at(shown.value);
  return (
    <>
      <div class="head">
        <a href={to("sessions")}>Sessions</a><h1 class="mono cut">{id}</h1><span class="soft small">{owner.value}</span><span class="grow" />
        <Do work={() => save(id)}>Export</Do>
        <button onClick={() => go(to("agents", "chat", id))}>Talk</button>
      </div>
      <Trouble of={trouble.value} />
      <div class="head">
        <label for="scrub" class="small soft">At event {now.toLocaleString()} of {log.last.toLocaleString()}</label>
        <input id="scrub" type="range" min={0} max={log.last} value={now} style={{ flex: 1, minWidth: "120px" }}
          onInput={(input) => move(Number(input.currentTarget.value))} />
        <button disabled={now <= 0} onClick={() => move(now - 1)} aria-label="One event back">‹</button>
        <button disabled={now >= log.last} onClick={() => move(now + 1)} aria-label="One event on">›</button>
        <button disabled={upto.value === undefined} onClick={() => (upto.value = undefined)}>Now</button>
      </div>
      <div class="split">
        <Rows count={now} height={30} label="Events" stick chosen={shown.value === undefined ? undefined : shown.value - 1}
          choose={(n) => (shown.value = n + 1)} seen={(first, last) => log.need(first + 1, last)}
          row={(n) => {
            const one = log.at(n + 1);
            return (
              <button class="row bare" style={{ width: "100%", height: "30px", textAlign: "left" }} aria-pressed={n + 1 === shown.value} onClick={() => (shown.value = n + 1)}>
                <span class="soft small end" style={{ width: "60px" }}>{n + 1}</span>
                <b style={{ width: "110px" }} class="cut">{one?.kind ?? "…"}</b>
                <span class="grow cut soft small" dir="auto">{one && summary(one)}</span>
                <Time at={one?.time} />
              </button>
            );
          }} />
        <div>
          {event && <section class="sheet" aria-label={`Event ${event.seq}`}><h2>{event.seq} {event.kind}</h2><Value of={event.data} label="Event" /></section>}
          <Then id={id} seq={now} />
        </div>
      </div>
    </>
  );
}

type Lists = Record<"unresolved" | "ongoing" | "completed", Entry[]>;
const LISTS = [["unresolved", "Waits for somebody"], ["ongoing", "Runs"], ["completed", "Done"]] as const;
const FEW = 20;

/** The session as it was at an event. */
function Then({ id, seq }: { id: string; seq: number }) {
  const then = useAsked(async (abort) => {
    await new Promise((done) => setTimeout(done, 150));
    abort.throwIfAborted();
    const [state, lists] = await Promise.all([
      get<Record<string, any>>(at("sessions", id, "state"), { at: seq }, abort),
      get<Lists>(at("sessions", id, "lists"), { at: seq, limit: FEW }, abort),
    ]);
    return { state, lists };
  }, [id, seq]);
  if (!then.value) return <Trouble of={then.trouble} />;
  const { state, lists } = then.value;
  return (
    <>
      <section class="sheet" aria-label="State">
        <h2>State {state.agent && <span class="tag">{state.agent}</span>}</h2>
        <Value of={state.state ?? {}} label="State" />
      </section>
      {LISTS.map(([name, title]) => lists[name]?.length > 0 && (
        <section class="sheet" key={name} aria-label={title}>
          <h2>{title}</h2>
          {lists[name].slice(-FEW).reverse().map((one) => <CallLine key={one.id} session={id} entry={one} />)}
        </section>
      ))}
    </>
  );
}

/** A call in one line; opened, all of it. */
function CallLine({ session, entry }: { session: string; entry: Entry }) {
  const open = useSignal(false);
  const cards = useSignal(new Map<string, Card>());
  const toggle = async () => {
    open.value = !open.value;
    if (!open.value) return;
    const page = await get<Page<Event>>(at("sessions", session, "events"), { call: entry.id, limit: 1000 });
    cards.value = folded(page.items);
  };
  const card = cards.value.get(entry.id);
  return (
    <>
      <button class="row bare" style={{ width: "100%", textAlign: "left" }} aria-expanded={open.value} onClick={toggle}>
        <span class="grow cut"><b dir="auto">{entry.label || entry.tool}</b> <span class="soft small">{entry.tool}</span></span>
        <State of={entry.status} />
      </button>
      {open.value && card && <CallCard card={card} cards={cards.value} />}
    </>
  );
}

function summary(event: Event): string {
  const { data } = event;
  return [data.tool, data.label, data.role, data.content, data.delta, data.message, data.answer, data.action, data.actor, data.reason,
    data.failure?.message, data.ok === true ? "ok" : undefined, data.to]
    .filter((part) => typeof part === "string" && part).join(" · ").slice(0, 200);
}

async function save(id: string): Promise<void> {
  const pieces: string[] = [];
  for (let after = 0; ; ) {
    const { items } = await get<Page<Event>>(at("sessions", id, "events"), { after, limit: 1000 });
    if (!items.length) break;
    pieces.push(...items.map((event) => JSON.stringify(event) + "\n"));
    after = items.at(-1)!.seq;
  }
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob(pieces, { type: "application/x-ndjson" }));
  link.download = `${id.replace(/[^\w.-]/g, "_")}.ndjson`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
