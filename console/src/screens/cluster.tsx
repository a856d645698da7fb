// How it is doing: rates and latencies, and the nodes and lanes of a cluster.

import { signal, useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { get, returns } from "../api";
import type { Cluster as ClusterForm, LaneForm, NodeForm, Stats } from "../forms";
import { Choice, length, plain, Said, State, Trouble } from "../parts/basics";
import { Plot } from "../parts/plot";
import { to } from "../router";

/** What a node tells of itself; one that only serves tells nothing. */
interface Facts {
  label?: string;
  role?: string;
  host?: string;
  pid?: number;
  slots?: number;
  running?: number;
  done?: number;
  missing?: string[];
  tools?: Record<string, string>;
}
type Node = NodeForm & { facts: Facts };

const EVERY_MS = 2_000;
const SPANS = [
  ["600", "last 10 minutes"],
  ["3600", "last hour"],
  ["86400", "last day"],
] as const;
const span = signal("600");

/** How deep the queue was at each look, while the page is open: no log tells that of the past. */
const MOST = 300;
const depth = signal<{ at: number; queued: number | null; running: number | null }[]>([]);

/** All looks, over a minute at least. */
function looked() {
  const last = depth.value.at(-1)?.at ?? 0;
  return (depth.value[0]?.at ?? 0) > last - 60 ? [{ at: last - 60, queued: null, running: null }, ...depth.value] : depth.value;
}

export function Cluster() {
  const stats = useSignal<Stats | undefined>(undefined);
  const cluster = useSignal<ClusterForm | undefined>(undefined);
  const trouble = useSignal<unknown>(undefined);
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout>;
    let over = false;
    const look = async () => {
      const begun = performance.now();
      try {
        stats.value = await get<Stats>("v1/stats", { seconds: span.value });
        depth.value = [...depth.value, { at: Date.now() / 1000, queued: stats.value.now.queued, running: stats.value.now.running }].slice(
          -MOST,
        );
        cluster.value = await get<ClusterForm>("v1/cluster").catch(() => undefined);
        trouble.value = undefined;
      } catch (error) {
        trouble.value = error;
      }
      // A server that has much to count is not asked all the time.
      if (!over) timer = setTimeout(look, Math.max(EVERY_MS, 10 * (performance.now() - begun)));
    };
    void look();
    return () => {
      over = true;
      clearTimeout(timer);
    };
  }, [span.value, returns.value]);
  return (
    <>
      <div class="head">
        <h1>Cluster</h1>
        <span class="grow" />
        <div class="filters">
          <Choice label="Over what time" value={span.value} choices={SPANS} changed={(value) => (span.value = value)} />
        </div>
      </div>
      <Trouble of={trouble.value} />
      {stats.value && <Figures of={stats.value} />}
      {!!cluster.value?.nodes.length && (
        <>
          <Nodes of={cluster.value.nodes} />
          <Lanes of={cluster.value.lanes} />
        </>
      )}
      {stats.value && <Plots of={stats.value} />}
      {cluster.value?.nodes.length === 0 && (
        <p class="soft small" role="note">
          One process, no cluster: calls run in this server.
        </p>
      )}
    </>
  );
}

const Figures = ({ of }: { of: Stats }) => (
  <div class="columns">
    {(["sessions", "running", "waiting", "queued"] as const).map((key) => (
      <div class="sheet figure" key={key}>
        <b>{of.now[key].toLocaleString()}</b>
        <span class="soft small">{key}</span>
      </div>
    ))}
  </div>
);

function Plots({ of: { points, step_s: step } }: { of: Stats }) {
  const times = points.map((point) => point.at);
  const looks = looked();
  return (
    <div class="columns plots">
      <Plot label="calls a second" times={times} values={points.map((point) => point.calls / step)} />
      <Plot
        label="failures a second"
        times={times}
        values={points.map((point) => Object.values(point.failures).reduce((a, b) => a + b, 0) / step)}
      />
      <Plot label="median" unit="ms" times={times} values={points.map((point) => point.p50_ms)} />
      <Plot label="95 of 100 within" unit="ms" times={times} values={points.map((point) => point.p95_ms)} />
      <Plot label="queued, since you look" whole times={looks.map((one) => one.at)} values={looks.map((one) => one.queued)} />
      <Plot label="running, since you look" whole times={looks.map((one) => one.at)} values={looks.map((one) => one.running)} />
    </div>
  );
}

function Nodes({ of }: { of: Node[] }) {
  return (
    <section class="sheet wide" aria-label="Nodes" tabIndex={0}>
      <h2>Nodes</h2>
      <table>
        <thead>
          <tr>
            <th scope="col">node</th>
            <th scope="col">state</th>
            <th scope="col">role</th>
            <th scope="col">where</th>
            <th scope="col">busy</th>
            <th scope="col" class="end">
              done
            </th>
            <th scope="col" class="end">
              tools
            </th>
            <th scope="col" class="end">
              up for
            </th>
            <th scope="col" class="end">
              heard of
            </th>
          </tr>
        </thead>
        <tbody>
          {of.map((node) => (
            <NodeRow key={node.name} of={node} />
          ))}
        </tbody>
      </table>
    </section>
  );
}

function NodeRow({ of: { name, state, age, started_at: started, facts } }: { of: Node }) {
  const { label, role, host, pid, slots, running = 0, done, missing, tools } = facts;
  return (
    <tr>
      <td>
        <code>{plain(name)}</code>
        {label && label !== host && <span class="soft small"> {plain(label)}</span>}
      </td>
      <td>
        <State of={state} />
      </td>
      <td>{role ? plain(role) : <span class="soft">serves only</span>}</td>
      <td class="soft">{host && `${plain(host)}, process ${pid}`}</td>
      <td>
        {!!slots && (
          <span class="load">
            <span class="bar" role="meter" aria-label="slots in use" aria-valuenow={running} aria-valuemin={0} aria-valuemax={slots}>
              <i style={{ width: `${Math.min(100, (running / slots) * 100)}%` }} />
            </span>
            {running.toLocaleString()} of {slots.toLocaleString()}
          </span>
        )}
      </td>
      <td class="end">{done?.toLocaleString()}</td>
      <td class="end">
        {Object.keys(tools ?? {}).length || ""}
        {!!missing?.length && (
          <span class="trouble line small">
            lacks <Said of={missing.join(", ")} most={200} />
          </span>
        )}
      </td>
      <td class="end soft">{started ? length(Math.max(0, Date.now() / 1000 - started)) : ""}</td>
      <td class="end soft">{length(age)} ago</td>
    </tr>
  );
}

const Lanes = ({ of }: { of: LaneForm[] }) => (
  <section class="sheet wide" aria-label="Lanes" tabIndex={of.length ? 0 : undefined}>
    <h2>Lanes</h2>
    {of.length === 0 ? (
      <p class="soft">Nothing is queued, running or waiting.</p>
    ) : (
      <table>
        <thead>
          <tr>
            <th scope="col">lane</th>
            <th scope="col">tool</th>
            {COUNTED.map((name) => (
              <th key={name} scope="col" class="end">
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {of.map((one) => (
            <tr key={one.lane + one.tool}>
              <td>{plain(one.lane)}</td>
              <td>
                <a href={to("tools", one.tool)}>{plain(one.tool)}</a>
              </td>
              {COUNTED.map((name) => (
                <td key={name} class={one[name] ? "end" : "end soft"}>
                  {one[name].toLocaleString()}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    )}
  </section>
);

const COUNTED = ["queued", "running", "waiting"] as const;
