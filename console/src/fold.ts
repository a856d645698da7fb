// The log is the truth: what the screens show of calls and conversations is folded from its events, here as on the server.

import type { CallerRecord, Entry, Event, Failure, Question, Verdict } from "./types";
import { dataOf } from "./types";

export interface Answered {
  action: string;
  actor: string;
  reason?: string;
  scope?: string;
  edited?: boolean;
  at: number;
}

export interface Card {
  id: string;
  session: string;
  tool: string;
  label: string;
  args: unknown;
  by?: CallerRecord;
  parent?: string;
  /** The span that it was made in. */
  trace?: string;
  status: string;
  progress?: number;
  message?: string;
  output: string;
  question?: Question;
  answers: Answered[];
  verdict?: Verdict;
  data?: unknown;
  failure?: Failure;
  background?: boolean;
  accepted: number;
  started?: number;
  done?: number;
  duration?: number;
  seq: number;
  /** The newest event that is folded in, or -1 for a call of a list. */
  last: number;
  children: string[];
}

const MOST_OUTPUT = 64 * 1024;

/** What a call ends as, by the code of its failure. */
const ENDS: Record<string, string> = { cancelled: "cancelled", timeout: "timed_out", unknown: "unknown" };

/** Folds an event into its call. A stream may repeat what a page has already read: that changes nothing. */
export function take(cards: Map<string, Card>, event: Event): Card | undefined {
  if (!event.call) return undefined;
  let card = cards.get(event.call);
  if (card && event.seq <= card.last) return card;
  if (event.kind === "accepted") {
    const data = dataOf(event, "accepted");
    card = {
      id: event.call,
      session: event.session,
      tool: data.tool,
      label: data.label,
      args: data.args,
      by: data.by,
      parent: data.parent ?? undefined,
      trace: data.trace ?? undefined,
      status: "queued",
      output: "",
      answers: [],
      background: data.background ?? undefined,
      accepted: event.time,
      seq: event.seq,
      last: event.seq,
      children: [],
    };
    cards.set(event.call, card);
    below(cards, card);
    return card;
  }
  if (!card) return undefined;
  card = { ...card, ...changed(card, event), last: event.seq };
  cards.set(card.id, card);
  return card;
}

/** Hangs a call below the one that made it. */
function below(cards: Map<string, Card>, card: Card): void {
  const parent = card.parent ? cards.get(card.parent) : undefined;
  if (parent && !parent.children.includes(card.id)) cards.set(parent.id, { ...parent, children: [...parent.children, card.id] });
}

/** A call as lists know it; all else comes with its events. */
export function listed(cards: Map<string, Card>, entry: Entry, session: string): void {
  if (cards.has(entry.id)) return;
  const { id, tool, label, status, parent, by, seq, result } = entry;
  const [started, done] = [entry.started_at ?? undefined, entry.done_at ?? undefined];
  const card: Card = {
    id,
    session,
    tool,
    label,
    status,
    parent: parent ?? undefined,
    by: by ?? undefined,
    seq,
    last: -1,
    started,
    done,
    args: undefined,
    output: "",
    answers: [],
    children: [],
    accepted: entry.accepted_at,
    data: result?.data,
    failure: result?.failure ?? undefined,
    duration: done && started ? done - started : undefined,
  };
  cards.set(id, card);
  below(cards, card);
}

/** Adds to a call of a list what its log says, unless the list knew more of its end. */
export function known(cards: Map<string, Card>, told: Card): void {
  const card = cards.get(told.id);
  if (!card || card.args !== undefined) return;
  const { parent, args, by, verdict, output, answers } = told;
  // A log tells a large result as a reference, a list as a whole.
  const fuller =
    over(card) && !over(told)
      ? { ...card, parent, args, by, verdict, output, answers }
      : { ...told, data: card.data ?? told.data, children: card.children };
  cards.set(told.id, fuller);
  below(cards, fuller);
}

const OVER = ["succeeded", "failed", "cancelled", "timed_out", "unknown"];
export const over = (card: Card) => OVER.includes(card.status);

function changed(card: Card, event: Event): Partial<Card> {
  const data = event.data;
  switch (event.kind) {
    case "waiting":
      return { status: "waiting", question: { ...data.question, session: event.session }, verdict: data.verdict ?? card.verdict };
    case "endorsed":
      return { answers: [...card.answers, answer(event)] };
    case "answered":
      return { status: "queued", question: undefined, answers: [...card.answers, answer(event)] };
    case "started":
      return { status: "running", started: event.time, args: data.args ?? card.args, verdict: data.verdict ?? card.verdict };
    case "progress":
      return {
        status: card.output ? "streaming" : "running",
        progress: data.progress ?? card.progress,
        message: data.message ?? card.message,
      };
    case "output":
      return { status: "streaming", output: (card.output + text(data.delta ?? data.value)).slice(-MOST_OUTPUT) };
    case "settled":
      return { ...ended(event), duration: card.duration, answers: [...card.answers, settled(event)] };
    case "done":
      return ended(event);
    default:
      return {};
  }
}

function ended(event: Event): Partial<Card> {
  const data = dataOf(event, "done");
  const failure: Failure | undefined = data.failure ?? undefined;
  return {
    status: data.ok ? "succeeded" : (ENDS[failure?.code ?? ""] ?? "failed"),
    question: undefined,
    done: event.time,
    data: data.data,
    failure,
    duration: data.duration_ms === undefined ? undefined : data.duration_ms / 1000,
    progress: undefined,
  };
}

/** Somebody looked and said what came of it, or whoever ran it came back. */
const settled = ({ data, time }: Event): Answered => ({
  action: data.ok ? "it happened" : "it did not happen",
  actor: data.metadata?.settled_by ?? "whoever ran it",
  reason: data.metadata?.reason,
  at: time,
});

const answer = (event: Event): Answered => {
  const data = dataOf(event, "answered");
  return {
    action: data.action,
    actor: data.actor,
    reason: data.reason ?? undefined,
    scope: data.scope,
    edited: "args" in data,
    at: event.time,
  };
};

const text = (value: unknown) => (typeof value === "string" ? value : value === undefined ? "" : `${JSON.stringify(value)}\n`);

export function folded(events: readonly Event[]): Map<string, Card> {
  const cards = new Map<string, Card>();
  for (const event of events) take(cards, event);
  return cards;
}

export type Said =
  | { kind: "message"; role: string; text: string; agent?: string; seq: number }
  | { kind: "call"; id: string; seq: number }
  | { kind: "handover"; from: string; to: string; reason?: string; seq: number }
  | { kind: "end"; reason: string; detail?: string; seq: number };

/** A conversation: what was said, which calls were made in between, who handed over to whom. */
export class Talk {
  lines: Said[] = [];
  cards = new Map<string, Card>();
  /** What the model is saying right now. */
  streaming = "";
  agent = "";
  running = false;
  tokens = 0;
  cost = 0;

  take(event: Event): void {
    const data = event.data;
    const card = take(this.cards, event);
    switch (event.kind) {
      case "message":
        if (data.role === "assistant") this.streaming = "";
        this.tokens += data.usage?.total ?? 0;
        this.cost += data.usage?.cost ?? 0;
        if (data.content)
          this.lines.push({ kind: "message", role: data.role, text: text(data.content), agent: data.agent, seq: event.seq });
        break;
      case "text":
        this.streaming += data.delta ?? "";
        break;
      case "accepted":
        // A handover has a line of its own, and a child stands below its parent.
        if (card && !card.parent && card.tool !== "builtin.transfer_to_agent")
          this.lines.push({ kind: "call", id: card.id, seq: event.seq });
        break;
      case "handover":
        this.agent = data.to;
        this.lines.push({ kind: "handover", from: data.from, to: data.to, reason: data.reason, seq: event.seq });
        break;
      case "run_started":
        this.running = true;
        this.agent = data.agent;
        break;
      case "run_resumed":
        this.running = true;
        break;
      case "run_waiting":
        this.running = false;
        break;
      case "run_finished":
        this.running = false;
        this.streaming = "";
        if (data.reason !== "answered") this.lines.push({ kind: "end", reason: data.reason, detail: data.detail, seq: event.seq });
        break;
    }
  }
}
