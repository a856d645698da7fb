// Agents: who there is, how they hang together, and talking to one.

import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { at, follow, get, Problem, post } from "../api";
import { type Card, type Said as Line, Talk } from "../fold";
import type { AgentsForm, NumbersOf, Stats } from "../forms";
import { Graph } from "../parts/agent_graph";
import { Do, Nothing, plain, Said, State, Time, Trouble, useAsked } from "../parts/basics";
import { CallCard } from "../parts/call";
import { Sparkline } from "../parts/chart";
import { dollars, failed, many } from "../parts/numbers";
import { go, route, to } from "../router";
import type { Page, SessionLine } from "../types";

export function Agents() {
  const [, what, session] = route.value.parts;
  return what === "chat" ? <Chat key={session} session={session} /> : <All />;
}

const newId = () => `chat-${Math.random().toString(36).slice(2, 10)}`;

function All() {
  const agents = useAsked((abort) => get<AgentsForm>("v1/agents", {}, abort), []);
  const stats = useAsked((abort) => get<Stats>("v1/stats", { by: "agent", range: "week" }, abort), []);
  const numbers = new Map(stats.value?.groups.map((one) => [one.name, one]));
  const items = agents.value?.items ?? [];
  return (
    <>
      <div class="head">
        <h1>Agents</h1>
      </div>
      <Trouble of={agents.trouble} />
      {agents.value && items.length === 0 && (
        <Nothing>
          This crib has no agents. <code>agents:</code> in crib.yaml names their files.
        </Nothing>
      )}
      <div class="columns cards">
        {items.map((agent) => (
          <article class="sheet agent-card" key={agent.name} aria-label={agent.name}>
            <h2>
              {agent.name} {agent.default && <span class="tag">default</span>}
            </h2>
            <p class="words">
              <Said of={agent.description} most={400} />
            </p>
            <p class="small soft">
              {agent.model ? plain(agent.model) : "the model of the crib"} ·{" "}
              {agent.tools.includes("*") ? "all tools" : plain(agent.tools.join(", ")) || "no tools"}
            </p>
            <Week of={numbers.get(agent.name)} agent={agent.name} />
            <button
              class="main"
              aria-label={`Talk to ${agent.name}`}
              onClick={() => go(`${to("agents", "chat", newId())}?agent=${encodeURIComponent(agent.name)}`)}
            >
              Talk
            </button>
          </article>
        ))}
      </div>
      <div class="columns halves">
        {items.length > 1 && <Graph agents={items} edges={agents.value!.edges} />}
        {items.length > 0 && <Conversations />}
      </div>
    </>
  );
}

/** What an agent did and cost in the last week. */
function Week({ of, agent }: { of: NumbersOf | undefined; agent: string }) {
  if (!of || (of.calls === 0 && of.turns === 0)) return <p class="small soft">Nothing in the last week.</p>;
  const wrong = failed(of);
  return (
    <p class="small week">
      <a href={`${to("overview")}?${new URLSearchParams({ agent, range: "week" })}`}>
        {many(of.calls)} {of.calls === 1 ? "call" : "calls"}
      </a>
      {wrong > 0 && <span class="bad-text"> · {many(wrong)} failed</span>}
      {of.turns > 0 && ` · ${many(of.turns)} turns`}
      {of.cost > 0 && ` · ${dollars(of.cost)}`}
      <span class="soft"> in the last week</span>
      <Sparkline values={of.points} marked={of.failed} />
    </p>
  );
}

/** Sessions in which an agent was at work, to go on with. */
function Conversations() {
  const sessions = useAsked((abort) => get<Page<SessionLine>>("v1/sessions", { limit: 200 }, abort), []);
  const items = (sessions.value?.items ?? []).filter((one) => one.agent || one.id.startsWith("chat-")).slice(0, 12);
  return (
    <section class="sheet" aria-label="Conversations">
      <h2>Conversations</h2>
      {sessions.value && items.length === 0 && <p class="soft">None yet. Talk to an agent.</p>}
      {items.map((one) => (
        <a key={one.id} class="row flat" href={to("agents", "chat", one.id)}>
          <span class="grow cut">
            <b>{one.id}</b>
          </span>
          {one.agent && <span class="tag">{plain(one.agent)}</span>}
          <span class="states">
            {!!one.waiting && <State of="waiting" />}
            {!!one.running && <State of="running" />}
          </span>
          <Time at={one.touched} />
        </a>
      ))}
    </section>
  );
}

const MOST = 2_000;

function Chat({ session }: { session: string | undefined }) {
  const talk = useRef(new Talk());
  const drawn = useSignal(0);
  const text = useSignal("");
  const agent = useSignal(route.value.query.get("agent") ?? "");
  const ready = useSignal(false);
  const reader = useSignal("");
  const earlier = useSignal(false);
  const trouble = useSignal<unknown>(undefined);
  const end = useRef<HTMLDivElement>(null);

  useEffect(() => {
    if (!session) return go(to("agents"));
    let stop = () => {};
    let asked = false;
    opened(session).then(
      ({ seq, owner, mine }) => {
        ready.value = mine;
        reader.value = mine ? "" : owner;
        earlier.value = seq > MOST;
        stop = follow(`${at("sessions", session, "events")}?after=${Math.max(0, seq - MOST)}`, (event) => {
          talk.current.take(event);
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
    return () => stop();
  }, [session]);
  useEffect(() => {
    // Who reads further up is left there.
    const box = end.current?.parentElement;
    if (box && box.scrollHeight - box.scrollTop - box.clientHeight < 300) box.scrollTop = box.scrollHeight;
  }, [drawn.value]);
  if (!session) return null;
  void drawn.value;
  const { lines, cards, streaming, running, tokens, cost } = talk.current;
  const send = async (event?: Event) => {
    event?.preventDefault();
    const said = text.value.trim();
    if (!said) return;
    text.value = "";
    trouble.value = undefined;
    try {
      await post(at("sessions", session, "messages"), { text: said, agent: agent.value || undefined });
      agent.value = "";
    } catch (error) {
      trouble.value = error;
      text.value = said;
    }
  };
  return (
    <>
      <div class="head">
        <a href={to("agents")}>Agents</a>
        <h1>{talk.current.agent || agent.value || "Talk"}</h1>
        <span class="grow" />
        {running && <State of="running" />}
        <span class="soft small">
          {tokens ? `${tokens.toLocaleString()} tokens` : ""}
          {cost ? ` · $${cost.toFixed(4)}` : ""}
        </span>
        <a class="button" href={to("sessions", session)}>
          Its log
        </a>
        {running && (
          <Do class="bad" work={() => post(at("sessions", session, "interrupt"))}>
            Stop
          </Do>
        )}
      </div>
      <div class="talk" role="log" aria-label="Conversation" aria-live="polite" tabIndex={0}>
        {earlier.value && (
          <p class="handover soft small">
            What was before is in <a href={to("sessions", session)}>its log</a>.
          </p>
        )}
        {ready.value && lines.length === 0 && !streaming && <Nothing>Say what you need.</Nothing>}
        {lines.map((line) => (
          <Spoken key={line.seq} line={line} cards={cards} user={reader.value || "you"} />
        ))}
        {streaming && <Bubble speaker="assistant" who={talk.current.agent} text={streaming} />}
        <div ref={end} />
      </div>
      <Trouble of={trouble.value} />
      {reader.value && (
        <p class="handover soft small">
          A conversation of {plain(reader.value)}: you can read it, and only {plain(reader.value)} can go on with it.
        </p>
      )}
      <form class="say" hidden={!!reader.value} onSubmit={send}>
        <textarea
          aria-label="Message"
          rows={2}
          value={text.value}
          disabled={!ready.value}
          placeholder="Message (Enter sends, Shift+Enter is a new line)"
          onInput={(event) => (text.value = event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key === "Enter" && !event.shiftKey && !event.isComposing) void send(event);
          }}
        />
        <button class="main" disabled={!ready.value}>
          Send
        </button>
      </form>
    </>
  );
}

/** A session to talk in. That of somebody else can be read by who may see it. */
async function opened(id: string): Promise<SessionLine & { mine: boolean }> {
  try {
    return { ...(await post<SessionLine>("v1/sessions", { id })), mine: true };
  } catch (error) {
    if (!(error instanceof Problem) || error.status !== 403) throw error;
    const found = await get<SessionLine>(at("sessions", id)).catch(() => Promise.reject(error));
    return { ...found, mine: false };
  }
}

function Spoken({ line, cards, user }: { line: Line; cards: Map<string, Card>; user: string }) {
  switch (line.kind) {
    case "message":
      return (
        <Bubble
          speaker={line.role}
          who={line.role === "user" ? user : line.role === "assistant" ? line.agent : line.role}
          text={line.text}
        />
      );
    case "handover":
      return (
        <p class="handover soft small">
          {line.from} → <b>{line.to}</b>
          {line.reason && (
            <>
              : <Said of={line.reason} />
            </>
          )}
        </p>
      );
    case "end":
      return (
        <p class="handover small trouble">
          {line.reason}
          {line.detail && (
            <>
              : <Said of={line.detail} />
            </>
          )}
        </p>
      );
    case "call": {
      const card = cards.get(line.id);
      return card ? <CallCard card={card} cards={cards} small /> : null;
    }
  }
}

const Bubble = ({ speaker, who, text }: { speaker: string; who?: string; text: string }) => (
  <div class={`bubble ${speaker}`}>
    <span class="small soft">{plain(who ?? "agent")}</span>
    <div class="words">
      <Said of={text} most={20_000} />
    </div>
  </div>
);
