// Sessions, the log of one, and how it looked at any of its events.

import { useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { at, follow, get, me, Problem, returns, whole } from "../api";
import type { Card } from "../fold";
import type { EntryForm, ListsForm, StateForm } from "../forms";
import { Log } from "../log";
import { Choice, Do, Nothing, plain, Said, Search, State, Time, Trouble, useAddressed, useAsked, usePages, Value } from "../parts/basics";
import { CallCard, fetched } from "../parts/call";
import { Rows } from "../parts/rows";
import { saved } from "../parts/saved";
import { SpanSheet } from "../parts/span";
import { Waterfall } from "../parts/waterfall";
import { go, narrow, narrowed, route, to } from "../router";
import { SpanLog } from "../span_log";
import { type Span, titled } from "../spans";
import type { Event, Page, SessionLine } from "../types";

export function Sessions() {
  const chosen = route.value.parts[1];
  return chosen ? <One key={chosen} id={chosen} /> : <All />;
}

const STATES = [
  ["", "every state"],
  ["waiting", "waits for somebody"],
  ["running", "runs"],
  ["idle", "idle"],
] as const;

function All() {
  const asked = narrowed("q", "owner", "state");
  const sessions = usePages<SessionLine>("v1/sessions", asked);
  const chosen = useSignal(-1);
  return (
    <>
      <div class="head">
        <h1>Sessions</h1>
        <span class="grow" />
        <div class="filters">
          <Search label="Search sessions" first value={asked.q} changed={narrow("q")} />
          {me.value?.admin && me.value.auth !== "off" && <Search label="Owner" value={asked.owner} changed={narrow("owner")} />}
          <Choice label="State" value={asked.state ?? ""} choices={STATES} changed={narrow("state")} />
          <button onClick={sessions.again}>Refresh</button>
        </div>
      </div>
      <Trouble of={sessions.trouble} />
      {sessions.items.length === 0 && !sessions.busy && !sessions.trouble ? (
        <Nothing>No session fits. Each call is made in one: try a tool, or talk to an agent.</Nothing>
      ) : (
        <Rows
          count={sessions.items.length}
          height={40}
          label="Sessions"
          more={sessions.more}
          chosen={chosen.value}
          choose={(n) => (chosen.value = n)}
          enter={(n) => go(to("sessions", sessions.items[n]!.id))}
          row={(n) => <SessionRow of={sessions.items[n]!} chosen={n === chosen.value} />}
        />
      )}
    </>
  );
}

const SessionRow = ({ of, chosen }: { of: SessionLine; chosen: boolean }) => (
  <a class="row middle" tabIndex={-1} href={to("sessions", of.id)} aria-current={chosen ? "true" : undefined}>
    <b class="grow cut">{of.id}</b>
    <span class="cut states">
      {!!of.waiting && <State of="waiting" />}
      {!!of.running && <State of="running" />}
    </span>
    <span class="cut agent wide-only">{of.agent && <span class="tag">{plain(of.agent)}</span>}</span>
    <span class="soft small cut owner wide-only">{plain(of.owner)}</span>
    <span class="soft small end wide-only events">{of.seq.toLocaleString()} events</span>
    <span class="end when">
      <Time at={of.touched} />
    </span>
  </a>
);

/** The event that a part of the address names. */
const numbered = (text: string) => (/^\d{1,15}$/.test(text) ? Number(text) : undefined);

function One({ id }: { id: string }) {
  const drawn = useSignal(0);
  const trouble = useSignal<unknown>(undefined);
  const log = useRef(
    new Log(
      id,
      () => drawn.value++,
      (error) => (trouble.value = error),
    ),
  ).current;
  const moved = useAddressed("at");
  const opened = useAddressed("event");
  const spanned = useAddressed("span");
  const upto = numbered(moved.value);
  const shown = numbered(opened.value);
  const spans = useRef(
    new SpanLog(
      id,
      () => drawn.value++,
      (error) => (trouble.value = error),
    ),
  ).current;
  const line = useSignal<SessionLine | undefined>(undefined);
  const turn = useSignal(0);
  void drawn.value;

  useEffect(() => {
    if (shown) log.need(shown, shown);
  }, [shown]);
  useEffect(() => {
    let stop = () => {};
    let over = false;
    get<SessionLine>(at("sessions", id)).then(
      (found) => {
        if (over) return;
        line.value = found;
        log.last = found.seq;
        drawn.value++;
        void spans.read(found.seq);
        let asked = false;
        stop = follow(`${at("sessions", id, "events")}?after=${log.last}`, (event) => {
          log.put(event);
          spans.put(event);
          if (!asked)
            requestAnimationFrame(() => {
              asked = false;
              drawn.value++;
            });
          asked = true;
        });
      },
      (error) => (trouble.value = error),
    );
    return () => {
      over = true;
      stop();
      spans.stop();
    };
  }, [id, turn.value]);
  useEffect(() => {
    // A stream finds back by itself; what failed is tried again.
    if (!line.value && trouble.value) turn.value++;
    trouble.value = undefined;
    log.again();
  }, [returns.value]);

  const now = Math.min(upto ?? log.last, log.last);
  const chosen = spans.spans.known.get(spanned.value);
  const choose = (span: Span) => {
    spanned.value = span.id;
    opened.value = "";
  };
  const slowly = useSlowly(now);
  const changes = useSlowly(spans.spans.changes, DRAWN_MS);
  // Drawn for what it shows, and not for each event of the list.
  const fall = useMemo(
    () =>
      changes > 0 && (
        <Waterfall
          spans={spans.spans}
          changes={changes}
          upto={upto === undefined ? Infinity : now}
          past={upto !== undefined}
          chosen={chosen}
          choose={choose}
        />
      ),
    [changes, upto, upto === undefined || now, chosen],
  );
  // What nobody can be shown has no log to scrub through.
  if (!line.value && trouble.value instanceof Problem && trouble.value.status)
    return (
      <>
        <div class="head">
          <a href={to("sessions")}>Sessions</a>
          <h1 class="mono cut">{id}</h1>
        </div>
        <Trouble of={trouble.value} />
      </>
    );
  const move = (seq: number) => (moved.value = seq >= log.last ? "" : String(Math.max(0, seq)));
  const show = (seq: number) => (opened.value = String(seq));
  const until = upto === undefined ? spans.spans.time : (spans.spans.times[now - 1] ?? spans.spans.time);
  // Of a chosen span only its own events are listed, as far as the slider has come.
  const own = chosen?.seqs.filter((seq) => seq <= now);
  const called = route.value.query.get("call");
  const event = shown === undefined ? undefined : log.at(shown);
  return (
    <>
      <div class="head">
        <a href={to("sessions")}>Sessions</a>
        <h1 class="mono cut">{id}</h1>
        <span class="soft small">{line.value && `of ${line.value.owner}`}</span>
        <span class="grow" />
        <Do work={() => save(id)}>Export</Do>
        {me.value?.features.agents && (
          <a class="button" href={to("agents", "chat", id)}>
            Talk
          </a>
        )}
      </div>
      <Trouble of={trouble.value} />
      <div class="head replay">
        <label for="scrub" class="small soft">
          At event {now.toLocaleString()} of {log.last.toLocaleString()}
        </label>
        <input id="scrub" type="range" min={0} max={log.last} value={now} onInput={(input) => move(Number(input.currentTarget.value))} />
        <button disabled={now <= 0} onClick={() => move(now - 1)} aria-label="One event back">
          ‹
        </button>
        <button disabled={now >= log.last} onClick={() => move(now + 1)} aria-label="One event on">
          ›
        </button>
        <button disabled={upto === undefined} onClick={() => (moved.value = "")}>
          Now
        </button>
      </div>
      <div class={`split both session ${chosen ? "spanned" : ""}`}>
        <div class="session-left">
          {fall}
          {own && (
            <p class="small soft own-events">
              Events of {plain(titled(chosen!))}{" "}
              <button class="small" onClick={() => (spanned.value = "")}>
                Show all events
              </button>
            </p>
          )}
          <Events log={log} seqs={own} count={now} shown={shown} show={show} />
        </div>
        <div class="detail">
          {chosen && <SpanSheet session={id} span={chosen} until={until} upto={upto === undefined ? undefined : now} choose={choose} />}
          {called && <Called key={called} session={id} call={called} />}
          {event && (
            <section class="sheet" aria-label={`Event ${event.seq}`}>
              <div class="head">
                <h2>
                  {event.seq} {event.kind}
                </h2>
                <span class="grow" />
                {event.call && (
                  <a class="small" href={to("live", id, event.call)}>
                    the call
                  </a>
                )}
              </div>
              <Value of={event.data} label="Event" />
            </section>
          )}
          {line.value && <Then id={id} seq={slowly} past={upto !== undefined} />}
        </div>
      </div>
    </>
  );
}

interface Listed {
  log: Log;
  /** Only these; else all up to `count`. */
  seqs: number[] | undefined;
  count: number;
  shown: number | undefined;
  show: (seq: number) => void;
}

function Events({ log, seqs, count, shown, show }: Listed) {
  const seq = (n: number) => (seqs ? seqs[n]! : n + 1);
  const place = shown === undefined ? undefined : seqs ? seqs.indexOf(shown) : shown - 1;
  const seen = (first: number, last: number) => {
    if (!seqs) log.need(first + 1, last);
    else for (const one of seqs.slice(first, last)) log.need(one, one);
  };
  return (
    <Rows
      key={seqs ? "own" : "all"}
      count={seqs ? seqs.length : count}
      height={30}
      label="Events"
      stick={!seqs}
      chosen={place}
      choose={(n) => show(seq(n))}
      seen={seen}
      row={(n) => <EventRow seq={seq(n)} of={log.at(seq(n))} log={log} chosen={seq(n) === shown} choose={() => show(seq(n))} />}
    />
  );
}

function EventRow({ seq, of, log, chosen, choose }: { seq: number; of: Event | undefined; log: Log; chosen: boolean; choose: () => void }) {
  return (
    <button class="row bare" tabIndex={-1} aria-pressed={chosen} onClick={choose}>
      <span class="soft small end seq">{seq}</span>
      <b class="cut kind">{of?.kind ?? "…"}</b>
      <span class="grow cut soft small">
        <bdi>{of && summary(of, log.tools.get(of.call ?? ""))}</bdi>
      </span>
      <Time at={of?.time} />
    </button>
  );
}

/** Calls by what they do now: one that began may wait as well. */
function sorted({ unresolved, ongoing, completed }: ListsForm): [string, EntryForm[]][] {
  const open = [...unresolved, ...ongoing];
  const of = (...states: string[]) => open.filter((one) => states.includes(one.status));
  return [
    ["Waits", of("waiting")],
    ["Queued", of("queued")],
    ["Runs", of("running", "streaming")],
    ["Done", completed],
  ];
}
const FEW = 20;

/** The session as it was at an event, or as it is. */
function Then({ id, seq, past }: { id: string; seq: number; past: boolean }) {
  const then = useAsked(
    async (abort) => {
      const when = past ? { at: seq } : {};
      const [state, lists] = await Promise.all([
        get<StateForm>(at("sessions", id, "state"), when, abort),
        get<ListsForm>(at("sessions", id, "lists"), { ...when, limit: FEW }, abort),
      ]);
      return { state, lists };
    },
    [id, seq, past],
  );
  if (!then.value) return <Trouble of={then.trouble} />;
  const { state, lists } = then.value;
  return (
    <>
      <section class="sheet" aria-label="State">
        <h2>State {state.agent && <span class="tag">agent {plain(state.agent)}</span>}</h2>
        {Object.keys(state.state).length ? <Value of={state.state} label="Values" /> : <p class="soft small">Tools keep nothing here.</p>}
        {!!Object.keys(state.user ?? {}).length && (
          <>
            <h3>of its user</h3>
            <Value of={state.user} label="User" />
          </>
        )}
      </section>
      {sorted(lists).map(
        ([title, calls]) =>
          calls.length > 0 && (
            <section class="sheet" key={title} aria-label={title}>
              <h2>{title}</h2>
              {calls
                .slice(-FEW)
                .reverse()
                .map((one) => (
                  <CallLine key={one.id} session={id} entry={one} />
                ))}
            </section>
          ),
      )}
    </>
  );
}

const SLOW_MS = 300;
const DRAWN_MS = 120;

/** The same value, but not more often than anybody can read what follows from it. */
function useSlowly<T>(value: T, slowMs = SLOW_MS): T {
  const slow = useSignal(value);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  const last = useRef(value);
  last.current = value;
  useEffect(() => {
    timer.current ??= setTimeout(() => {
      timer.current = undefined;
      slow.value = last.current;
    }, slowMs);
  }, [value]);
  useEffect(() => () => clearTimeout(timer.current), []);
  return slow.value;
}

/** A call in one line; opened, all of it. */
function CallLine({ session, entry }: { session: string; entry: EntryForm }) {
  const open = useSignal(false);
  const cards = useSignal(new Map<string, Card>());
  const toggle = async () => {
    open.value = !open.value;
    if (open.value) cards.value = await fetched(session, entry.id).catch(() => cards.value);
  };
  const card = cards.value.get(entry.id);
  return (
    <>
      <button class="row bare flat" aria-expanded={open.value} onClick={toggle}>
        <span class="grow cut">
          <b>
            <Said of={entry.label || entry.tool} most={100} />
          </b>{" "}
          <span class="soft small">{entry.tool}</span>
        </span>
        <State of={entry.status} />
      </button>
      {open.value && card && <CallCard card={card} cards={cards.value} />}
    </>
  );
}

/** The call that the address names. */
function Called({ session, call }: { session: string; call: string }) {
  const cards = useAsked(() => fetched(session, call), [session, call]);
  const card = cards.value?.get(call);
  if (card) return <CallCard card={card} cards={cards.value!} />;
  return cards.value ? <Nothing>The log says nothing of this call.</Nothing> : <Trouble of={cards.trouble} />;
}

function summary({ data }: Event, tool?: string): string {
  const parts = [
    tool ?? data.tool,
    data.role,
    data.agent,
    data.content,
    data.delta,
    data.message,
    data.action,
    data.actor,
    data.reason,
    data.failure?.message,
    data.question?.prompt,
    data.ok === true ? "ok" : undefined,
    data.to,
  ];
  return plain(
    parts
      .filter((part) => typeof part === "string" && part)
      .join(" · ")
      .slice(0, 200),
  );
}

async function save(id: string): Promise<void> {
  const lines: string[] = [];
  for (let after = 0; ; ) {
    const { items } = await get<Page<Event>>(at("sessions", id, "events"), { after, limit: 1000 });
    if (!items.length) break;
    for (const event of items) lines.push(`${JSON.stringify(await whole(event))}\n`);
    after = items.at(-1)!.seq;
  }
  saved(`${id.replace(/[^\w.-]/g, "_")}.ndjson`, lines);
}
