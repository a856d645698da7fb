// The whole at a glance: what needs somebody, how much happens, how slow, how often wrong, and what it costs.

import { computed } from "@preact/signals";
import { get } from "../api";
import type { NumbersAt, NumbersOf, Stats } from "../forms";
import { Choice, length, Nothing, plain, Said, State, Time, Trouble, useLooked, usePages } from "../parts/basics";
import { Chart, COLOURS, Sparkline, stepName, type Line } from "../parts/chart";
import { Needs } from "../parts/needs";
import { go, narrow, route, to } from "../router";
import type { Entry } from "../types";
import "../overview.css";

const LOOK_MS = 5_000;
const RANGES = [["hour", "Hour"], ["day", "Day"], ["week", "Week"]] as const;
const GROUPS = ["tool", "agent", "owner", "source", "code", "rule"] as const;
const FILTERS = ["tool", "agent", "owner", "source", "code"] as const;
const SORTS = [["calls", "most calls"], ["failed", "most failures"], ["p95", "slowest"], ["waits", "longest waits"], ["cost", "highest cost"]] as const;
type Group = (typeof GROUPS)[number];

const asked = (name: string, known: readonly string[], first: string) => {
  const value = route.value.query.get(name) ?? "";
  return known.includes(value) ? value : first;
};
const range = computed(() => asked("range", RANGES.map(([key]) => key), "day"));
const by = computed(() => asked("by", GROUPS, "tool") as Group);
const sort = computed(() => asked("sort", SORTS.map(([key]) => key), by.value === "agent" ? "cost" : "calls"));
const filters = computed(() => Object.fromEntries([...FILTERS, "since", "until"].flatMap((name) => {
  const value = route.value.query.get(name);
  return value ? [[name, value]] : [];
})));

/** An address of this screen with something changed; null takes a part away. */
function changed(parts: Record<string, string | number | null>): string {
  const query = new URLSearchParams(route.value.query);
  for (const [name, value] of Object.entries(parts)) {
    if (value === null) query.delete(name);
    else query.set(name, String(value));
  }
  return to("overview") + (query.size ? `?${query}` : "");
}

export const failed = (of: { failures: Record<string, number> }) => Object.values(of.failures).reduce((a, b) => a + b, 0);
const many = (value: number) => value.toLocaleString(undefined, { notation: value >= 1e5 ? "compact" : "standard", maximumFractionDigits: value >= 1e5 ? 1 : 0 });
const dollars = (value: number) => `$${value.toLocaleString(undefined, { minimumFractionDigits: 2, maximumFractionDigits: value >= 1 ? 2 : 4 })}`;
const time = (ms: number | null) => (ms === null ? "none" : length(ms / 1000));
const share = (part: number, of: number) => (of ? `${((100 * part) / of).toLocaleString(undefined, { maximumFractionDigits: 1 })} %` : "0 %");

export function Overview() {
  const key = JSON.stringify([range.value, by.value, filters.value]);
  const stats = useLooked(() => get<Stats>("v1/stats", { range: range.value, by: by.value, ...filters.value }), LOOK_MS, [key]);
  const of = stats.value;
  const empty = of && of.total.calls === 0 && of.total.turns === 0 && of.total.waits === 0;
  return (
    <>
      <div class="head">
        <h1>Overview</h1><span class="grow" />
        <div class="filters joined" role="group" aria-label="Over what time">
          {RANGES.map(([one, text]) => <button key={one} aria-pressed={range.value === one && !filters.value.since} onClick={() => go(changed({ range: one, since: null, until: null }))}>{text}</button>)}
        </div>
        <div class="filters"><label class="small soft" for="by">by</label><Choice label="By" value={by.value} choices={GROUPS} changed={narrow("by")} /></div>
      </div>
      <Trouble of={stats.trouble} />
      <Chosen />
      <Needs />
      {of && <Figures of={of} />}
      {!!of?.uncounted && <p class="soft small" role="status">{of.uncounted.toLocaleString()} lines of the log are still being counted.</p>}
      {empty ? <Empty /> : of && <Plots of={of} />}
      {route.value.query.has("calls") && <Behind />}
      {!empty && of && <><Groups of={of} /><Models of={of} /></>}
    </>
  );
}

const Empty = () => (
  <Nothing>
    {Object.keys(filters.value).length > 0
      ? <>Nothing like that ended in this time. <a href={to("overview")}>Look at everything</a></>
      : <>Nothing ended in the last {range.value}. <a href={to("tools")}>Choose a tool and call it</a>, <a href={to("agents")}>speak with an agent</a>, or look at <a href={changed({ range: "week" })}>the last week</a>.</>}
  </Nothing>
);

/** What the numbers are narrowed to, each part with a way out of it. */
function Chosen() {
  const { since, until, ...names } = filters.value;
  if (!since && Object.keys(names).length === 0) return null;
  return (
    <p class="chosen-parts" aria-label="Narrowed to">
      {since && <a class="tag" href={changed({ since: null, until: null })}>{stepName(Number(since), Number(until) - Number(since))}<Away /></a>}
      {Object.entries(names).map(([name, value]) => <a key={name} class="tag" href={changed({ [name]: null })}>{name} {plain(value)}<Away /></a>)}
      {!route.value.query.has("calls") && <a href={changed({ calls: 1 })}>show the calls</a>}
    </p>
  );
}
const Away = () => <span><span aria-hidden="true"> ×</span><span class="hidden-text">, look at all again</span></span>;

function Figures({ of: { total, now } }: { of: Stats }) {
  const wrong = failed(total);
  const [code] = Object.keys(total.failures);
  const tokens = total.input_tokens + total.output_tokens;
  return (
    <div class="columns tiles" role="group" aria-label="In this time">
      <Tile name="calls" value={many(total.calls)} more={`${now.running.toLocaleString()} running, ${now.queued.toLocaleString()} queued now`} link={changed({ calls: 1 })} />
      <Tile name="failed" value={many(wrong)} more={wrong ? `${share(wrong, total.calls)}, mostly ${code}` : "none"} tone={wrong ? "bad" : ""} link={changed({ by: "code", sort: "calls" })} />
      <Tile name="95 of 100 within" value={time(total.p95_ms)} more={`half within ${time(total.p50_ms)}, 99 within ${time(total.p99_ms)}`} link={changed({ sort: "p95" })} />
      <Tile name="waiting now" value={many(now.waiting)} more={total.waits ? `${many(total.waits)} answered, 95 of 100 within ${time(total.waited_p95_ms)}` : "none answered in this time"} tone={now.waiting ? "warn" : ""} link={to("inbox")} />
      <Tile name="cost" value={dollars(total.cost)} more={`${many(tokens)} tokens in ${many(total.turns)} turns`} link={changed({ by: "agent", sort: "cost" })} />
      <Tile name="new sessions" value={many(total.sessions)} more={`${now.sessions.toLocaleString()} open here, ${now.streams.toLocaleString()} streams`} link={to("sessions")} />
    </div>
  );
}

const Tile = ({ name, value, more, tone = "", link }: { name: string; value: string; more: string; tone?: string; link: string }) => (
  <a class={`sheet tile ${tone}`} href={link}><span class="soft small">{name}</span><b>{value}</b><span class="soft small">{more}</span></a>
);

const TOP = 5;

/** The largest groups, and all others as one. */
function parted(groups: NumbersOf[], key: "points" | "failed"): Line[] {
  const some = groups.filter((one) => one[key].some(Boolean));
  const lines: Line[] = some.slice(0, TOP).map((one, n) => ({ label: one.name || "none", values: one[key], colour: COLOURS[n] }));
  const rest = some.slice(TOP);
  if (rest.length) lines.push({ label: rest.length === 1 ? "1 other" : `${rest.length} others`, values: rest[0]!.points.map((_, n) => rest.reduce((sum, one) => sum + one[key][n]!, 0)), colour: COLOURS[6] });
  return lines;
}

function coded(points: NumbersAt[], codes: string[]): Line[] {
  return codes.slice(0, 6).map((code, n) => ({ label: code, values: points.map((point) => point.failures[code] ?? 0), colour: COLOURS[(n + 5) % 7] }));
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
      {total.calls > 0 && <Chart {...each} title="How long calls take" log say={(ms) => length(ms / 1000)} lines={[
        line("half within", points.map((one) => one.p50_ms), 0), line("95 of 100", points.map((one) => one.p95_ms), 1), line("99 of 100", points.map((one) => one.p99_ms), 3)]} />}
      {total.waits > 0 && <Chart {...each} title="How long people were waited for" log say={(ms) => length(ms / 1000)} lines={[
        line("half within", points.map((one) => one.waited_p50_ms), 0), line("95 of 100", points.map((one) => one.waited_p95_ms), 1)]} />}
      {total.turns > 0 && <Chart {...each} title="Tokens" stacked say={many} lines={[line("read", points.map((one) => one.input_tokens), 4), line("written", points.map((one) => one.output_tokens), 0)]} />}
      {total.cost > 0 && <Chart {...each} title="Cost" stacked say={dollars} lines={[line("US dollars", points.map((one) => one.cost), 2)]} />}
      {total.sessions > 0 && <Chart {...each} title="New sessions" stacked say={many} lines={[line("sessions", points.map((one) => one.sessions), 3)]} />}
    </div>
  );
}

const ORDERS: Record<string, (one: NumbersOf) => number> = {
  calls: (one) => one.calls, failed, p95: (one) => one.p95_ms ?? 0, waits: (one) => one.waited_p95_ms ?? 0, cost: (one) => one.cost || one.input_tokens / 1e12,
};
const SHOWN = 50;

function Groups({ of: { groups, by: group } }: { of: Stats }) {
  const order = ORDERS[sort.value]!;
  const rows = groups.filter((one) => one.calls || one.waits || one.turns).toSorted((a, b) => order(b) - order(a)).slice(0, SHOWN);
  const costs = group === "agent" || group === "owner";
  if (!rows.length) return null;
  return (
    <section class="sheet wide" aria-label={`By ${group}`} tabIndex={0}>
      <div class="chart-head"><h2>By {group}</h2><span class="grow" /><Choice label="Order" value={sort.value} choices={SORTS} changed={narrow("sort")} /></div>
      <table>
        <thead><tr>
          <th scope="col">{group}</th><th scope="col" class="wide-only">over time</th><th scope="col" class="end">calls</th><th scope="col" class="end">failed</th><th scope="col">why</th>
          <th scope="col" class="end">p50</th><th scope="col" class="end">p95</th><th scope="col" class="end">p99</th><th scope="col" class="end">waited (p95)</th>
          {costs && <><th scope="col" class="end">tokens</th><th scope="col" class="end">cost</th></>}
        </tr></thead>
        <tbody>{rows.map((one) => <GroupRow key={one.name} of={one} group={group} costs={costs} />)}</tbody>
      </table>
    </section>
  );
}

function GroupRow({ of, group, costs }: { of: NumbersOf; group: Stats["by"]; costs: boolean }) {
  const wrong = failed(of);
  const own = of.name && group !== "rule" ? { [group]: of.name } : {};
  return (
    <tr>
      <th scope="row">{of.name && group === "rule" ? plain(of.name) : of.name ? <a href={changed(own)} title={`Only ${group} ${plain(of.name)}`}>{plain(of.name)}</a> : <span class="soft">{group === "agent" ? "no agent" : "none"}</span>}</th>
      <td class="wide-only"><Sparkline values={of.points} marked={of.failed} /></td>
      <td class="end"><a href={changed({ ...own, calls: 1 })}>{many(of.calls)}<span class="hidden-text"> calls</span></a></td>
      <td class={wrong ? "end bad-text" : "end soft"}>{many(wrong)} <span class="small">({share(wrong, of.calls)})</span></td>
      <td class="small">{Object.entries(of.failures).slice(0, 3).map(([code, count]) => (
        <a key={code} class="why" href={changed({ ...own, code, calls: 1 })}>{code} {many(count)}</a>))}</td>
      {[of.p50_ms, of.p95_ms, of.p99_ms, of.waited_p95_ms].map((ms, n) => <td key={n} class="end soft">{ms === null ? "" : time(ms)}</td>)}
      {costs && <><td class="end soft">{many(of.input_tokens + of.output_tokens)}</td><td class="end"><b>{dollars(of.cost)}</b></td></>}
    </tr>
  );
}

const Models = ({ of: { models } }: { of: Stats }) => models.length === 0 ? null : (
  <section class="sheet wide" aria-label="Models" tabIndex={0}>
    <h2>Models</h2>
    <table>
      <thead><tr><th scope="col">model</th><th scope="col" class="end">turns</th><th scope="col" class="end">read</th><th scope="col" class="end">written</th><th scope="col" class="end">cost</th></tr></thead>
      <tbody>{models.map((one) => (
        <tr key={one.model}><th scope="row">{one.model ? plain(one.model) : <span class="soft">without a name</span>}</th>
          {[one.turns, one.input_tokens, one.output_tokens].map((value, n) => <td key={n} class="end">{many(value)}</td>)}<td class="end">{dollars(one.cost)}</td></tr>))}</tbody>
    </table>
  </section>
);

/** The calls behind the numbers, the newest first. */
function Behind() {
  const { since, until, source, ...names } = filters.value;
  const spans: Record<string, number> = { hour: 3_600, day: 86_400, week: 604_800 };
  const from = since ?? String(Math.floor(Date.now() / 60_000) * 60 - spans[range.value]!);
  const calls = usePages<Entry>("v1/calls", { ...names, since: from, ...(until ? { until } : {}) });
  return (
    <section class="sheet" aria-label="Calls behind the numbers">
      <div class="chart-head"><h2>Calls behind the numbers</h2><span class="grow" /><a href={changed({ calls: null })}>close</a></div>
      {source && <p class="soft small">of all sources: a list of calls is not narrowed by where tools come from</p>}
      <Trouble of={calls.trouble} />
      {calls.items.map((one) => (
        <a key={one.id} class="row flat" href={to("live", one.session ?? "", one.id)}>
          <span class="grow cut"><Time at={one.accepted_at} /> <b class="mono">{plain(one.tool)}</b> <span class="small"><Said of={one.label} most={120} /></span></span>
          {one.result?.failure && <span class="soft small cut reason"><Said of={one.result.failure.message} most={160} /></span>}
          <State of={one.result?.failure?.code ?? one.status} />
        </a>
      ))}
      {!calls.busy && calls.items.length === 0 && !calls.onward && <p class="soft">No call was accepted in this time.</p>}
      {calls.onward && <button onClick={calls.more}>Show more</button>}
    </section>
  );
}
