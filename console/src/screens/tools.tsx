// The catalog: find a tool, read what is known of it, try it.

import { useSignal } from "@preact/signals";
import { lazy, Suspense } from "preact/compat";
import { useEffect, useMemo } from "preact/hooks";
import { at, follow, get, me, post } from "../api";
import { type Card, take } from "../fold";
import type { NumbersOf, Stats } from "../forms";
import { Choice, Do, Nothing, plain, Said, Search, State, Trouble, useAsked, useLooked, usePages, Value } from "../parts/basics";
import { CallCard } from "../parts/call";
import { Sparkline } from "../parts/chart";
import { Rows } from "../parts/rows";
import { Use } from "../parts/use";
import { Versions } from "../parts/versions";
import { go, narrow, narrowed, route, stay, to } from "../router";
import type { Finding, ToolLine, ToolsPage, ToolWhole } from "../types";

const SchemaForm = lazy(() => import("../parts/form").then((made) => ({ default: made.SchemaForm })));
const FILTERS = ["namespace", "source", "effect", "health"] as const;
const LOOK_MS = 15_000;

export function Tools() {
  const asked = narrowed("q", ...FILTERS);
  const tools = usePages<ToolLine, ToolsPage>("v1/tools", asked);
  const chosen = route.value.parts[1];
  const { facets, total } = tools.first ?? {};
  const one = (name: (typeof FILTERS)[number]) => {
    const there = { ...(asked[name] ? { [asked[name]]: 0 } : {}), ...facets?.[name] };
    return (
      <Choice
        key={name}
        label={name}
        value={asked[name] ?? ""}
        changed={narrow(name)}
        choices={[
          ["", `any ${name}`],
          ...Object.entries(there).map(([kind, count]) => [kind, `${plain(kind)} (${count.toLocaleString()})`] as const),
        ]}
      />
    );
  };
  const use = useUse();
  const unwell = useUnwell(asked, tools.first, tools.again);
  return (
    <>
      <div class="head">
        <h1>Tools</h1>
        <span class="soft">{total?.toLocaleString() ?? ""}</span>
        <span class="grow" />
        <div class="filters">
          <Search label="Search tools" first value={asked.q} changed={narrow("q")} />
          {FILTERS.map(one)}
        </div>
      </div>
      <Trouble of={tools.trouble} />
      {!!unwell?.length && (
        <ul class="unwell" aria-label="Sources that are not well">
          {unwell.map((source) => (
            <li key={source.name}>
              <State of={source.health} /> <b>{plain(source.name)}</b>{" "}
              <span class="soft">
                <Said of={source.reason} most={400} />
              </span>
            </li>
          ))}
        </ul>
      )}
      <Findings />
      <div class={`split ${chosen ? "chosen" : ""}`}>
        {tools.items.length === 0 && !tools.busy && !tools.trouble ? (
          <Nothing>
            {Object.keys(asked).length ? (
              "No tool fits. Take a filter away, or search for other words."
            ) : (
              <>
                There are no tools yet. <a href={to("sources")}>Sources</a> bring them.
              </>
            )}
          </Nothing>
        ) : (
          <Rows
            count={tools.items.length}
            height={54}
            label="Tools"
            more={tools.more}
            chosen={tools.items.findIndex((tool) => tool.id === chosen)}
            choose={(n) => go(stay("tools", tools.items[n]!.id))}
            row={(n) => <ToolRow tool={tools.items[n]!} use={use.get(tools.items[n]!.id)} chosen={tools.items[n]!.id === chosen} />}
          />
        )}
        <div class="detail">{chosen && <Whole key={chosen} id={chosen} />}</div>
      </div>
    </>
  );
}

/** Whoever looks after the server is told what in its files and settings does nothing. */
function Findings() {
  const admin = me.value?.admin ?? false;
  const found = useAsked(async (abort) => (admin ? (await get<{ items: Finding[] }>("v1/findings", {}, abort)).items : []), [admin]);
  const told = found.value?.filter((one) => one.severity !== "info") ?? [];
  if (told.length === 0) return null;
  return (
    <details class="findings">
      <summary>
        {told.length.toLocaleString()} here {told.length === 1 ? "does" : "do"} nothing, or not what one would think
      </summary>
      <ul class="unwell" aria-label="Findings">
        {told.map((one, n) => (
          <li key={n}>
            {one.file && (
              <code>
                {plain(one.file)}
                {one.line ? `:${one.line}` : ""}
              </code>
            )}{" "}
            <Said of={one.message} most={400} /> {one.nearest && <span class="soft">did you mean {plain(one.nearest)}?</span>}{" "}
            <span class="soft">{one.code}</span>
          </li>
        ))}
      </ul>
    </details>
  );
}

/** Looks from time to time whether sources and tools are as well as they were; if not, the list is asked for anew. */
function useUnwell(asked: Record<string, string>, first: ToolsPage | undefined, again: () => void): ToolsPage["unwell"] {
  const told = JSON.stringify([first?.facets?.health, first?.unwell]);
  useEffect(() => {
    const look = async () => {
      if (document.hidden || !first) return;
      const now = await get<ToolsPage>("v1/tools", { ...asked, limit: 1 }).catch(() => first);
      if (JSON.stringify([now.facets?.health, now.unwell]) !== told) again();
    };
    const timer = setInterval(() => void look(), LOOK_MS);
    return () => clearInterval(timer);
  }, [told, JSON.stringify(asked)]);
  return first?.unwell;
}

/** How much the tools were used that were used most in the last day. */
function useUse(): Map<string, NumbersOf> {
  const stats = useLooked(() => get<Stats>("v1/stats", { range: "day", by: "tool" }), LOOK_MS);
  return useMemo(() => new Map(stats.value?.groups.map((one) => [one.name, one])), [stats.value]);
}

const ToolRow = ({ tool, use, chosen }: { tool: ToolLine; use: NumbersOf | undefined; chosen: boolean }) => (
  <a class="row middle" tabIndex={-1} href={stay("tools", tool.id)} aria-current={chosen ? "true" : undefined}>
    <span class="grow">
      <span class="cut line">
        <b>{tool.name}</b> <span class="soft small">{tool.namespace}</span>
      </span>
      <span class="cut line soft small">
        <Said of={tool.description} most={200} />
      </span>
    </span>
    {use && use.calls > 0 && (
      <span class="use small soft wide-only" title="calls and failures of the last day">
        <Sparkline values={use.points} marked={use.failed} />
        <span class="end">{use.calls.toLocaleString()}</span>
        <span class="hidden-text"> calls in the last day</span>
      </span>
    )}
    {tool.health !== "ok" && (
      <span title={plain(tool.reason ?? "")}>
        <State of={tool.health} />
      </span>
    )}
    <span class="effect">
      <span class="tag">{tool.effect}</span>
    </span>
  </a>
);

function Whole({ id }: { id: string }) {
  const run = useRun(id);
  const tool = useAsked((abort) => get<ToolWhole>(at("tools", id), {}, abort), [id, run.over]);
  if (!tool.value) return <Trouble of={tool.trouble} />;
  return (
    <>
      <a class="back" href={stay("tools")}>
        ‹ all tools
      </a>
      <About tool={tool.value} />
      <section class="sheet" aria-label="Try it">
        <h2>Try it</h2>
        <Suspense fallback={<p class="soft">…</p>}>
          <SchemaForm
            schema={tool.value.input_schema ?? {}}
            value={run.args.value}
            changed={(said) => (run.args.value = said)}
            label="Arguments"
          />
        </Suspense>
        <div class="actions">
          <Do class="main" disabled={run.args.value === undefined} work={() => run.start()}>
            Run
          </Do>
          <label class="small soft beside">
            in session <input value={run.session.value} onInput={(event) => (run.session.value = event.currentTarget.value)} />
          </label>
        </div>
        {run.card && (
          <div class="below">
            <CallCard card={run.card} cards={run.cards} again={run.follow} />
          </div>
        )}
      </section>
      <Use tool={id} over={run.over} />
      <Versions tool={id} over={tool.value.fingerprint} />
      <Knowledge
        of={tool.value.knowledge ?? {}}
        run={(args) => {
          run.args.value = args;
          return run.start();
        }}
      />
      <section class="sheet">
        <details>
          <summary>Schemas and limits</summary>
          <h3>takes</h3>
          <Value of={tool.value.input_schema} label="Input schema" />
          {tool.value.output_schema && (
            <>
              <h3>gives</h3>
              <Value of={tool.value.output_schema} label="Output schema" />
            </>
          )}
          {tool.value.limits && (
            <>
              <h3>limits</h3>
              <Value of={tool.value.limits} label="Limits" />
            </>
          )}
        </details>
      </section>
    </>
  );
}

/** A call that is tried, in a session of one's own. */
function useRun(tool: string) {
  const args = useSignal<unknown>({});
  const session = useSignal(`console-${me.value?.name ?? "me"}`.replace(/[^A-Za-z0-9._:-]/g, "-").slice(0, 200));
  const cards = useSignal(new Map<string, Card>());
  const call = useSignal("");
  const over = useSignal(0);
  const stop = useSignal<() => void>(() => {});
  useEffect(() => () => stop.value(), []);

  const heard = (where: string, id: string) => {
    stop.value();
    cards.value = new Map();
    call.value = id;
    stop.value = follow(`${at("sessions", where, "events")}?call=${encodeURIComponent(id)}`, (event) => {
      const fresh = new Map(cards.value);
      if (take(fresh, event)) cards.value = fresh;
      if (event.kind !== "done" || event.call !== id) return;
      stop.value();
      over.value++;
    });
  };
  const start = async () => {
    await post("v1/sessions", { id: session.value });
    const made = await post<{ id: string }>(at("sessions", session.value, "calls"), { tool, args: args.value ?? {}, wait: false });
    heard(session.value, made.id);
  };
  return { args, session, start, follow: heard, card: cards.value.get(call.value), cards: cards.value, over: over.value };
}

function About({ tool }: { tool: ToolWhole }) {
  const marks = Object.entries(tool.annotations ?? {}).filter(([name, on]) => on && name !== "read_only" && name !== "idempotent");
  return (
    <section class="sheet" aria-label={tool.id}>
      <div class="head">
        <h2 class="mono title">{tool.id}</h2>
        <span class="grow" />
        <span class="tag">{tool.effect}</span>
        {marks.map(([name]) => (
          <span class="tag" key={name}>
            {name.replaceAll("_", " ")}
          </span>
        ))}
        {tool.health !== "ok" && <State of={tool.health} />}
      </div>
      {tool.reason && (
        <p class="small soft">
          <Said of={tool.reason} />
        </p>
      )}
      {tool.title && (
        <p>
          <b>
            <Said of={tool.title} />
          </b>
        </p>
      )}
      <p class="words">
        <Said of={tool.description} most={20_000} />
      </p>
      <p class="small soft">
        from {plain(tool.source ?? "")}
        {tool.trusted === false && ", not trusted"}
        {!!tool.capabilities?.length && ` · needs ${tool.capabilities.join(", ")}`}
        {!!tool.tags?.length && ` · ${tool.tags.join(", ")}`}
      </p>
      {!!tool.changed?.length && <p class="trouble small">It has changed since it was accepted: {tool.changed.join(", ")}</p>}
      {tool.warnings?.map((one) => (
        <p class="trouble small" key={one}>
          <Said of={one} />
        </p>
      ))}
    </section>
  );
}

function Knowledge({ of, run }: { of: NonNullable<ToolWhole["knowledge"]>; run: (args: unknown) => Promise<void> }) {
  if (!of.help && !of.anti_patterns?.length && !of.examples?.length) return null;
  return (
    <section class="sheet" aria-label="What is known">
      <h2>What is known</h2>
      {of.help && (
        <p class="words">
          <Said of={of.help} most={20_000} />
        </p>
      )}
      {!!of.anti_patterns?.length && (
        <>
          <h3>Usual mistakes</h3>
          <ul>
            {of.anti_patterns.map((one, n) => (
              <li key={n}>
                <code>{plain(one.match)}</code>: <Said of={one.hint} />
              </li>
            ))}
          </ul>
        </>
      )}
      {!!of.examples?.length && (
        <>
          <h3>Examples</h3>
          {of.examples.map((one, n) => (
            <div key={n} class="below">
              {one.title && (
                <p class="small">
                  <Said of={one.title} />
                </p>
              )}
              <Value of={one.arguments} label={`Example ${n + 1}`} />
              <div class="actions">
                <Do work={() => run(one.arguments)}>Run this</Do>
              </div>
            </div>
          ))}
        </>
      )}
    </section>
  );
}
