// How it is doing: rates and latencies, and the nodes and lanes of a cluster.

import { signal, useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { get, returns } from "../api";
import { Choice, plain, State, Trouble } from "../parts/basics";
import { Plot } from "../parts/plot";
import type { Counts } from "../types";

interface Stats {
  sessions: number;
  running: number;
  waiting: number;
  queued: number;
  recent: Counts;
}
type Row = Record<string, unknown>;
interface Nodes {
  nodes: { name: string; state: string; age: number; started_at: number; facts: Row }[];
  lanes: Row[];
}

const EVERY_MS = 2_000;
const SPANS = [["600", "last 10 minutes"], ["3600", "last hour"], ["86400", "last day"]] as const;
const span = signal("600");

export function Cluster() {
  const stats = useSignal<Stats | undefined>(undefined);
  const cluster = useSignal<Nodes | undefined>(undefined);
  const trouble = useSignal<unknown>(undefined);
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout>;
    let over = false;
    const look = async () => {
      const begun = performance.now();
      try {
        stats.value = await get<Stats>("v1/stats", { seconds: span.value, points: 60 });
        cluster.value = await get<Nodes>("v1/cluster").catch(() => undefined);
        trouble.value = undefined;
      } catch (error) {
        trouble.value = error;
      }
      // A server that has much to count is not asked all the time.
      if (!over) timer = setTimeout(look, Math.max(EVERY_MS, 10 * (performance.now() - begun)));
    };
    void look();
    return () => { over = true; clearTimeout(timer); };
  }, [span.value, returns.value]);
  return (
    <>
      <div class="head"><h1>Cluster</h1><span class="grow" /><div class="filters"><Choice label="Over what time" value={span.value} choices={SPANS} changed={(value) => (span.value = value)} /></div></div>
      <Trouble of={trouble.value} />
      {stats.value && <Figures of={stats.value} />}
      {stats.value && <Plots of={stats.value.recent} />}
      <Table title="Nodes" none="One process, no cluster: calls run in this server."
        rows={(cluster.value?.nodes ?? []).map(({ name, state, age, facts }) => ({ name, state, "seen (s ago)": age, ...facts }))} />
      {!!cluster.value?.lanes.length && <Table title="Lanes" rows={cluster.value.lanes} none="" />}
    </>
  );
}

const Figures = ({ of }: { of: Stats }) => (
  <div class="columns">
    {(["sessions", "running", "waiting", "queued"] as const).map((key) => (
      <div class="sheet figure" key={key}><b>{of[key].toLocaleString()}</b><span class="soft small">{key}</span></div>
    ))}
  </div>
);

function Plots({ of: { points } }: { of: Counts }) {
  const times = points.map((point) => point.at);
  const step = (times[1] ?? 1) - (times[0] ?? 0);
  return (
    <div class="columns plots">
      <Plot label="calls a second" times={times} values={points.map((point) => point.calls / step)} />
      <Plot label="failures a second" times={times} values={points.map((point) => point.failures / step)} />
      <Plot label="median" unit="ms" times={times} values={points.map((point) => point.p50_ms)} />
      <Plot label="95 of 100 within" unit="ms" times={times} values={points.map((point) => point.p95_ms)} />
    </div>
  );
}

function Table({ title, rows, none }: { title: string; rows: Row[]; none: string }) {
  const heads = [...new Set(rows.flatMap(Object.keys))];
  return (
    <section class="sheet wide" aria-label={title} tabIndex={rows.length ? 0 : undefined}>
      <h2>{title}</h2>
      {rows.length === 0 ? <p class="soft">{none}</p> : (
        <table>
          <thead><tr>{heads.map((head) => <th key={head} scope="col">{head.replaceAll("_", " ")}</th>)}</tr></thead>
          <tbody>{rows.map((row, n) => <tr key={n}>{heads.map((head) => <td key={head}>{head === "state" ? <State of={String(row[head])} /> : shown(row[head])}</td>)}</tr>)}</tbody>
        </table>
      )}
    </section>
  );
}

const shown = (value: unknown) =>
  value === undefined || value === null ? "" : typeof value === "number" ? value.toLocaleString(undefined, { maximumFractionDigits: 2 }) : plain(typeof value === "string" ? value : JSON.stringify(value));
