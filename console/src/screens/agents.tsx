// Agents: who there is, how they hang together, and talking to one.

import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { at, follow, get, post, Problem } from "../api";
import { Talk, type Card, type Said as Line } from "../fold";
import { Do, Nothing, plain, Said, State, Time, Trouble, useAsked } from "../parts/basics";
import { CallCard } from "../parts/call";
import { go, route, to } from "../router";
import type { AgentForm as AgentLine, AgentsForm, Edge } from "../forms";
import type { Page, SessionLine } from "../types";

export function Agents() {
  const [, what, session] = route.value.parts;
  return what === "chat" ? <Chat key={session} session={session} /> : <All />;
}

const newId = () => `chat-${Math.random().toString(36).slice(2, 10)}`;

function All() {
  const agents = useAsked((abort) => get<AgentsForm>("v1/agents", {}, abort), []);
  const items = agents.value?.items ?? [];
  return (
    <>
      <div class="head"><h1>Agents</h1></div>
      <Trouble of={agents.trouble} />
      {agents.value && items.length === 0 && <Nothing>This crib has no agents. <code>agents:</code> in crib.yaml names their files.</Nothing>}
      <div class="columns cards">
        {items.map((agent) => (
          <article class="sheet agent-card" key={agent.name} aria-label={agent.name}>
            <h2>{agent.name} {agent.default && <span class="tag">default</span>}</h2>
            <p class="words"><Said of={agent.description} most={400} /></p>
            <p class="small soft">{agent.model ? plain(agent.model) : "the model of the crib"} · {agent.tools.includes("*") ? "all tools" : plain(agent.tools.join(", ")) || "no tools"}</p>
            <button class="main" aria-label={`Talk to ${agent.name}`} onClick={() => go(to("agents", "chat", newId()) + `?agent=${encodeURIComponent(agent.name)}`)}>Talk</button>
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
          <span class="grow cut"><b>{one.id}</b></span>
          {one.agent && <span class="tag">{plain(one.agent)}</span>}
          <span class="states">{!!one.waiting && <State of="waiting" />}{!!one.running && <State of="running" />}</span><Time at={one.touched} />
        </a>
      ))}
    </section>
  );
}

const WIDE = 420;
const ROW = 84;
const TALL = 30;
const LETTER = 7.2;

/** Where agents stand: the first above those that it reaches, these above those that they reach, and so on. */
function placed(agents: AgentLine[], edges: Edge[]): AgentLine[][] {
  const left = new Set(agents.map((agent) => agent.name));
  const levels: string[][] = [];
  for (const { name } of [...agents.filter((agent) => agent.default), ...agents]) {
    if (!left.delete(name)) continue;
    for (let level = [name], n = 0; level.length; n++) {
      (levels[n] ??= []).push(...level);
      const reached = edges.filter((edge) => level.includes(edge.source)).map((edge) => edge.target);
      level = [...new Set(reached)].filter((one) => left.delete(one));
    }
  }
  return levels.map((level) => level.map((name) => agents.find((agent) => agent.name === name)!));
}

interface Box {
  x: number;
  y: number;
  half: number;
}

/** Who may reach whom. */
function Graph({ agents, edges }: { agents: AgentLine[]; edges: Edge[] }) {
  const levels = placed(agents, edges);
  const wide = Math.max(WIDE, ...levels.map((level) => level.reduce((sum, { name }) => sum + room(name) * 2 + 24, 0)));
  const high = levels.length * ROW - (ROW - TALL) + 16;
  const boxes = new Map(levels.flatMap((level, row) => level.map(({ name }, n) =>
    [name, { x: ((n + 0.5) / level.length) * wide, y: row * ROW + TALL / 2 + 8, half: room(name) }] as const)));
  const lines = edges.filter((edge, n) => boxes.has(edge.source) && boxes.has(edge.target) && edges.findIndex((other) => other.source === edge.source && other.target === edge.target) === n);
  return (
    <section class="sheet" aria-label="Who works with whom">
      <h2>Who works with whom</h2>
      <svg viewBox={`0 0 ${wide} ${high}`} class="graph" style={{ maxWidth: `${wide}px` }} role="img"
        aria-label={lines.map((edge) => `${edge.source} ${edge.via === "call" ? "asks" : "hands over to"} ${edge.target}`).join(", ") || "nobody hands over"}>
        <defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0 8 4 0 8z" fill="currentColor" /></marker></defs>
        {lines.map((edge) => <Arrow key={edge.source + edge.target + edge.via} from={boxes.get(edge.source)!} to={boxes.get(edge.target)!} dashed={edge.via === "call"}
          aside={lines.some((other) => other.source === edge.target && other.target === edge.source)} />)}
        {[...boxes].map(([name, { x, y, half }]) => (
          <g key={name}>
            <rect x={x - half} y={y - TALL / 2} width={half * 2} height={TALL} rx={TALL / 2} />
            <text x={x} y={y + 4.5} text-anchor="middle" fill="currentColor" font-size="13" font-weight="600">{shortly(name)}</text>
          </g>
        ))}
      </svg>
      <p class="small soft">Along a line an agent may hand over{lines.some((edge) => edge.via === "call") && "; along a dashed one it may only ask"}.</p>
    </section>
  );
}

const shortly = (name: string) => (name.length > 22 ? name.slice(0, 21) + "…" : name);
const room = (name: string) => (shortly(name).length * LETTER) / 2 + 16;

/** From the rim of one box to that of the other; a little `aside`, so that a line there and one back are two. */
function Arrow({ from, to, dashed, aside }: { from: Box; to: Box; dashed: boolean; aside: boolean }) {
  const [dx, dy] = [to.x - from.x, to.y - from.y];
  const far = Math.hypot(dx, dy) || 1;
  const rim = ({ half }: Box) => Math.min(dx ? ((half + 3) * far) / Math.abs(dx) : Infinity, dy ? ((TALL / 2 + 3) * far) / Math.abs(dy) : Infinity);
  const off = aside ? 5 : 0;
  const at = (way: number) => [from.x + (dx * way - dy * off) / far, from.y + (dy * way + dx * off) / far] as const;
  const [[x1, y1], [x2, y2]] = [at(rim(from)), at(far - rim(to))];
  return <line x1={x1} y1={y1} x2={x2} y2={y2} stroke="currentColor" stroke-dasharray={dashed ? "4 4" : undefined} opacity="0.55" marker-end="url(#tip)" />;
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
        {ready.value && lines.length === 0 && !streaming && <Nothing>Say what you need.</Nothing>}
        {lines.map((line) => <Spoken key={line.seq} line={line} cards={cards} user={reader.value || "you"} />)}
        {streaming && <Bubble role="assistant" who={talk.current.agent} text={streaming} />}
        <div ref={end} />
      </div>
      <Trouble of={trouble.value} />
      {reader.value && <p class="handover soft small">A conversation of {plain(reader.value)}: you can read it, and only {plain(reader.value)} can go on with it.</p>}
      <form class="say" hidden={!!reader.value} onSubmit={send}>
        <textarea aria-label="Message" rows={2} value={text.value} disabled={!ready.value} placeholder="Message (Enter sends, Shift+Enter is a new line)"
          onInput={(event) => (text.value = event.currentTarget.value)}
          onKeyDown={(event) => { if (event.key === "Enter" && !event.shiftKey && !event.isComposing) void send(event); }} />
        <button class="main" disabled={!ready.value}>Send</button>
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
      return <Bubble role={line.role} who={line.role === "user" ? user : line.role === "assistant" ? line.agent : line.role} text={line.text} />;
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

const Bubble = ({ role, who, text }: { role: string; who?: string; text: string }) => (
  <div class={`bubble ${role}`}>
    <span class="small soft">{plain(who ?? "agent")}</span>
    <div class="words"><Said of={text} most={20_000} /></div>
  </div>
);
