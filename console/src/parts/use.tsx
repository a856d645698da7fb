// How a tool is used: how much, how well, how fast, and by whom.

import { useSignal } from "@preact/signals";
import { at, get, me } from "../api";
import type { NumbersAt, NumbersOf, Stats } from "../forms";
import { go, to } from "../router";
import type { ToolStats } from "../types";
import { length, plain, State, Time, useAsked } from "./basics";
import { Chart, COLOURS, Sparkline, stepName } from "./chart";

const RANGES = [
  ["day", "Day"],
  ["week", "Week"],
] as const;
/** The codes that say something of the tool, and not of what it was asked for. */
const ILL = ["unavailable", "timeout", "internal", "unknown"];

const failures = (of: { failures: Record<string, number> }) => Object.values(of.failures).reduce((a, b) => a + b, 0);
const ill = (of: NumbersAt) => ILL.reduce((sum, code) => sum + (of.failures[code] ?? 0), 0);
const count = (value: number) => value.toLocaleString();
const time = (ms: number | null | undefined) => (ms == null ? "" : length(ms / 1000));

export function Use({ tool, over }: { tool: string; over: number }) {
  const range = useSignal<string>("week");
  const asked = (by: string) => (abort: AbortSignal) => get<ToolStats>(at("tools", tool, "stats"), { by, range: range.value }, abort);
  const agents = useAsked(asked("agent"), [tool, over, range.value]);
  const owners = useAsked(asked("owner"), [tool, over, range.value]);
  const of = agents.value;
  if (!of) return null;
  const behind = (since: number, until: number) =>
    go(`${to("overview")}?${new URLSearchParams({ tool, since: String(since), until: String(until), calls: "1" })}`);
  const times = of.points.map((point) => point.at);
  const each = { times, step: of.step_s, chosen: behind };
  return (
    <section class="sheet" aria-label="Use">
      <div class="chart-head">
        <h2>Use</h2>
        <span class="grow" />
        <div class="filters joined" role="group" aria-label="Over what time">
          {RANGES.map(([one, text]) => (
            <button key={one} class="small" aria-pressed={range.value === one} onClick={() => (range.value = one)}>
              {text}
            </button>
          ))}
        </div>
      </div>
      <Numbers of={of} range={range.value} />
      {of.total.calls > 0 && (
        <>
          <Health points={of.points} step={of.step_s} />
          <div class="columns charts">
            <Chart
              {...each}
              title="Calls"
              stacked
              say={count}
              lines={[
                { label: "succeeded", values: of.points.map((one) => one.calls - failures(one)), colour: COLOURS[0] },
                { label: "failed", values: of.points.map(failures), colour: COLOURS[5] },
              ]}
            />
            <Chart
              {...each}
              title="How long they take"
              log
              say={(ms) => length(ms / 1000)}
              lines={[
                { label: "half within", values: of.points.map((one) => one.p50_ms), colour: COLOURS[0] },
                { label: "95 of 100", values: of.points.map((one) => one.p95_ms), colour: COLOURS[1] },
              ]}
            />
          </div>
          <Who title="agent" rows={of.groups} tool={tool} range={range.value} />
          {me.value?.admin && me.value.auth !== "off" && owners.value && (
            <Who title="owner" rows={owners.value.groups} tool={tool} range={range.value} />
          )}
        </>
      )}
      {of.last.length > 0 && (
        <details>
          <summary class="small soft">recent calls</summary>
          {of.last.map((one) => (
            <a key={one.call} class="row flat" href={to("live", one.session, one.call)}>
              <span class="grow cut">
                <Time at={one.at} /> <span class="small">{one.session}</span>
              </span>
              <span class="soft small">{length(one.duration_ms / 1000)}</span>
              <State of={one.outcome} />
            </a>
          ))}
        </details>
      )}
    </section>
  );
}

function Numbers({ of: { total }, range }: { of: ToolStats; range: string }) {
  const wrong = failures(total);
  return (
    <div class="columns figures">
      <Figure value={count(total.calls)} name={`calls in a ${range}`} />
      <Figure value={count(wrong)} name={wrong ? `failed: ${Object.keys(total.failures).join(", ")}` : "failed"} />
      {total.p50_ms != null && <Figure value={time(total.p50_ms)} name="median" />}
      {total.p95_ms != null && <Figure value={time(total.p95_ms)} name="95 of 100 within" />}
    </div>
  );
}

export const Figure = ({ value, name }: { value: string; name: string }) => (
  <div class="figure">
    <b>{value}</b>
    <span class="soft small">{name}</span>
  </div>
);

/** How its calls went, step by step: what was its own fault, and not that of what it was asked for. */
function Health({ points, step }: { points: NumbersAt[]; step: number }) {
  const used = points.filter((one) => one.calls > 0);
  const bad = used.filter((one) => ill(one) > 0);
  const what = step >= 3_600 ? "hours" : "minutes";
  const words = bad.length
    ? `not well in ${count(bad.length)} of the ${count(used.length)} ${what} with calls`
    : `well in all ${count(used.length)} ${what} with calls`;
  const state = (one: NumbersAt) => (one.calls === 0 ? "none" : ill(one) * 2 > one.calls ? "ill" : ill(one) ? "partly" : "well");
  return (
    <div class="health">
      <span class="small soft">
        health over time: <b>{words}</b>
      </span>
      <div class="health-steps" role="img" aria-label={`Health over time: ${words}`}>
        {points.map((one) => (
          <i
            key={one.at}
            class={state(one)}
            title={`${stepName(one.at, step)}: ${one.calls ? `${count(ill(one))} of ${count(one.calls)} calls` : "no calls"}`}
          />
        ))}
      </div>
      <ul class="legend small" aria-hidden="true">
        <li>
          <i class="well" />
          well
        </li>
        <li>
          <i class="partly" />
          some calls ended {ILL.slice(0, -1).join(", ")} or {ILL.at(-1)}
        </li>
        <li>
          <i class="ill" />
          most did
        </li>
        <li>
          <i class="none" />
          no calls
        </li>
      </ul>
    </div>
  );
}

const MOST = 8;

function Who({ title, rows, tool, range }: { title: "agent" | "owner"; rows: Stats["groups"]; tool: string; range: string }) {
  const link = (one: NumbersOf) =>
    `${to("overview")}?${new URLSearchParams({ tool, range, calls: "1", ...(one.name ? { [title]: one.name } : {}) })}`;
  return (
    <div class="wide" tabIndex={0} role="region" aria-label={`Who uses it, by ${title}`}>
      <table>
        <thead>
          <tr>
            <th scope="col">{title}</th>
            <th scope="col">over time</th>
            <th scope="col" class="end">
              calls
            </th>
            <th scope="col" class="end">
              failed
            </th>
            <th scope="col" class="end">
              p95
            </th>
          </tr>
        </thead>
        <tbody>
          {rows.slice(0, MOST).map((one) => (
            <tr key={one.name}>
              <th scope="row">{one.name ? plain(one.name) : <span class="soft">no {title}</span>}</th>
              <td>
                <Sparkline values={one.points} marked={one.failed} />
              </td>
              <td class="end">
                <a href={link(one)}>
                  {count(one.calls)}
                  <span class="hidden-text"> calls</span>
                </a>
              </td>
              <td class={failures(one) ? "end bad-text" : "end soft"}>{count(failures(one))}</td>
              <td class="end soft">{time(one.p95_ms)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {rows.length > MOST && <p class="small soft">and {count(rows.length - MOST)} more</p>}
    </div>
  );
}
