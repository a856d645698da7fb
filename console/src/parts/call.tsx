// One call with all that is known of it.

import { useSignal } from "@preact/signals";
import { at, get, post, whole } from "../api";
import { type Answered, type Card, folded, over, take } from "../fold";
import { go, route, to } from "../router";
import type { Event, Page } from "../types";
import { Do, length, plain, Said, State, Time, Value } from "./basics";
import { Copy } from "./copy";
import { Answering } from "./question";
import { TraceLink } from "./trace";

/** What to mark in the result of a call, as the address of the page says. */
function marks(call: string): string[] {
  const { parts, query } = route.value;
  return query.get("call") === call || parts[2] === call ? query.getAll("mark") : [];
}

interface Given {
  card: Card;
  cards: Map<string, Card>;
  small?: boolean;
  /** Where one gets to from a call that was made again. */
  again?: (session: string, call: string) => void;
}

export function CallCard({ card, cards, small, again }: Given) {
  const where = at("sessions", card.session, "calls", card.id);
  const repeat = async () => {
    const made = await post<{ id: string }>(`${where}/again`);
    if (again) again(card.session, made.id);
    else go(to("live", card.session, made.id));
  };
  return (
    <article class="sheet call" aria-label={`${card.tool} ${card.status}`}>
      <div class="head">
        <b>
          <Said of={card.label || card.tool} />
        </b>
        <code class="soft">{card.tool}</code>
        <span class="grow" />
        <State of={card.status} />
      </div>
      <p class="small soft">
        {card.by?.name && (
          <>
            {card.by.kind} {plain(card.by.name)} ·{" "}
          </>
        )}
        <Time at={card.accepted} />
        {card.duration !== undefined && <> · took {length(card.duration)}</>}
      </p>
      {card.verdict && <Verdict of={card.verdict} />}
      <Progress card={card} />
      {card.question ? (
        <Answering key={card.question.id} question={card.question} />
      ) : (
        card.args !== undefined && <Part key="arguments" title="arguments" open={!small} of={card.args} />
      )}
      {!!card.output && <Part key="output" title="output" open of={card.output} />}
      {card.failure && (
        <p class="trouble">
          <b>{card.failure.code.replaceAll("_", " ")}</b> <Said of={card.failure.message} />
          {card.failure.hint && (
            <span class="soft">
              <Said of={card.failure.hint} />
            </span>
          )}
        </p>
      )}
      {card.data !== undefined && card.data !== null && (
        <Part key="result" title="result" open={!small} of={card.data} mark={marks(card.id)} />
      )}
      <Answers of={card.answers} />
      {card.status === "unknown" && <Settle where={where} />}
      <Copy session={card.session} tool={card.tool} args={card.args} />
      {!small && (
        <div class="actions">
          {!over(card) && (
            <Do class="bad" work={() => post(`${where}/cancel`)}>
              Cancel
            </Do>
          )}
          {over(card) && <Do work={repeat}>Run again</Do>}
          <a class="button" href={to("sessions", card.session)}>
            Its session
          </a>
          <TraceLink trace={card.trace} session={card.session} call={card.id} />
        </div>
      )}
      {card.children
        .map((id) => cards.get(id))
        .filter((child) => child !== undefined)
        .map((child) => (
          <div key={child.id} class="child">
            <CallCard card={child} cards={cards} small />
          </div>
        ))}
    </article>
  );
}

/** One that is open or shown whole stays so while others come: each needs a `key`, or one that comes takes the place of one that is there. */
const Part = ({ title, open, of, mark }: { title: string; open: boolean; of: unknown; mark?: string[] }) => (
  <details open={open}>
    <summary class="small soft">{title}</summary>
    <Value of={of} label={title} mark={mark} />
  </details>
);

const VERDICTS: Record<string, string> = { allow: "allowed", ask: "asks first", deny: "denied" };

const Verdict = ({ of }: { of: NonNullable<Card["verdict"]> }) => (
  <p class="small soft">
    policy: <b>{VERDICTS[of.effect] ?? of.effect}</b>
    {of.message && (
      <>
        {" "}
        because <Said of={of.message} />
      </>
    )}
    {of.by && ` (${plain(of.by)})`}
    {of.rule && (
      <>
        {" "}
        by the rule <code>{plain(of.rule)}</code>
      </>
    )}
  </p>
);

export function Progress({ card }: { card: Card }) {
  if (over(card) || (card.progress === undefined && !card.message)) return null;
  const done = card.progress === undefined ? undefined : Math.round(Math.min(1, Math.max(0, card.progress)) * 100);
  return (
    <>
      {done !== undefined && (
        <div class="bar" role="progressbar" aria-label="Progress" aria-valuenow={done} aria-valuemin={0} aria-valuemax={100}>
          <i style={{ width: `${done}%` }} />
        </div>
      )}
      {card.message && (
        <p class="small">
          <Said of={card.message} />
        </p>
      )}
    </>
  );
}

/** Who answered what. */
export const Answers = ({ of }: { of: Answered[] }) => (
  <>
    {of.map((one, n) => (
      <p key={n} class="small soft">
        <b>{plain(one.actor)}</b>: {one.action}
        {one.edited && ", with other arguments"}
        {one.scope === "session" && ", for the session"}
        {one.reason && (
          <>
            {" "}
            (<Said of={one.reason} />)
          </>
        )}{" "}
        · <Time at={one.at} />
      </p>
    ))}
  </>
);

/** A call of which nobody knows whether it ran is settled by somebody who looked. */
function Settle({ where }: { where: string }) {
  const reason = useSignal("");
  const settle = (outcome: string) => post(`${where}/reconcile`, { outcome, reason: reason.value || undefined });
  return (
    <section aria-label="What came of it">
      <p class="small">It may have run, or not: nobody knows. Look at what it does, then say what came of it.</p>
      <label class="field small soft">
        How you know (goes to the log)
        <input value={reason.value} onInput={(event) => (reason.value = event.currentTarget.value)} />
      </label>
      <div class="actions">
        <Do class="main" work={() => settle("happened")}>
          It happened
        </Do>
        <Do work={() => settle("not")}>It did not happen</Do>
      </div>
    </section>
  );
}

const SOME = 1000;

/** All that the log says of a call and of those that it made. */
export async function fetched(session: string, call: string, upto = Infinity): Promise<Map<string, Card>> {
  const events = at("sessions", session, "events");
  const lines = (await get<Page<Event>>(events, { call, limit: SOME })).items.filter((event) => event.seq <= upto);
  const own = await Promise.all(lines.map((event) => whole(event)));
  const cards = folded(own);
  const card = cards.get(call);
  if (!card) return cards;
  const after = card.seq;
  const rest = over(card) ? Math.min(SOME, own.at(-1)!.seq - after) : SOME;
  if (rest <= own.length) return cards; // nobody else was at work meanwhile
  const family = new Set([call]);
  for (const event of (await get<Page<Event>>(events, { after, limit: rest })).items) {
    if (event.seq > upto) break;
    if (event.kind === "accepted" && family.has(event.data.parent)) family.add(event.call!);
    if (event.call && event.call !== call && family.has(event.call)) take(cards, event);
  }
  return cards;
}
