// The whole at a glance: what needs somebody, how much happens, how slow, how often wrong, and what it costs.

import { get } from "../api";
import type { NumbersAt, NumbersOf, Stats } from "../forms";
import { behind, by, callsOf, changed, filters, GROUPS, type Group, RANGES, range } from "../overview";
import { Choice, length, Nothing, plain, Trouble, useLooked } from "../parts/basics";
import { Chart, COLOURS, type Line, type Part, stepName } from "../parts/chart";
import { Needs } from "../parts/needs";
import { dollars, failed, many, share, time } from "../parts/numbers";
import { Behind, Groups, Models } from "../parts/overview_tables";
import { go, narrow, to } from "../router";
import "../overview.css";

const LOOK_MS = 5_000;

export function Overview() {
  const narrowed = JSON.stringify([range.value, filters.value]);
  const key = narrowed + by.value;
  const stats = useLooked(
    async () => ({ of: await get<Stats>("v1/stats", { range: range.value, by: by.value, ...filters.value }), narrowed }),
    LOOK_MS,
    [key],
  );
  const of = stats.value?.of;
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
      {of && behind.value && stats.value?.narrowed === narrowed && <Behind key={narrowed + JSON.stringify(behind.value)} of={of} />}
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
          {value === null ? NONE[name] : `${name} ${plain(value)}`}
          <Away />
        </a>
      ))}
      {!behind.value && <a href={changed({ calls: 1 })}>show the calls</a>}
    </p>
  );
}
const NONE: Record<string, string> = { agent: "no agent", source: "no source" };
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
        link={changed({ by: "code", sort: "calls", ...(wrong ? { calls: "failed" } : {}) })}
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
        more={`${now.sessions.toLocaleString()} open here, ${now.streams.toLocaleString()} ${now.streams === 1 ? "stream" : "streams"}`}
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

/** The largest ones, and all others as one. */
function parted(lines: Line[]): Line[] {
  const rest = lines.slice(TOP);
  if (!rest.length) return lines;
  const values = rest[0]!.values.map((_, n) => rest.reduce((sum, one) => sum + (one.values[n] ?? 0), 0));
  return [...lines.slice(0, TOP), { label: rest.length === 1 ? "1 other" : `${rest.length} others`, values, colour: COLOURS[6] }];
}

const grouped = (groups: NumbersOf[], group: Group): Line[] =>
  groups
    .filter((one) => one.points.some(Boolean))
    .map(({ name, points }, n) => ({ label: name || "none", values: points, colour: COLOURS[n % 6], part: callsOf(group, name) }));

const coded = (points: NumbersAt[], codes: string[]): Line[] =>
  codes.map((code, n) => ({
    label: code,
    values: points.map((point) => point.failures[code] ?? 0),
    colour: COLOURS[(n + 5) % 6],
    part: { code, calls: 1 },
  }));

function Plots({ of: { points, groups, total, step_s: step } }: { of: Stats }) {
  const times = points.map((point) => point.at);
  /** Leads to the calls of a time, or to those of one part of what is stacked. */
  const calls = (which: number | string) => ({
    times,
    step,
    link: (part: Part) => changed(part),
    chosen: (since: number, until: number, part?: Part) => go(changed({ since, until, calls: which, ...part })),
  });
  /** What no calls are behind is looked at in the tables of that time. */
  const tables = (group: Group, sort: string) => ({
    times,
    step,
    hint: "click or drag to choose a time",
    chosen: (since: number, until: number) => go(changed({ since, until, by: group, sort, calls: null })),
  });
  const line = (label: string, values: (number | null)[], n: number): Line => ({ label, values, colour: COLOURS[n] });
  const codes = Object.keys(total.failures);
  return (
    <div class="columns charts">
      <Chart {...calls(1)} title={`Calls by ${by.value}`} stacked say={many} lines={parted(grouped(groups, by.value))} />
      {codes.length > 0 && <Chart {...calls("failed")} title="Failures by code" stacked say={many} lines={parted(coded(points, codes))} />}
      {total.calls > 0 && (
        <Chart
          {...calls(1)}
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
          {...calls("waited")}
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
          {...tables("agent", "cost")}
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
          {...tables("agent", "cost")}
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
          {...tables("owner", "calls")}
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
