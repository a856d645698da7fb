// How agents hang together, with the traffic on the lines between them.

import type { AgentForm as AgentLine, Edge } from "../forms";

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
      levels[n] = [...(levels[n] ?? []), ...level];
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

/** One line for each pair: an agent may hand over to another and ask it as well. */
function joined(edges: Edge[]): Edge[] {
  const pairs = new Map<string, Edge>();
  for (const edge of edges) {
    const key = JSON.stringify([edge.source, edge.target]);
    const known = pairs.get(key);
    pairs.set(key, known ? { ...known, count: (known.count ?? 0) + (edge.count ?? 0) } : edge);
  }
  return [...pairs.values()];
}

const times = (count = 0) => (count === 1 ? "once in the last week" : `${count.toLocaleString()} times in the last week`);

/** Who may reach whom, and how often they did. */
export function Graph({ agents, edges }: { agents: AgentLine[]; edges: Edge[] }) {
  const levels = placed(agents, edges);
  const wide = Math.max(WIDE, ...levels.map((level) => level.reduce((sum, { name }) => sum + room(name) * 2 + 24, 0)));
  const high = levels.length * ROW - (ROW - TALL) + 16;
  const boxes = new Map(
    levels.flatMap((level, row) =>
      level.map(({ name }, n) => [name, { x: ((n + 0.5) / level.length) * wide, y: row * ROW + TALL / 2 + 8, half: room(name) }] as const),
    ),
  );
  const lines = joined(edges.filter((edge) => boxes.has(edge.source) && boxes.has(edge.target)));
  const most = Math.max(1, ...lines.map((edge) => edge.count ?? 0));
  return (
    <section class="sheet" aria-label="Who works with whom">
      <h2>Who works with whom</h2>
      <svg
        viewBox={`0 0 ${wide} ${high}`}
        class="graph"
        style={{ maxWidth: `${wide}px` }}
        role="img"
        aria-label={
          lines
            .map((edge) => `${edge.source} ${edge.via === "call" ? "asks" : "hands over to"} ${edge.target}, ${times(edge.count)}`)
            .join("; ") || "nobody hands over"
        }
      >
        <defs>
          <marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="9" markerHeight="9" markerUnits="userSpaceOnUse" orient="auto">
            <path d="M0 0 8 4 0 8z" fill="currentColor" />
          </marker>
        </defs>
        {lines.map((edge) => (
          <Arrow
            key={edge.source + edge.target + edge.via}
            from={boxes.get(edge.source)!}
            to={boxes.get(edge.target)!}
            dashed={edge.via === "call"}
            count={edge.count ?? 0}
            most={most}
            aside={lines.some((other) => other.source === edge.target && other.target === edge.source)}
          />
        ))}
        {[...boxes].map(([name, { x, y, half }]) => (
          <g key={name}>
            <rect x={x - half} y={y - TALL / 2} width={half * 2} height={TALL} rx={TALL / 2} />
            <text x={x} y={y + 4.5} text-anchor="middle" fill="currentColor" font-size="13" font-weight="600">
              {shortly(name)}
            </text>
          </g>
        ))}
      </svg>
      <p class="small soft">
        Along a line an agent may hand over{lines.some((edge) => edge.via === "call") && "; along a dashed one it may only ask"}. The number
        beside it, and how thick it is, say how often that happened in the last week.
      </p>
    </section>
  );
}

const shortly = (name: string) => (name.length > 22 ? `${name.slice(0, 21)}…` : name);
const room = (name: string) => (shortly(name).length * LETTER) / 2 + 16;

/** From the rim of one box to that of the other; a little `aside`, so that a line there and one back are two. */
interface Line {
  from: Box;
  to: Box;
  dashed: boolean;
  aside: boolean;
  count: number;
  most: number;
}

function Arrow({ from, to, dashed, aside, count, most }: Line) {
  const [dx, dy] = [to.x - from.x, to.y - from.y];
  const far = Math.hypot(dx, dy) || 1;
  const rim = ({ half }: Box) =>
    Math.min(dx ? ((half + 3) * far) / Math.abs(dx) : Infinity, dy ? ((TALL / 2 + 3) * far) / Math.abs(dy) : Infinity);
  const off = aside ? 5 : 0;
  const at = (way: number) => [from.x + (dx * way - dy * off) / far, from.y + (dy * way + dx * off) / far] as const;
  const [[x1, y1], [x2, y2]] = [at(rim(from)), at(far - rim(to))];
  const text = count ? count.toLocaleString() : "";
  const half = (text.length * LETTER) / 2 + 5;
  const [x, y] = [(x1 + x2) / 2 - (aside ? (dy / far) * 10 : 0), (y1 + y2) / 2 + (aside ? (dx / far) * 10 : 0)];
  return (
    <g class={count ? "traffic" : "traffic none"}>
      <line
        x1={x1}
        y1={y1}
        x2={x2}
        y2={y2}
        stroke="currentColor"
        stroke-width={1 + 2.5 * Math.sqrt(count / most)}
        stroke-dasharray={dashed ? "5 4" : undefined}
        marker-end="url(#tip)"
      />
      {text && <rect x={x - half} y={y - 9} width={half * 2} height={18} rx={9} class="traffic-count" />}
      {text && (
        <text x={x} y={y + 4} text-anchor="middle" fill="currentColor" font-size="11.5">
          {text}
        </text>
      )}
    </g>
  );
}
