// Agents: who there is, how they hang together, and talking to one.

import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { at, follow, get, post } from "../api";
import { Talk } from "../fold";
import { Do, Nothing, Trouble, useAsked } from "../parts/basics";
import { CallCard } from "../parts/call";
import { go, route, to } from "../router";

interface AgentLine {
  name: string;
  description?: string;
  model?: string;
  tools?: string[];
  sub_agents?: { agent: string; via?: string }[] | string[];
}

export function Agents() {
  const [, what, session] = route.value.parts;
  return what === "chat" ? <Chat key={session} session={session} /> : <All />;
}

const newId = () => `chat-${Math.random().toString(36).slice(2, 10)}`;

function All() {
  const agents = useAsked((abort) => get<{ items: AgentLine[] }>("v1/agents", {}, abort), []);
  const items = agents.value?.items ?? [];
  return (
    <>
      <div class="head"><h1>Agents</h1></div>
      <Trouble of={agents.trouble} />
      {agents.value && items.length === 0 && <Nothing>This crib has no agents. <code>agents:</code> in crib.yaml names their files.</Nothing>}
      <div class="columns" style={{ gridTemplateColumns: "repeat(auto-fill, minmax(260px, 1fr))" }}>
        {items.map((agent) => (
          <article class="sheet" key={agent.name} style={{ marginTop: 0 }}>
            <h2>{agent.name}</h2>
            <p dir="auto">{agent.description}</p>
            <p class="small soft">{agent.model ?? "the model of the crib"} · {agent.tools ? agent.tools.join(", ") || "no tools" : "every tool"}</p>
            <button class="main" onClick={() => go(to("agents", "chat", newId()) + `?agent=${encodeURIComponent(agent.name)}`)}>Talk</button>
          </article>
        ))}
      </div>
      {items.length > 1 && <Graph agents={items} />}
    </>
  );
}

const names = (agent: AgentLine) => (agent.sub_agents ?? []).map((one) => (typeof one === "string" ? one : one.agent));

/** Who may hand over to whom, on a circle. */
function Graph({ agents }: { agents: AgentLine[] }) {
  const size = 340;
  const place = new Map(agents.map((agent, n) => {
    const angle = (n / agents.length) * 2 * Math.PI - Math.PI / 2;
    return [agent.name, [size / 2 + Math.cos(angle) * size * 0.36, size / 2 + Math.sin(angle) * size * 0.36] as const];
  }));
  const edges = agents.flatMap((from) => agents.filter((one) => one !== from && names(from).some((glob) => fits(glob, one.name))).map((one) => [from.name, one.name] as const));
  return (
    <section class="sheet" aria-label="Who works with whom">
      <h2>Who works with whom</h2>
      <svg viewBox={`0 0 ${size} ${size}`} width="100%" style={{ maxWidth: "480px" }} role="img"
        aria-label={edges.map(([from, one]) => `${from} to ${one}`).join(", ") || "nobody hands over"}>
        <defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto-start-reverse"><path d="M0 0 8 4 0 8z" fill="currentColor" /></marker></defs>
        {edges.map(([from, one]) => {
          const [x1, y1] = place.get(from)!;
          const [x2, y2] = place.get(one)!;
          const far = Math.hypot(x2 - x1, y2 - y1) || 1;
          return <line key={from + one} x1={x1 + ((x2 - x1) / far) * 20} y1={y1 + ((y2 - y1) / far) * 20} x2={x2 - ((x2 - x1) / far) * 20} y2={y2 - ((y2 - y1) / far) * 20} stroke="currentColor" opacity="0.5" marker-end="url(#tip)" />;
        })}
        {[...place].map(([name, [x, y]]) => (
          <g key={name}><circle cx={x} cy={y} r="16" fill="var(--brand-back)" stroke="var(--brand)" /><text x={x} y={y + 32} text-anchor="middle" fill="currentColor" font-size="12">{name}</text></g>
        ))}
      </svg>
    </section>
  );
}

const fits = (glob: string, name: string) => new RegExp("^" + glob.replace(/[.+^${}()|[\]\\]/g, "\\$&").replace(/\*/g, ".*").replace(/\?/g, ".") + "$").test(name);

function Chat({ session }: { session: string | undefined }) {
  const talk = useRef(new Talk());
  const drawn = useSignal(0);
  const text = useSignal("");
  const agent = useSignal(route.value.query.get("agent") ?? "");
  const ready = useSignal(false);
  const trouble = useSignal<unknown>(undefined);
  const end = useRef<HTMLDivElement>(null);

  useEffect(() => {
    if (!session) return go(to("agents"));
    let stop = () => {};
    let asked = false;
    post("v1/sessions", { id: session }).then(
      () => {
        ready.value = true;
        stop = follow(at("sessions", session, "events"), (event) => {
          talk.current.take(event);
          if (!asked) requestAnimationFrame(() => { asked = false; drawn.value++; });
          asked = true;
        });
      },
      (error) => (trouble.value = error),
    );
    return () => stop();
  }, [session]);
  useEffect(() => end.current?.scrollIntoView({ block: "nearest" }), [drawn.value]);
  if (!session) return null;
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
        <span class="soft small">{tokens ? `${tokens.toLocaleString()} tokens` : ""}{cost ? ` · $${cost.toFixed(4)}` : ""}</span>
        <a href={to("sessions", session)}>its log</a>
        {running && <Do class="bad" work={() => post(at("sessions", session, "interrupt"))}>Stop</Do>}
      </div>
      <div class="talk" role="log" aria-label="Conversation" aria-live="polite" tabIndex={0}>
        {lines.length === 0 && !streaming && <Nothing>Say what you need.</Nothing>}
        {lines.map((line) =>
          line.kind === "message" ? <Bubble key={line.seq} role={line.role} agent={line.agent} text={line.text} />
          : line.kind === "handover" ? <p key={line.seq} class="handover soft small">{line.from} → <b>{line.to}</b>{line.reason ? `: ${line.reason}` : ""}</p>
          : line.kind === "end" ? <p key={line.seq} class="handover small trouble">{line.reason}{line.detail ? `: ${line.detail}` : ""}</p>
          : cards.get(line.id) && !cards.get(line.id)!.parent ? <CallCard key={line.seq} card={cards.get(line.id)!} cards={cards} small /> : null,
        )}
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

const Bubble = ({ role, agent, text }: { role: string; agent?: string; text: string }) => (
  <div class={`bubble ${role}`}>
    <span class="small soft">{role === "assistant" ? (agent ?? "agent") : role}</span>
    <div dir="auto" style={{ whiteSpace: "pre-wrap", overflowWrap: "anywhere" }}>{text.length > 20_000 ? text.slice(0, 20_000) + "…" : text}</div>
  </div>
);
