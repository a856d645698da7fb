// Agents: who there is, how they hang together, and talking to one.

import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { at, follow, get, post } from "../api";
import { Talk, type Card, type Said as Line } from "../fold";
import { Do, Nothing, Said, State, Time, Trouble, useAsked } from "../parts/basics";
import { CallCard } from "../parts/call";
import { go, route, to } from "../router";
import type { Page, SessionLine } from "../types";

interface AgentLine {
  name: string;
  description: string;
  model?: string;
  tools: string[];
  default?: boolean;
}

interface Edge {
  source: string;
  target: string;
  via: "transfer" | "call";
}

export function Agents() {
  const [, what, session] = route.value.parts;
  return what === "chat" ? <Chat key={session} session={session} /> : <All />;
}

const newId = () => `chat-${Math.random().toString(36).slice(2, 10)}`;

function All() {
  const agents = useAsked((abort) => get<{ items: AgentLine[]; edges: Edge[] }>("v1/agents", {}, abort), []);
  const items = agents.value?.items ?? [];
  return (
    <>
      <div class="head"><h1>Agents</h1></div>
      <Trouble of={agents.trouble} />
      {agents.value && items.length === 0 && <Nothing>This crib has no agents. <code>agents:</code> in crib.yaml names their files.</Nothing>}
      <div class="columns cards">
        {items.map((agent) => (
          <article class="sheet" key={agent.name} aria-label={agent.name}>
            <h2>{agent.name} {agent.default && <span class="tag">default</span>}</h2>
            <p class="words"><Said of={agent.description} most={400} /></p>
            <p class="small soft">{agent.model ?? "the model of the crib"} · {agent.tools.join(", ") || "no tools"}</p>
            <button class="main" aria-label={`Talk to ${agent.name}`} onClick={() => go(to("agents", "chat", newId()) + `?agent=${encodeURIComponent(agent.name)}`)}>Talk</button>
          </article>
        ))}
      </div>
      <div class="columns cards">
        {items.length > 1 && <Graph agents={items} edges={agents.value!.edges} />}
        {items.length > 0 && <Conversations />}
      </div>
    </>
  );
}

/** Sessions in which an agent was at work, to go on with. */
function Conversations() {
  const sessions = useAsked((abort) => get<Page<SessionLine>>("v1/sessions", { limit: 200 }, abort), []);
  const items = (sessions.value?.items ?? []).filter((one) => one.agent || one.id.startsWith("chat-")).slice(0, 12);
  return (
    <section class="sheet" aria-label="Conversations">
      <h2>Conversations</h2>
      {items.length === 0 && <p class="soft">None yet. Talk to an agent.</p>}
      {items.map((one) => (
        <a key={one.id} class="row flat" href={to("agents", "chat", one.id)}>
          <span class="grow cut"><b>{one.id}</b> <span class="soft small">{one.agent}</span></span>
          {!!one.waiting && <State of="waiting" />}{!!one.running && <State of="running" />}<Time at={one.touched} />
        </a>
      ))}
    </section>
  );
}

const WIDE = 420;
const HIGH = 300;

/** Who may reach whom, on a circle. */
function Graph({ agents, edges }: { agents: AgentLine[]; edges: Edge[] }) {
  const place = new Map(agents.map((agent, n) => {
    const angle = (n / agents.length) * 2 * Math.PI - Math.PI / 2;
    return [agent.name, [WIDE / 2 + Math.cos(angle) * WIDE * 0.36, HIGH / 2 - 8 + Math.sin(angle) * HIGH * 0.36] as const];
  }));
  const lines = edges.filter((edge, n) => place.has(edge.source) && place.has(edge.target) && edges.findIndex((other) => other.source === edge.source && other.target === edge.target) === n);
  return (
    <section class="sheet" aria-label="Who works with whom">
      <h2>Who works with whom</h2>
      <svg viewBox={`0 0 ${WIDE} ${HIGH}`} class="graph" role="img" aria-label={lines.map((edge) => `${edge.source} ${edge.via === "call" ? "asks" : "hands over to"} ${edge.target}`).join(", ") || "nobody hands over"}>
        <defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0 8 4 0 8z" fill="currentColor" /></marker></defs>
        {lines.map((edge) => <Arrow key={edge.source + edge.target + edge.via} from={place.get(edge.source)!} to={place.get(edge.target)!} dashed={edge.via === "call"} />)}
        {[...place].map(([name, [x, y]]) => (
          <g key={name}><circle cx={x} cy={y} r="14" /><text x={x} y={y < HIGH / 2 ? y - 22 : y + 30} text-anchor="middle" fill="currentColor" font-size="12">{name}</text></g>
        ))}
      </svg>
      <p class="small soft">Along a line an agent may hand over; along a dashed one it may only ask.</p>
    </section>
  );
}

type Point = readonly [number, number];

function Arrow({ from: [x1, y1], to: [x2, y2], dashed }: { from: Point; to: Point; dashed: boolean }) {
  const far = Math.hypot(x2 - x1, y2 - y1) || 1;
  const [dx, dy] = [((x2 - x1) / far) * 18, ((y2 - y1) / far) * 18];
  // A little to the side, so that a line there and a line back do not lie on each other.
  const [sx, sy] = [-dy / 4, dx / 4];
  return <line x1={x1 + dx + sx} y1={y1 + dy + sy} x2={x2 - dx + sx} y2={y2 - dy + sy} stroke="currentColor" stroke-dasharray={dashed ? "4 4" : undefined} opacity="0.55" marker-end="url(#tip)" />;
}

const MOST = 2_000;

function Chat({ session }: { session: string | undefined }) {
  const talk = useRef(new Talk());
  const drawn = useSignal(0);
  const text = useSignal("");
  const agent = useSignal(route.value.query.get("agent") ?? "");
  const ready = useSignal(false);
  const earlier = useSignal(false);
  const trouble = useSignal<unknown>(undefined);
  const end = useRef<HTMLDivElement>(null);

  useEffect(() => {
    if (!session) return go(to("agents"));
    let stop = () => {};
    let asked = false;
    post<SessionLine>("v1/sessions", { id: session }).then(
      ({ seq }) => {
        ready.value = true;
        earlier.value = seq > MOST;
        stop = follow(at("sessions", session, "events") + `?after=${Math.max(0, seq - MOST)}`, (event) => {
          talk.current.take(event);
          if (!asked) requestAnimationFrame(() => { asked = false; drawn.value++; });
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
        <a href={to("agents")}>Agents</a><h1>{talk.current.agent || agent.value || "Talk"}</h1><span class="grow" />
        {running && <State of="running" />}
        <span class="soft small">{tokens ? `${tokens.toLocaleString()} tokens` : ""}{cost ? ` · $${cost.toFixed(4)}` : ""}</span>
        <a class="button" href={to("sessions", session)}>Its log</a>
        {running && <Do class="bad" work={() => post(at("sessions", session, "interrupt"))}>Stop</Do>}
      </div>
      <div class="talk" role="log" aria-label="Conversation" aria-live="polite" tabIndex={0}>
        {earlier.value && <p class="handover soft small">What was before is in <a href={to("sessions", session)}>its log</a>.</p>}
        {lines.length === 0 && !streaming && <Nothing>Say what you need.</Nothing>}
        {lines.map((line) => <Spoken key={line.seq} line={line} cards={cards} />)}
        {streaming && <Bubble role="assistant" agent={talk.current.agent} text={streaming} />}
        <div ref={end} />
      </div>
      <Trouble of={trouble.value} />
      <form class="say" onSubmit={send}>
        <textarea aria-label="Message" rows={2} value={text.value} disabled={!ready.value} placeholder="Message (Enter sends, Shift+Enter is a new line)"
          onInput={(event) => (text.value = event.currentTarget.value)}
          onKeyDown={(event) => { if (event.key === "Enter" && !event.shiftKey && !event.isComposing) void send(event); }} />
        <button class="main" disabled={!ready.value}>Send</button>
      </form>
    </>
  );
}

function Spoken({ line, cards }: { line: Line; cards: Map<string, Card> }) {
  switch (line.kind) {
    case "message":
      return <Bubble role={line.role} agent={line.agent} text={line.text} />;
    case "handover":
      return <p class="handover soft small">{line.from} → <b>{line.to}</b>{line.reason && <>: <Said of={line.reason} /></>}</p>;
    case "end":
      return <p class="handover small trouble">{line.reason}{line.detail && <>: <Said of={line.detail} /></>}</p>;
    case "call": {
      const card = cards.get(line.id);
      return card ? <CallCard card={card} cards={cards} small /> : null;
    }
  }
}

const Bubble = ({ role, agent, text }: { role: string; agent?: string; text: string }) => (
  <div class={`bubble ${role}`}>
    <span class="small soft">{role === "assistant" ? (agent ?? "agent") : role === "user" ? "you" : role}</span>
    <div class="words"><Said of={text} most={20_000} /></div>
  </div>
);
