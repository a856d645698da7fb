// How it is doing: rates and latencies, and the nodes and lanes of a cluster.

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { get, link } from "../api";
import { Trouble } from "../parts/basics";
import { Plot } from "../parts/plot";

const KEPT = 120;
type Numbers = Record<string, any>;

export function Cluster() {
  const stats = useSignal<Numbers | undefined>(undefined);
  const cluster = useSignal<Numbers | undefined>(undefined);
  const past = useSignal<{ at: number; stats: Numbers }[]>([]);
  const trouble = useSignal<unknown>(undefined);
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout>;
    let over = false;
    const look = async () => {
      try {
        stats.value = await get<Numbers>("v1/stats");
        cluster.value = await get<Numbers>("v1/cluster").catch(() => undefined);
        past.value = [...past.value, { at: Date.now() / 1000, stats: stats.value }].slice(-KEPT);
        trouble.value = undefined;
      } catch (error) {
        if (link.value === "open") trouble.value = error;
      }
      if (!over) timer = setTimeout(look, 2000);
    };
    void look();
    return () => { over = true; clearTimeout(timer); };
  }, []);
  const times = past.value.map((one) => one.at);
  const line = (key: string, scale = 1) => past.value.map((one) => Math.round((one.stats[key] ?? 0) * scale * 100) / 100);
  const nodes: Numbers[] = cluster.value?.nodes ?? [];
  const lanes: Numbers[] = cluster.value?.lanes ?? [];
  return (
    <>
      <div class="head"><h1>Cluster</h1></div>
      <Trouble of={trouble.value} />
      {stats.value && (
        <div class="columns">
          {["sessions", "running", "waiting", "queued"].map((key) => (
            <div class="sheet figure" style={{ marginTop: 0 }} key={key}><b>{(stats.value![key] ?? 0).toLocaleString()}</b><span class="soft small">{key}</span></div>
          ))}
        </div>
      )}
      <div class="columns" style={{ gridTemplateColumns: "repeat(auto-fit, minmax(280px, 1fr))" }}>
        <Plot label="calls a second" times={times} values={line("calls_s")} />
        <Plot label="p50" unit="ms" times={times} values={line("p50_s", 1000)} />
        <Plot label="p95" unit="ms" times={times} values={line("p95_s", 1000)} />
      </div>
      <Table title="Nodes" rows={nodes} none="One process, no cluster: calls run in this server." />
      {lanes.length > 0 && <Table title="Lanes" rows={lanes} none="" />}
    </>
  );
}

function Table({ title, rows, none }: { title: string; rows: Numbers[]; none: string }) {
  const heads = [...new Set(rows.flatMap(Object.keys))];
  return (
    <section class="sheet" aria-label={title} style={{ overflowX: "auto" }}>
      <h2>{title}</h2>
      {rows.length === 0 ? <p class="soft">{none}</p> : (
        <table>
          <thead><tr>{heads.map((head) => <th key={head} scope="col">{head.replace(/_/g, " ")}</th>)}</tr></thead>
          <tbody>{rows.map((row, n) => <tr key={n}>{heads.map((head) => <td key={head}>{shown(row[head])}</td>)}</tr>)}</tbody>
        </table>
      )}
    </section>
  );
}

const shown = (value: unknown) =>
  value === undefined || value === null ? "" : typeof value === "number" ? value.toLocaleString(undefined, { maximumFractionDigits: 2 }) : typeof value === "string" ? value : JSON.stringify(value);
