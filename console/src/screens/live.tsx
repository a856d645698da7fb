// What happens right now, in all sessions that one may see.

import { computed, signal, useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { at, follow, get, returns } from "../api";
import { type Card, folded, known, listed, over, take } from "../fold";
import { Choice, length, Nothing, Said, State, Time, Trouble, tone } from "../parts/basics";
import { CallCard, fetched } from "../parts/call";
import { Rows } from "../parts/rows";
import { go, narrow, route, stay, to } from "../router";
import type { Entry, Event, Page } from "../types";

const MOST = 2_000;
const LOOKED_AT = 10;
const BEFORE = 100;
const FILTERS = ["all", "running", "waiting", "failed", "unknown"] as const;

const cards = signal(new Map<string, Card>());
type Filter = (typeof FILTERS)[number];
/** Which calls are looked at, as the address says. */
const only = computed(() =>
  (FILTERS as readonly string[]).includes(route.value.query.get("only") ?? "") ? (route.value.query.get("only") as Filter) : "all",
);

/** Events come in bursts, which are folded and drawn once a frame. */
let burst: Event[] = [];

/** For each list that is on its way what was heard meanwhile: it may be newer than what the list tells. */
const meanwhile = new Set<Event[]>();

function heard(event: Event): void {
  burst.push(event);
  for (const events of meanwhile) events.push(event);
  if (burst.length === 1) requestAnimationFrame(draw);
  else if (burst.length >= MOST) draw(); // a page in the background is drawn much later
}

function draw(): void {
  const fresh = new Map(cards.value);
  for (const event of burst) take(fresh, event);
  burst = [];
  if (fresh.size > MOST) forget(fresh);
  cards.value = fresh;
}

/** Forgets the oldest calls that are over; a page in the background hears much before it is drawn again. */
function forget(all: Map<string, Card>): void {
  let spare = MOST / 10;
  for (const card of all.values()) {
    if (!spare) return;
    if (over(card)) {
      all.delete(card.id);
      spare--;
    }
  }
}

/** What was called before anything was heard, within an hour or what the timeline shows. */
async function past(seconds: number): Promise<void> {
  const mine: Event[] = [];
  meanwhile.add(mine);
  try {
    await read(seconds, mine);
  } finally {
    meanwhile.delete(mine);
  }
}

/** Folds in again what was heard: of a call that was not known yet nothing could be kept. */
function replay(events: Event[]): void {
  const fresh = new Map(cards.value);
  for (const event of events) take(fresh, event);
  cards.value = fresh;
}

async function read(seconds: number, mine: Event[]): Promise<void> {
  const since = Math.floor(Date.now() / 1000) - Math.max(seconds, 3600);
  const { items } = await get<Page<Entry>>("v1/calls", { since, limit: 200 });
  const found = new Map<string, Card>();
  for (const entry of items.toReversed()) listed(found, entry, entry.session ?? "");
  const first = new Map<string, number>();
  for (const { session, seq } of found.values()) first.set(session, Math.min(seq, first.get(session) ?? seq));
  cards.value = new Map([...found, ...cards.value]);
  replay(mine);
  await Promise.all([...first].slice(-LOOKED_AT).map(([session, seq]) => made(session, seq)));
  replay(mine);
}

/** Learns from the log of a session how far its calls are, and which of them made which. Lists do not tell. */
async function made(session: string, seq: number): Promise<void> {
  const { items } = await get<Page<Event>>(at("sessions", session, "events"), { after: Math.max(0, seq - BEFORE), limit: 1000 });
  const fuller = new Map(cards.value);
  for (const card of folded(items).values()) known(fuller, card);
  cards.value = fuller;
}

const fits = (card: Card) =>
  only.value === "all" ||
  card.status === only.value ||
  (only.value === "running" && ["queued", "streaming"].includes(card.status)) ||
  (only.value === "failed" && card.status === "timed_out");

interface Line {
  card: Card;
  depth: number;
}

/** The newest first, each with the calls that it made below it. */
function ordered(all: Map<string, Card>): Line[] {
  const lines: Line[] = [];
  const add = (card: Card, depth: number) => {
    if (fits(card)) lines.push({ card, depth });
    for (const child of card.children) if (all.has(child)) add(all.get(child)!, depth + 1);
  };
  for (const card of [...all.values()].reverse()) if (!card.parent || !all.has(card.parent)) add(card, 0);
  return lines;
}

const SPANS = [
  ["60", "last minute"],
  ["600", "last 10 minutes"],
  ["3600", "last hour"],
  ["86400", "last day"],
] as const;
const span = computed(() => SPANS.find(([seconds]) => seconds === route.value.query.get("span"))?.[0] ?? "600");
const clock = signal(Date.now() / 1000);

export function Live() {
  const trouble = useSignal<unknown>(undefined);
  const paused = useSignal<Map<string, Card> | undefined>(undefined);
  // What was before is asked for once what comes is heard: between the two nothing is lost.
  const listening = useSignal(0);
  useEffect(() => follow("v1/live", heard, false, () => listening.value++), []);
  useEffect(() => {
    if (listening.value)
      void past(Number(span.value)).then(
        () => (trouble.value = undefined),
        (error) => (trouble.value = error),
      );
  }, [span.value, returns.value, listening.value]);
  useEffect(() => {
    const tick = () => {
      if (!paused.value) clock.value = Date.now() / 1000;
    };
    tick();
    const timer = setInterval(tick, 1000);
    return () => clearInterval(timer);
  }, []);
  const [, session, call] = route.value.parts;
  const all = paused.value ?? cards.value;
  const shown = ordered(all);
  const open = (n: number) => go(stay("live", shown[n]!.card.session, shown[n]!.card.id));
  return (
    <>
      <div class="head">
        <h1>Live</h1>
        <span class="soft">{shown.length.toLocaleString()} calls</span>
        <span class="grow" />
        <div class="filters joined" role="group" aria-label="Which calls">
          {FILTERS.map((name) => (
            <button key={name} aria-pressed={only.value === name} onClick={() => narrow("only")(name === "all" ? "" : name)}>
              {name}
            </button>
          ))}
        </div>
        <div class="filters">
          <Choice label="Timeline" value={span.value} choices={SPANS} changed={narrow("span")} />
          <button aria-pressed={!!paused.value} onClick={() => (paused.value = paused.value ? undefined : cards.value)}>
            Pause
          </button>
        </div>
      </div>
      <Trouble of={trouble.value} />
      <div class={`split timeline ${call ? "chosen" : ""}`}>
        {shown.length === 0 ? (
          <Nothing>
            {only.value === "all" ? (
              <>
                Nothing was called lately. Calls appear here as they are made: <a href={to("tools")}>try a tool</a>, or{" "}
                <a href={to("agents")}>talk to an agent</a>.
              </>
            ) : (
              `No call is ${only.value}.`
            )}
          </Nothing>
        ) : (
          <Rows
            count={shown.length}
            height={56}
            label="Calls"
            chosen={shown.findIndex((one) => one.card.id === call)}
            choose={open}
            row={(n) => <CallRow {...shown[n]!} chosen={shown[n]!.card.id === call} />}
          />
        )}
        <div class="detail">{session && call && <Chosen key={call} session={session} call={call} />}</div>
      </div>
    </>
  );
}

const CallRow = ({ card, depth, chosen }: Line & { chosen: boolean }) => (
  <a class="row" tabIndex={-1} href={stay("live", card.session, card.id)} aria-current={chosen ? "true" : undefined}>
    <span class="grow" style={{ paddingLeft: `${depth * 20}px` }}>
      <span class="cut line">
        {depth > 0 && (
          <span class="soft" aria-hidden="true">
            └{" "}
          </span>
        )}
        <b>
          <Said of={card.label || card.tool} most={100} />
        </b>{" "}
        <span class="soft small">{card.tool}</span>
      </span>
      <span class="cut line soft small">
        {card.session} · <Time at={card.accepted} />
        {card.duration !== undefined && ` · ${length(card.duration)}`}
        {card.failure ? (
          <>
            {" "}
            · <Said of={card.failure.message} most={100} />
          </>
        ) : card.message && !card.done ? (
          <>
            {" "}
            · <Said of={card.message} most={100} />
          </>
        ) : null}
      </span>
    </span>
    <Track card={card} />
    <State of={card.status} />
  </a>
);

/** When a call ran, within the time that is looked at; how far it is while it runs. */
function Track({ card }: { card: Card }) {
  const seconds = Number(span.value);
  const end = card.done ?? clock.value;
  const place = (at: number) => Math.min(100, Math.max(0, 100 - ((clock.value - at) / seconds) * 100));
  const [from, to] = [place(card.accepted), place(end)];
  const before = clock.value - end > seconds;
  return (
    <span class={`track ${tone(card.status)}`} aria-hidden="true">
      {!before && (
        <i style={{ left: `min(${from}%, 100% - 3px)`, width: `max(${to - from}%, 3px)` }}>
          {card.progress !== undefined && !over(card) && <b style={{ width: `${card.progress * 100}%` }} />}
        </i>
      )}
    </span>
  );
}

/** One call: what its log says, and from then on what is heard of it. */
function Chosen({ session, call }: { session: string; call: string }) {
  const trouble = useSignal<unknown>(undefined);
  const whole = useSignal(false);
  useEffect(() => {
    fetched(session, call).then(
      (found) => {
        // What was heard of it meanwhile is newer.
        const now = cards.value.get(call);
        if (now && now.last > (found.get(call)?.last ?? -1)) found.delete(call);
        if (now || found.has(call)) cards.value = new Map([...cards.value, ...found]);
        whole.value = true;
      },
      (error) => (trouble.value = error),
    );
  }, [call, returns.value]);
  const card = cards.value.get(call);
  return (
    <>
      <a class="back" href={stay("live")}>
        ‹ all calls
      </a>
      <Trouble of={trouble.value} />
      {card ? <CallCard card={card} cards={cards.value} /> : whole.value && <Nothing>The log says nothing of this call.</Nothing>}
    </>
  );
}
