// The whole at a glance: what needs somebody, how much happens, how slow, how often wrong, and what it costs.

import { get } from "../api";
import type { NumbersAt, NumbersOf, Stats } from "../forms";
import { by, changed, filters, GROUPS, RANGES, range } from "../overview";
import { Choice, length, Nothing, plain, Trouble, useLooked } from "../parts/basics";
import { Chart, COLOURS, type Line, stepName } from "../parts/chart";
import { Needs } from "../parts/needs";
import { dollars, failed, many, share, time } from "../parts/numbers";
import { Behind, Groups, Models } from "../parts/overview_tables";
import { go, narrow, route, to } from "../router";
import "../overview.css";

const LOOK_MS = 5_000;

export function Overview() {
  const key = JSON.stringify([range.value, by.value, filters.value]);
  const stats = useLooked(() => get<Stats>("v1/stats", { range: range.value, by: by.value, ...filters.value }), LOOK_MS, [key]);
  const of = stats.value;
  const empty = of && of.total.calls === 0 && of.total.turns === 0 && of.total.waits === 0;
  return (
    <>
      <div class="head">
        <h1>Overview</h1>
        <span class="grow" />
        <div class="filters joined" role="group" aria-label="Over what time">
          {RANGES.map(([one, text]) => (
            <button
              key={one}
              aria-pressed={range.value === one && !filters.value.since}
              onClick={() => go(changed({ range: one, since: null, until: null }))}
            >
              {text}
            </button>
          ))}
        </div>
        <div class="filters">
          <label class="small soft" for="by">
            by
          </label>
          <Choice label="By" value={by.value} choices={GROUPS} changed={narrow("by")} />
        </div>
      </div>
      <Trouble of={stats.trouble} />
      <Chosen />
      <Needs />
      {of && <Figures of={of} />}
      {!!of?.uncounted && (
        <p class="soft small" role="status">
          {of.uncounted.toLocaleString()} lines of the log are still being counted.
        </p>
      )}
      {empty ? <Empty /> : of && <Plots of={of} />}
      {route.value.query.has("calls") && <Behind />}
      {!empty && of && (
        <>
          <Groups of={of} />
          <Models of={of} />
        </>
      )}
    </>
  );
}

const Empty = () => (
  <Nothing>
    {Object.keys(filters.value).length > 0 ? (
      <>
        Nothing like that ended in this time. <a href={to("overview")}>Look at everything</a>
      </>
    ) : (
      <>
        Nothing ended in the last {range.value}. <a href={to("tools")}>Choose a tool and call it</a>,{" "}
        <a href={to("agents")}>speak with an agent</a>, or look at <a href={changed({ range: "week" })}>the last week</a>.
      </>
    )}
  </Nothing>
);

/** What the numbers are narrowed to, each part with a way out of it. */
function Chosen() {
  const { since, until, ...names } = filters.value;
  if (!since && Object.keys(names).length === 0) return null;
  return (
    <p class="chosen-parts" role="group" aria-label="Narrowed to">
      {since && (
        <a class="tag" href={changed({ since: null, until: null })}>
          {stepName(Number(since), Number(until) - Number(since))}
          <Away />
        </a>
      )}
      {Object.entries(names).map(([name, value]) => (
        <a key={name} class="tag" href={changed({ [name]: null })}>
          {name} {plain(value)}
          <Away />
        </a>
      ))}
      {!route.value.query.has("calls") && <a href={changed({ calls: 1 })}>show the calls</a>}
    </p>
  );
}
const Away = () => (
  <span>
    <span aria-hidden="true"> ×</span>
    <span class="hidden-text">, look at all again</span>
  </span>
);

function Figures({ of: { total, now } }: { of: Stats }) {
  const wrong = failed(total);
  const [code] = Object.keys(total.failures);
  const tokens = total.input_tokens + total.output_tokens;
  return (
    <div class="columns tiles" role="group" aria-label="In this time">
      <Tile
        name="calls"
        value={many(total.calls)}
        more={`${now.running.toLocaleString()} running, ${now.queued.toLocaleString()} queued now`}
        link={changed({ calls: 1 })}
      />
      <Tile
        name="failed"
        value={many(wrong)}
        more={wrong ? `${share(wrong, total.calls)}, mostly ${code}` : "none"}
        tone={wrong ? "bad" : ""}
        link={changed({ by: "code", sort: "calls" })}
      />
      <Tile
        name="95 of 100 within"
        value={time(total.p95_ms)}
        more={`half within ${time(total.p50_ms)}, 99 within ${time(total.p99_ms)}`}
        link={changed({ sort: "p95" })}
      />
      <Tile
        name="waiting now"
        value={many(now.waiting)}
        more={total.waits ? `${many(total.waits)} answered, 95 of 100 within ${time(total.waited_p95_ms)}` : "none answered in this time"}
        tone={now.waiting ? "warn" : ""}
        link={to("inbox")}
      />
      <Tile
        name="cost"
        value={dollars(total.cost)}
        more={`${many(tokens)} tokens in ${many(total.turns)} turns`}
        link={changed({ by: "agent", sort: "cost" })}
      />
      <Tile
        name="new sessions"
        value={many(total.sessions)}
        more={`${now.sessions.toLocaleString()} open here, ${now.streams.toLocaleString()} streams`}
        link={to("sessions")}
      />
    </div>
  );
}

const Tile = ({ name, value, more, tone = "", link }: { name: string; value: string; more: string; tone?: string; link: string }) => (
  <a class={`sheet tile ${tone}`} href={link}>
    <span class="soft small">{name}</span>
    <b>{value}</b>
    <span class="soft small">{more}</span>
  </a>
);

const TOP = 5;

/** The largest groups, and all others as one. */
function parted(groups: NumbersOf[], key: "points" | "failed"): Line[] {
  const some = groups.filter((one) => one[key].some(Boolean));
  const lines: Line[] = some.slice(0, TOP).map((one, n) => ({ label: one.name || "none", values: one[key], colour: COLOURS[n] }));
  const rest = some.slice(TOP);
  if (rest.length)
    lines.push({
      label: rest.length === 1 ? "1 other" : `${rest.length} others`,
      values: rest[0]!.points.map((_, n) => rest.reduce((sum, one) => sum + one[key][n]!, 0)),
      colour: COLOURS[6],
    });
  return lines;
}

function coded(points: NumbersAt[], codes: string[]): Line[] {
  return codes
    .slice(0, 6)
    .map((code, n) => ({ label: code, values: points.map((point) => point.failures[code] ?? 0), colour: COLOURS[(n + 5) % 7] }));
}

function Plots({ of: { points, groups, total, step_s: step } }: { of: Stats }) {
  const times = points.map((point) => point.at);
  const each = { times, step, chosen: (since: number, until: number) => go(changed({ since, until, calls: 1 })) };
  const line = (label: string, values: (number | null)[], n: number): Line => ({ label, values, colour: COLOURS[n] });
  const codes = Object.keys(total.failures);
  return (
    <div class="columns charts">
      <Chart {...each} title={`Calls by ${by.value}`} stacked say={many} lines={parted(groups, "points")} />
      {codes.length > 0 && <Chart {...each} title="Failures by code" stacked say={many} lines={coded(points, codes)} />}
      {total.calls > 0 && (
        <Chart
          {...each}
          title="How long calls take"
          log
          say={(ms) => length(ms / 1000)}
          lines={[
            line(
              "half within",
              points.map((one) => one.p50_ms),
              0,
            ),
            line(
              "95 of 100",
              points.map((one) => one.p95_ms),
              1,
            ),
            line(
              "99 of 100",
              points.map((one) => one.p99_ms),
              3,
            ),
          ]}
        />
      )}
      {total.waits > 0 && (
        <Chart
          {...each}
          title="How long people were waited for"
          log
          say={(ms) => length(ms / 1000)}
          lines={[
            line(
              "half within",
              points.map((one) => one.waited_p50_ms),
              0,
            ),
            line(
              "95 of 100",
              points.map((one) => one.waited_p95_ms),
              1,
            ),
          ]}
        />
      )}
      {total.turns > 0 && (
        <Chart
          {...each}
          title="Tokens"
          stacked
          say={many}
          lines={[
            line(
              "read",
              points.map((one) => one.input_tokens),
              4,
            ),
            line(
              "written",
              points.map((one) => one.output_tokens),
              0,
            ),
          ]}
        />
      )}
      {total.cost > 0 && (
        <Chart
          {...each}
          title="Cost"
          stacked
          say={dollars}
          lines={[
            line(
              "US dollars",
              points.map((one) => one.cost),
              2,
            ),
          ]}
        />
      )}
      {total.sessions > 0 && (
        <Chart
          {...each}
          title="New sessions"
          stacked
          say={many}
          lines={[
            line(
              "sessions",
              points.map((one) => one.sessions),
              3,
            ),
          ]}
        />
      )}
    </div>
  );
}
