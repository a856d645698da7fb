// A session on one time axis: runs, turns, requests to models and calls as spans, folded from the events of its log.

import type { Event } from "./types";

export type SpanKind = "run" | "turn" | "model" | "call";
/** What a span did: it was queued, worked, or waited for a person, for calls of its own or to be asked again. */
export type Doing = "queued" | "working" | "waiting";

export interface Phase {
  doing: Doing;
  from: number;
  /** Undefined while it goes on. */
  to?: number;
}

export interface Usage {
  input: number;
  output: number;
  cost?: number;
}

export interface Span {
  /** Its own name: the address of a page has it. */
  id: string;
  kind: SpanKind;
  /** The tool, the agent or the model. */
  name: string;
  label: string;
  parent?: Span;
  children: Span[];
  depth: number;
  from: number;
  to?: number;
  phases: Phase[];
  /** The state of a call, or how the reply, the turn or the run ended; undefined while it goes on. */
  state?: string;
  usage?: Usage;
  /** When the model said the first word. */
  first?: number;
  /** The first event that tells of it; those before it know nothing of the span. */
  seq: number;
  /** All events that belong to it, in order. */
  seqs: number[];
}

/** Ends that are as they should be. */
const ENDED: Record<string, string> = { stop: "done", calls: "done", answered: "done" };
const FAILED: Record<string, string> = { cancelled: "cancelled", timeout: "timed_out", unknown: "unknown" };

/** The spans of a session, as its events come in. The order of `roots`, and of all children, is that of the log. */
export class Spans {
  readonly roots: Span[] = [];
  readonly known = new Map<string, Span>();
  /** How many spans there are, and how often one came or ended. */
  count = 0;
  changes = 0;
  last = 0;
  /** The time of the newest event, and of each. */
  time = 0;
  readonly times: number[] = [];
  private turns = new Map<string, Span>();

  /** The first event that counts is the one after this. */
  first = 0;

  skip(seq: number): void {
    this.first = this.last = Math.max(0, this.last, seq);
  }

  take(event: Event): void {
    if (event.seq <= this.last) return;
    this.last = event.seq;
    this.time = Math.max(this.time, event.time);
    this.times[event.seq - 1] = event.time;
    if (event.call) this.ofCall(event, event.call);
    else TAKES[event.kind]?.(this, event);
  }

  private add(span: Omit<Span, "children" | "depth" | "seqs" | "parent">, parent?: Span): Span {
    const made: Span = { ...span, parent, children: [], depth: parent ? parent.depth + 1 : 0, seqs: [span.seq] };
    (parent ? parent.children : this.roots).push(made);
    this.known.set(made.id, made);
    this.count++;
    this.changes++;
    return made;
  }

  private ofCall(event: Event, call: string): void {
    const { data, time, seq } = event;
    if (event.kind === "accepted") {
      const [maker, run] = [this.known.get(`call:${data.parent}`), this.known.get(`run:${data.run}`)];
      // What a sub-agent calls belongs to its turn, and not right to the call that the sub-agent is.
      const parent = maker && run?.parent !== maker ? maker : (this.turns.get(data.run ?? "") ?? run ?? maker);
      this.add(
        {
          id: `call:${call}`,
          kind: "call",
          name: data.tool,
          label: data.label || data.tool,
          from: time,
          phases: [{ doing: "queued", from: time }],
          state: "queued",
          seq,
        },
        parent,
      );
      return;
    }
    const span = this.known.get(`call:${call}`);
    if (!span) return;
    span.seqs.push(seq);
    const doing = CALL_DOES[event.kind];
    if (doing) this.turnTo(span, doing, time);
    if (event.kind === "done") this.end(span, time, data.ok ? "succeeded" : (FAILED[data.failure?.code] ?? "failed"));
    if (event.kind === "settled") span.state = data.ok ? "succeeded" : "failed";
  }

  turnTo(span: Span, doing: Doing, at: number): void {
    const last = span.phases.at(-1);
    if (span.to !== undefined || last?.doing === doing) return;
    if (last) last.to = at;
    span.phases.push({ doing, from: at });
    span.state = doing === "working" ? "running" : doing;
    this.changes++;
  }

  end(span: Span, at: number, state: string): void {
    if (span.to !== undefined) return;
    span.to = at;
    span.state = state;
    const last = span.phases.at(-1);
    if (last) last.to = at;
    this.changes++;
  }

  runStarted({ data, time, seq }: Event): void {
    const parent = this.known.get(`call:${data.call}`);
    this.add(
      {
        id: `run:${data.run}`,
        kind: "run",
        name: data.agent,
        label: data.agent,
        from: time,
        phases: [{ doing: "working", from: time }],
        state: "running",
        seq,
      },
      parent,
    );
  }

  turnStarted({ data, time, seq }: Event): void {
    const parent = this.known.get(`run:${data.run}`);
    const work = () => [{ doing: "working" as const, from: time }];
    const label = parent && parent.name !== data.agent ? `turn ${data.turn}, ${data.agent}` : `turn ${data.turn}`;
    const turn = this.add(
      { id: `turn:${data.run}:${data.turn}`, kind: "turn", name: data.agent, label, from: time, phases: work(), state: "running", seq },
      parent,
    );
    this.turns.set(data.run, turn);
    this.add(
      {
        id: `model:${data.run}:${data.turn}`,
        kind: "model",
        name: data.agent,
        label: data.model ?? "model",
        from: time,
        phases: work(),
        state: "running",
        seq,
      },
      turn,
    );
  }

  /** A piece of a reply. */
  streamed({ data, time, seq }: Event): void {
    const span = this.known.get(`model:${data.run}:${data.turn}`);
    span?.seqs.push(seq);
    if (span) span.first ??= time;
  }

  message({ data, time, seq }: Event): void {
    const run = this.known.get(`run:${data.run}`);
    run?.seqs.push(seq);
    const span = data.role === "assistant" ? this.known.get(`model:${data.run}:${data.turn}`) : undefined;
    if (!span) return;
    this.askedAgain(span, data.request?.at);
    span.seqs.push(seq);
    span.usage = usageOf(data.usage);
    this.end(span, time, ENDED[data.finish ?? "stop"] ?? data.finish);
  }

  /** A model that was asked more than once waited until it was asked the last time. */
  private askedAgain(span: Span, at: number | undefined): void {
    if (at === undefined || at <= span.from) return;
    span.phases = [
      { doing: "waiting", from: span.from, to: at },
      { doing: "working", from: at },
    ];
  }

  /** A summary is a request of its own, which nobody was told of when it began. */
  summary({ data, time, seq, kind }: Event): void {
    const from = data.request?.at;
    const parent = (kind === "handover" ? this.turns.get(data.run) : undefined) ?? this.known.get(`run:${data.run}`);
    parent?.seqs.push(seq);
    if (from === undefined) return;
    const span = this.add(
      {
        id: `model:${seq}`,
        kind: "model",
        name: data.agent ?? data.from,
        label: "summary",
        from,
        phases: [{ doing: "working", from }],
        seq,
      },
      parent,
    );
    this.end(span, time, "done");
  }

  turnFinished({ data, time, seq }: Event): void {
    const turn = this.known.get(`turn:${data.run}:${data.turn}`);
    if (!turn) return;
    turn.seqs.push(seq);
    turn.usage = usageOf(data.usage);
    this.end(turn, time, ENDED[data.finish] ?? data.finish);
    this.turns.delete(data.run);
  }

  runWaits({ data, time, seq }: Event, doing: Doing): void {
    const run = this.known.get(`run:${data.run}`);
    run?.seqs.push(seq);
    for (const span of [run, this.turns.get(data.run)]) if (span) this.turnTo(span, doing, time);
  }

  runFinished({ data, time, seq }: Event): void {
    const run = this.known.get(`run:${data.run}`);
    const turn = this.turns.get(data.run);
    for (const span of turn ? [...turn.children.filter((one) => one.kind === "model"), turn] : []) {
      if (span.to !== undefined) continue;
      this.askedAgain(span, span.kind === "model" ? data.request?.at : undefined);
      span.seqs.push(seq);
      this.end(span, time, ENDED[data.reason] ?? data.reason);
    }
    this.turns.delete(data.run);
    if (!run) return;
    run.seqs.push(seq);
    run.usage = usageOf(data.usage);
    this.end(run, time, ENDED[data.reason] ?? data.reason);
  }
}

const CALL_DOES: Record<string, Doing> = { started: "working", waiting: "waiting", paused: "waiting", answered: "queued" };

const TAKES: Record<string, (spans: Spans, event: Event) => void> = {
  run_started: (spans, event) => spans.runStarted(event),
  turn_started: (spans, event) => spans.turnStarted(event),
  text: (spans, event) => spans.streamed(event),
  reasoning: (spans, event) => spans.streamed(event),
  message: (spans, event) => spans.message(event),
  compacted: (spans, event) => spans.summary(event),
  handover: (spans, event) => spans.summary(event),
  turn_finished: (spans, event) => spans.turnFinished(event),
  run_waiting: (spans, event) => spans.runWaits(event, "waiting"),
  run_resumed: (spans, event) => spans.runWaits(event, "working"),
  run_finished: (spans, event) => spans.runFinished(event),
};

function usageOf(data: Record<string, number> | null | undefined): Usage | undefined {
  return data ? { input: data.input ?? 0, output: data.output ?? 0, cost: data.cost } : undefined;
}

/** What people call a span. */
export const titled = ({ kind, name, label }: Span) =>
  ({ run: `run of ${name}`, turn: label, model: label === "summary" ? "summary" : `request to ${label}`, call: name })[kind];

/** The rows of a waterfall: every span below those that are open, and that had begun by an event. */
export function rowsOf(roots: readonly Span[], closed: ReadonlySet<string>, upto: number): Span[] {
  const rows: Span[] = [];
  const walk = (spans: readonly Span[]) => {
    for (const span of spans) {
      if (span.seq > upto) continue;
      rows.push(span);
      if (span.children.length && !closed.has(span.id)) walk(span.children);
    }
  };
  walk(roots);
  return rows;
}

/** How long a span did something, up to a time. */
export function lasted(span: Span, doing: Doing, until: number): number {
  let sum = 0;
  for (const phase of span.phases) if (phase.doing === doing) sum += Math.max(0, Math.min(phase.to ?? until, until) - phase.from);
  return sum;
}

/** What a span did at a time: its state there, or the one that it ended in. */
export function stateAt(span: Span, until: number): string | undefined {
  if (span.to !== undefined && span.to <= until) return span.state;
  const phase = span.phases.findLast((one) => one.from <= until);
  return phase?.doing === "working" || !phase ? "running" : phase.doing;
}
