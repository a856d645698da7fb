// One span with all that the log says of it: how long it worked and waited, what a model saw and said, what a call did.

import { at, get } from "../api";
import { lasted, type Span, stateAt, titled } from "../spans";
import type { Event } from "../types";
import { length, Nothing, plain, Said, State, Time, Trouble, useAsked } from "./basics";
import { CallCard, fetched } from "./call";
import { Prompt } from "./prompt";
import { money, short } from "./waterfall";

interface Given {
  session: string;
  span: Span;
  until: number;
  /** Up to which event the log is looked at, where that is not all of it. */
  upto: number | undefined;
  choose: (span: Span) => void;
}

const KINDS = { run: "Run of", turn: "Turn of", model: "Request to a model by", call: "Call of" };

export function SpanSheet({ session, span, until, upto, choose }: Given) {
  const over = span.to !== undefined && span.to <= until;
  const seqs = upto === undefined ? span.seqs : span.seqs.filter((seq) => seq <= upto);
  if (!seqs.length)
    return (
      <section class="sheet" aria-label="Span">
        <h2>
          {KINDS[span.kind]} {plain(span.name)}
        </h2>
        <p class="small soft">At event {upto!.toLocaleString()} it had not begun.</p>
      </section>
    );
  return (
    <>
      <section class="sheet" aria-label="Span">
        <div class="head">
          <h2>
            {KINDS[span.kind]} {plain(span.name)}
          </h2>
          <span class="grow" />
          <State of={stateAt(span, until) ?? "running"} />
        </div>
        <p class="small soft">
          <Time at={span.from} />
          {span.kind !== "call" && span.label !== span.name && <> · {plain(span.label)}</>}
        </p>
        <Figures span={span} until={until} />
        {span.parent && (
          <p class="small soft">
            part of{" "}
            <button class="bare link" onClick={() => choose(span.parent!)}>
              {plain(titled(span.parent))}
            </button>
          </p>
        )}
      </section>
      {span.kind === "call" && <Called key={span.id} session={session} call={span.id.slice(5)} seen={seqs.length} upto={upto} />}
      {span.kind === "model" && over && span.label !== "summary" && <Reply session={session} seq={span.seqs.at(-1)!} />}
      {span.kind === "model" && <Prompt session={session} seq={span.seq} over={over} />}
      {(span.kind === "run" || span.kind === "turn") && <Parts of={span} until={until} choose={choose} />}
    </>
  );
}

function Figures({ span, until }: { span: Span; until: number }) {
  const first = span.first !== undefined && span.first <= until ? span.first : undefined;
  const usage = span.to !== undefined && span.to <= until ? span.usage : undefined;
  const figures: [string, string | undefined][] = [
    ["took", length(Math.min(span.to ?? until, until) - span.from)],
    ["worked", length(lasted(span, "working", until))],
    ["waited", lasted(span, "waiting", until) ? length(lasted(span, "waiting", until)) : undefined],
    ["first word after", first === undefined ? undefined : length(first - span.from)],
    ["tokens read", usage && short(usage.input)],
    ["tokens written", usage && short(usage.output)],
    ["cost", usage?.cost === undefined ? undefined : money(usage.cost)],
  ];
  return (
    <dl class="span-figures">
      {figures
        .filter(([, value]) => value)
        .map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
    </dl>
  );
}

/** What it is made of. */
function Parts({ of, until, choose }: { of: Span; until: number; choose: (span: Span) => void }) {
  const children = of.children.filter((one) => one.from <= until);
  if (!children.length) return null;
  return (
    <section class="sheet" aria-label="Parts">
      <h2>{of.kind === "run" ? "Turns" : "Request and calls"}</h2>
      {children.slice(0, 200).map((one) => (
        <button key={one.id} class="row bare flat" onClick={() => choose(one)}>
          <span class="grow cut">
            <b>
              <Said of={one.kind === "call" ? one.name : one.label} most={100} />
            </b>{" "}
            <span class="soft small">{one.kind === "call" && one.label !== one.name ? plain(one.label) : ""}</span>
          </span>
          <span class="soft small">{length(Math.min(one.to ?? until, until) - one.from)}</span>
          <State of={stateAt(one, until) ?? "running"} />
        </button>
      ))}
    </section>
  );
}

/** What a model replied. */
function Reply({ session, seq }: { session: string; seq: number }) {
  const reply = useAsked(() => get<Event>(at("sessions", session, "events", seq)), [session, seq]);
  if (!reply.value) return <Trouble of={reply.trouble} />;
  const { data, kind } = reply.value;
  const calls: { id: string; tool: string; args: string }[] = data.calls ?? [];
  return (
    <section class="sheet" aria-label="What the model said">
      <h2>What the model said</h2>
      {kind === "run_finished" ? (
        <p class="trouble">
          <Said of={data.detail || data.reason} />
        </p>
      ) : data.content ? (
        <p class="words">
          <Said of={data.content} most={20_000} />
        </p>
      ) : (
        <p class="small soft">No text.</p>
      )}
      {calls.map((call) => (
        <p key={call.id} class="said-call">
          <code>{plain(call.tool)}</code> <code class="soft">{plain(call.args.slice(0, 4_000))}</code>
        </p>
      ))}
    </section>
  );
}

/** A call as its card shows it: why it may run, what was asked and answered, what came of it. */
function Called({ session, call, seen, upto }: { session: string; call: string; seen: number; upto: number | undefined }) {
  const cards = useAsked(() => fetched(session, call, upto), [session, call, seen, upto === undefined]);
  const card = cards.value?.get(call);
  if (card) return <CallCard card={card} cards={cards.value!} />;
  return cards.value ? <Nothing>The log says nothing of this call.</Nothing> : <Trouble of={cards.trouble} />;
}
