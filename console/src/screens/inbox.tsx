// Questions that wait for a person. j and k go through them; a approves, d declines.

import { useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect } from "preact/hooks";
import { asks } from "../accounts";
import { at, get, post } from "../api";
import { bare, Nothing, plain, Said, State, Time, Trouble, useAsked } from "../parts/basics";
import { Answers } from "../parts/call";
import { Copy } from "../parts/copy";
import { Answering } from "../parts/question";
import { Rows } from "../parts/rows";
import { counted, fill, more, questions, refresh, seek, trouble } from "../questions";
import { go, route, to } from "../router";
import type { Audited, Entry, Page, Question } from "../types";

const DAY_S = 86_400;
const LOOK_MS = 30_000;
/** How many letters surely fit into a line of a question. */
const LINE = innerWidth > 760 && innerWidth < 1240 ? 20 : 30;

/** The height of a row: up to three lines of its question, its arguments, and where it comes from. */
function high(items: Question[]): number {
  const longest = Math.max(0, ...items.slice(0, 100).map((one) => asks(one).length));
  return 58 + 19 * Math.min(3, Math.ceil(longest / LINE));
}

/** What is open, and which of it is looked at. */
function looked() {
  const items = questions.value ?? [];
  const found = items.findIndex((one) => one.id === route.value.parts[1]);
  return { items, found, question: items[found] };
}

export function Inbox() {
  const items = questions.value ?? [];
  const failed = useSignal<unknown>(undefined);
  const done = useSignal("");
  const turn = useSignal(0);
  const { found, question } = looked();
  const height = high(items);
  const ending = useEnd(() => turn.value++);
  const answered = (action: string, of: Question) => {
    failed.value = undefined;
    done.value = `${of.tool}: ${action}`;
    const { found, items } = looked();
    const following = items[found + 1] ?? items[found - 1];
    go(following ? to("inbox", following.id) : to("inbox"));
    turn.value++;
    ending.value = of;
    void refresh();
  };
  useEffect(() => {
    void fill(innerHeight / height);
  }, [questions.value]);
  const wanted = route.value.parts[1];
  useEffect(() => {
    if (wanted && questions.value && !question) void seek(wanted);
  }, [wanted, questions.value]);
  useEffect(() => {
    const timer = setInterval(() => turn.value++, LOOK_MS);
    return () => clearInterval(timer);
  }, []);
  useLayoutEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      if (!bare(event)) return;
      const { found, items, question } = looked();
      const step = { j: 1, k: -1 }[event.key];
      const action = { a: "accept", d: "decline" }[event.key];
      if (step !== undefined && items.length) go(to("inbox", items[Math.max(0, Math.min(items.length - 1, found + step))]!.id));
      else if (question && (action === "decline" || (action && question.kind === "confirm")))
        post(at("sessions", question.session, "answers"), { question: question.id, action }).then(
          () => answered(action, question),
          (error) => (failed.value = error),
        );
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
  return (
    <>
      <div class="head">
        <h1>Inbox</h1>
        <span class="soft">{counted.value} open</span>
        <span class="grow" />
        <span class="soft small keys">
          <kbd>j</kbd> <kbd>k</kbd> next, previous · <kbd>a</kbd> approve · <kbd>d</kbd> decline
        </span>
      </div>
      <Trouble of={failed.value ?? trouble.value} />
      <p class="hidden-text" role="status">
        {done.value}
      </p>
      <div class={`split always ${question ? "chosen" : ""}`}>
        {questions.value && items.length === 0 ? (
          <Nothing>
            Nobody waits for an answer. Calls that ask first appear here; the <a href="#/tools">tools</a> that cannot be undone do, unless a
            rule of the policy says otherwise.
          </Nothing>
        ) : (
          <Rows
            count={items.length}
            height={height}
            label="Open questions"
            more={() => void more()}
            chosen={found}
            choose={(n) => go(to("inbox", items[n]!.id))}
            row={(n) => <QuestionRow question={items[n]!} chosen={n === found} />}
          />
        )}
        <div class="detail">
          {question && (
            <a class="back" href={to("inbox")}>
              ‹ all questions
            </a>
          )}
          {question ? (
            <section class="sheet" aria-label="Question">
              <Answering key={question.id} question={question} answered={(action) => answered(action, question)} />
              <Copy session={question.session} tool={question.tool} args={question.arguments} />
            </section>
          ) : (
            items.length > 0 && <Nothing>{wanted ? "This question was answered, or is not for you. " : ""}Choose a question.</Nothing>
          )}
          <Unknown />
          <Lately turn={turn.value} />
        </div>
      </div>
    </>
  );
}

/** Notices when the call of the question that was answered last is over: only then the audit has it. One is awaited at a time, since browsers have few connections. */
function useEnd(over: () => void) {
  const ending = useSignal<Question | undefined>(undefined);
  useEffect(() => {
    if (!ending.value) return;
    const abort = new AbortController();
    const { session, call } = ending.value;
    get(at("sessions", session, "calls", call, "result"), { wait: 60 }, abort.signal).then(over, () => {});
    return () => abort.abort();
  }, [ending.value]);
  return ending;
}

const QuestionRow = ({ question, chosen }: { question: Question; chosen: boolean }) => (
  <a class="row" tabIndex={-1} href={to("inbox", question.id)} aria-current={chosen ? "true" : undefined}>
    <span class="grow" title={plain(asks(question))}>
      <b class="few-lines">
        <Said of={asks(question)} most={400} />
      </b>
      <span class="cut line small">
        <Said of={inShort(question.arguments) || question.tool} most={200} />
      </span>
      <span class="cut line soft small">
        <Time at={question.asked_at} /> · {question.session}
        {question.owner ? ` · ${plain(question.owner)}` : ""}
      </span>
    </span>
    {question.kind !== "confirm" && <span class="tag">{question.kind}</span>}
  </a>
);

const inShort = (args: Record<string, unknown>) =>
  Object.entries(args)
    .map(([name, value]) => `${name} = ${typeof value === "string" ? value.slice(0, 60) : JSON.stringify(value).slice(0, 60)}`)
    .join(", ");

/** Calls of which nobody knows whether they ran: somebody has to look. They come of crashes, so they are asked for once. */
function Unknown() {
  const unknown = useAsked((abort) => get<Page<Entry>>("v1/calls", { state: "unknown", limit: 50 }, abort), []);
  const items = unknown.value?.items ?? [];
  if (!items.length) return null;
  return (
    <section class="sheet" aria-label="Calls that may have run">
      <h2>Calls that may have run</h2>
      {items.map((one) => (
        <a key={one.id} class="row flat" href={to("live", one.session!, one.id)}>
          <span class="grow cut">
            <b>{one.tool}</b>{" "}
            <span class="soft small">
              {one.session} · <Time at={one.accepted_at} />
            </span>
          </span>
          <State of="unknown" />
        </a>
      ))}
    </section>
  );
}

/** Who answered what within a day. */
function Lately({ turn }: { turn: number }) {
  const since = Math.floor(Date.now() / 1000 - DAY_S);
  const lately = useAsked((abort) => get<Page<Audited>>("v1/audit", { since, limit: 200 }, abort), [turn]);
  const items = (lately.value?.items ?? []).filter((one) => one.answers.length).slice(0, 10);
  if (!items.length) return null;
  return (
    <section class="sheet" aria-label="Answered lately">
      <h2>Answered lately</h2>
      {items.map((one) => (
        <div key={one.cursor} class="row flat">
          <span class="grow">
            <a href={to("live", one.session, one.call)}>
              <b>{one.tool}</b>
            </a>{" "}
            <span class="soft small">{plain(inShort((one.arguments ?? {}) as Record<string, unknown>)).slice(0, 120)}</span>
            <Answers of={one.answers} />
          </span>
          <State of={one.outcome} />
        </div>
      ))}
    </section>
  );
}
