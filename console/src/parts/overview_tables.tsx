// The tables of the overview: what is told apart, by name, and the calls behind the numbers.

import { useEffect, useRef } from "preact/hooks";
import type { NumbersOf, Stats } from "../forms";
import { behind, callsOf, changed, filters, SORTS, sort } from "../overview";
import { narrow, to } from "../router";
import type { Entry, Page } from "../types";
import { Choice, plain, Said, State, Time, Trouble, usePages } from "./basics";
import { Sparkline } from "./chart";
import { dollars, failed, many, share, time } from "./numbers";

const ORDERS: Record<string, (one: NumbersOf) => number> = {
  calls: (one) => one.calls,
  failed,
  p95: (one) => one.p95_ms ?? 0,
  waits: (one) => one.waited_p95_ms ?? 0,
  cost: (one) => one.cost || one.input_tokens / 1e12,
};
const SHOWN = 50;

export function Groups({ of: { groups, by: group } }: { of: Stats }) {
  const order = ORDERS[sort.value]!;
  const rows = groups
    .filter((one) => one.calls || one.waits || one.turns)
    .toSorted((a, b) => order(b) - order(a))
    .slice(0, SHOWN);
  const costs = group === "agent" || group === "owner";
  if (!rows.length) return null;
  return (
    <section class="sheet wide" aria-label={`By ${group}`} tabIndex={0}>
      <div class="chart-head">
        <h2>By {group}</h2>
        <span class="grow" />
        <Choice label="Order" value={sort.value} choices={SORTS} changed={narrow("sort")} />
      </div>
      <table>
        <thead>
          <tr>
            <th scope="col">{group}</th>
            <th scope="col" class="wide-only">
              over time
            </th>
            {costs && (
              <>
                <th scope="col" class="end">
                  cost
                </th>
                <th scope="col" class="end">
                  tokens
                </th>
              </>
            )}
            <th scope="col" class="end">
              calls
            </th>
            <th scope="col" class="end">
              failed
            </th>
            <th scope="col">why</th>
            <th scope="col" class="end">
              p50
            </th>
            <th scope="col" class="end">
              p95
            </th>
            <th scope="col" class="end">
              p99
            </th>
            <th scope="col" class="end">
              waited (p95)
            </th>
          </tr>
        </thead>
        <tbody>
          {rows.map((one) => (
            <GroupRow key={one.name} of={one} group={group} costs={costs} />
          ))}
        </tbody>
      </table>
    </section>
  );
}

function GroupRow({ of, group, costs }: { of: NumbersOf; group: Stats["by"]; costs: boolean }) {
  const wrong = failed(of);
  const own: Record<string, string | number | null> = callsOf(group, of.name);
  return (
    <tr>
      <th scope="row">
        {group === "rule" ? (
          plain(of.name)
        ) : of.name ? (
          <a href={changed({ [group]: of.name })} title={`Only ${group} ${plain(of.name)}`}>
            {plain(of.name)}
          </a>
        ) : (
          <a class="soft" href={changed({ [group]: "" })}>
            {`no ${group}`}
          </a>
        )}
      </th>
      <td class="wide-only">
        <Sparkline values={of.points} marked={of.failed} />
      </td>
      {costs && (
        <>
          <td class="end">
            <b>{dollars(of.cost)}</b>
          </td>
          <td class="end soft">{many(of.input_tokens + of.output_tokens)}</td>
        </>
      )}
      <td class="end">
        <a href={changed(own)}>
          {many(of.calls)}
          <span class="hidden-text"> calls</span>
        </a>
      </td>
      <td class={wrong ? "end bad-text" : "end soft"}>
        {wrong ? (
          <a class="bad-text" aria-label={`${many(wrong)} failed`} href={changed({ ...own, calls: "failed" })}>
            {many(wrong)}
          </a>
        ) : (
          "0"
        )}{" "}
        <span class="small share">({share(wrong, of.calls)})</span>
      </td>
      <td class="small">
        {Object.entries(of.failures)
          .slice(0, 3)
          .map(([code, count]) => (
            <a key={code} class="why-code" href={changed({ ...own, code, calls: 1 })}>
              {code} {many(count)}
            </a>
          ))}
      </td>
      {[of.p50_ms, of.p95_ms, of.p99_ms, of.waited_p95_ms].map((ms, n) => (
        <td key={n} class="end soft">
          {ms === null ? "" : time(ms)}
        </td>
      ))}
    </tr>
  );
}

export const Models = ({ of: { models } }: { of: Stats }) =>
  models.length === 0 ? null : (
    <section class="sheet wide" aria-label="Models" tabIndex={0}>
      <h2>Models</h2>
      <table>
        <thead>
          <tr>
            <th scope="col">model</th>
            <th scope="col" class="end">
              turns
            </th>
            <th scope="col" class="end">
              read
            </th>
            <th scope="col" class="end">
              written
            </th>
            <th scope="col" class="end">
              cost
            </th>
          </tr>
        </thead>
        <tbody>
          {models.map((one) => (
            <tr key={one.model}>
              <th scope="row">{one.model ? plain(one.model) : <span class="soft">without a name</span>}</th>
              {[one.turns, one.input_tokens, one.output_tokens].map((value, n) => (
                <td key={n} class="end">
                  {many(value)}
                </td>
              ))}
              <td class="end">{dollars(one.cost)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );

const WHICH: Record<string, { title: string; query: Record<string, unknown>; number?: (of: Stats) => number }> = {
  all: { title: "Calls behind the numbers", query: {}, number: (of) => of.total.calls },
  failed: { title: "Calls that failed", query: { ok: "false" }, number: (of) => failed(of.total) },
  waited: { title: "Calls that waited for somebody", query: { waited: "true" } },
  rule: { title: "Calls that a rule decided", query: {} },
};

/** The calls behind the numbers, those that ended last first. */
export function Behind({ of }: { of: Stats }) {
  const { kind, name } = behind.value!;
  const { title, query, number } = WHICH[kind]!;
  const { since, until, ...names } = filters.value;
  // Numbers grow while the list is read, which is that of the moment when it was opened.
  const then = useRef({ since: of.since, number: number?.(of) }).current;
  const asked = {
    ...query,
    ...names,
    ...(name ? { rule: name } : {}),
    over: "ended",
    since: since ?? then.since,
    ...(until ? { until } : {}),
  };
  const calls = usePages<Entry, Page<Entry> & { hint?: string }>("v1/calls", asked);
  const box = useRef<HTMLElement>(null);
  const there = calls.first !== undefined;
  useEffect(() => box.current!.focus({ preventScroll: true }), []);
  useEffect(() => box.current!.scrollIntoView({ block: "start" }), [there]);
  const gone = then.number !== undefined && !calls.busy && !calls.onward ? then.number - calls.items.length : 0;
  return (
    <section class="sheet behind-numbers" aria-label="Calls behind the numbers" tabIndex={-1} ref={box}>
      <div class="chart-head">
        <h2>
          {title}
          {name && ` (${plain(name)})`}
        </h2>
        <span class="grow" />
        <a href={changed({ calls: null })}>close</a>
      </div>
      <Trouble of={calls.trouble} />
      {calls.items.map((one) => (
        <a key={one.id} class="row flat" href={to("live", one.session ?? "", one.id)}>
          <span class="grow cut">
            <Time at={one.accepted_at} /> <b class="mono">{plain(one.tool)}</b>{" "}
            <span class="small">
              <Said of={one.label} most={120} />
            </span>
          </span>
          {one.result?.failure && (
            <span class="soft small cut reason">
              <Said of={one.result.failure.message} most={160} />
            </span>
          )}
          <State of={one.result?.failure?.code ?? one.status} />
        </a>
      ))}
      {!calls.busy && calls.items.length === 0 && !calls.onward && (
        <p class="soft">{calls.first?.hint ? `${plain(calls.first.hint)}.` : "No such call ended in this time."}</p>
      )}
      {gone > 0 && !calls.trouble && <p class="soft small">The log of {gone.toLocaleString()} more is no longer kept.</p>}
      {calls.onward && <button onClick={calls.more}>Show more</button>}
    </section>
  );
}
