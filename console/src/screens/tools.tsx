// The catalog: find a tool, read what is known of it, try it.

import { useSignal } from "@preact/signals";
import { lazy, Suspense } from "preact/compat";
import { useEffect } from "preact/hooks";
import { at, follow, get, me, post } from "../api";
import { take, type Card } from "../fold";
import { length, Nothing, State, Trouble, useAsked, useLater, Value } from "../parts/basics";
import { CallCard } from "../parts/call";
import { Rows } from "../parts/rows";
import { go, route, to } from "../router";
import type { Example, Page, ToolLine, ToolWhole } from "../types";

const SchemaForm = lazy(() => import("../parts/form").then((made) => ({ default: made.SchemaForm })));
const EFFECTS = ["read", "idempotent", "once"];

export function Tools() {
  const search = useSignal("");
  const effect = useSignal("");
  const namespace = useSignal("");
  const items = useSignal<ToolLine[]>([]);
  const next = useSignal<string | undefined>(undefined);
  const total = useSignal<number | undefined>(undefined);
  const trouble = useSignal<unknown>(undefined);
  const later = useLater();
  const busy = useSignal(false);
  const chosen = route.value.parts[1];

  const load = async (after?: string) => {
    if (busy.value && after) return;
    busy.value = true;
    try {
      const page = await get<Page<ToolLine>>("v1/tools", { q: search.value, effect: effect.value, namespace: namespace.value, after, limit: 200 });
      items.value = after ? [...items.value, ...page.items] : page.items;
      next.value = page.next;
      total.value = page.total ?? total.value;
      trouble.value = undefined;
    } catch (error) {
      trouble.value = error;
    } finally {
      busy.value = false;
    }
  };
  useEffect(() => void load(), [effect.value, namespace.value]);
  const index = items.value.findIndex((tool) => tool.id === chosen);
  const spaces = [...new Set(items.value.map((tool) => tool.namespace))].sort();
  return (
    <>
      <div class="head">
        <h1>Tools</h1>
        <span class="soft">{total.value === undefined ? "" : total.value.toLocaleString()}</span>
        <span class="grow" />
        <div class="filters">
          <input type="search" aria-label="Search tools" placeholder="Search (press /)" value={search.value} data-search
            onInput={(event) => { search.value = event.currentTarget.value; later(load); }} />
          <select aria-label="Namespace" value={namespace.value} onChange={(event) => (namespace.value = event.currentTarget.value)}>
            <option value="">every namespace</option>
            {[...new Set([...spaces, namespace.value])].filter(Boolean).map((one) => <option key={one}>{one}</option>)}
          </select>
          <select aria-label="Effect" value={effect.value} onChange={(event) => (effect.value = event.currentTarget.value)}>
            <option value="">every effect</option>
            {EFFECTS.map((one) => <option key={one}>{one}</option>)}
          </select>
        </div>
      </div>
      <Trouble of={trouble.value} />
      <div class={`split ${chosen ? "chosen" : ""}`}>
        {items.value.length === 0 && !busy.value ? <Nothing>No tool fits.</Nothing> : (
          <Rows count={items.value.length} height={54} label="Tools" more={() => next.value && void load(next.value)}
            chosen={index} choose={(n) => go(to("tools", items.value[n]!.id))}
            row={(n) => { const tool = items.value[n]!; return (
              <a class="row" href={to("tools", tool.id)} aria-selected={tool.id === chosen}>
                <span class="grow">
                  <span class="cut" style={{ display: "block" }}><b>{tool.name}</b> <span class="soft small">{tool.namespace}</span></span>
                  <span class="cut soft small" style={{ display: "block" }} dir="auto">{tool.description}</span>
                </span>
                {tool.health && tool.health !== "healthy" && <State of={tool.health} />}
                <span class="tag">{tool.effect}</span>
              </a>
            ); }} />
        )}
        <div>{chosen ? <Whole key={chosen} id={chosen} /> : <Nothing>Choose a tool to see what it takes, and to try it.</Nothing>}</div>
      </div>
    </>
  );
}

function Whole({ id }: { id: string }) {
  const tool = useAsked((abort) => get<ToolWhole>(at("tools", id), {}, abort), [id]);
  const stats = useAsked((abort) => get<Record<string, any>>(at("tools", id, "stats"), {}, abort), [id]);
  const args = useSignal<unknown>({});
  const session = useSignal(`console-${me.value?.name ?? "me"}`.replace(/[^A-Za-z0-9._:-]/g, "-").slice(0, 200));
  const cards = useSignal(new Map<string, Card>());
  const running = useSignal<string | undefined>(undefined);
  const trouble = useSignal<unknown>(undefined);
  const stop = useSignal<() => void>(() => {});
  useEffect(() => () => stop.value(), []);

  const run = async () => {
    trouble.value = undefined;
    stop.value();
    try {
      await post("v1/sessions", { id: session.value, namespaces: [tool.value!.namespace] });
      const call = await post<{ id: string }>(at("sessions", session.value, "calls"), { tool: id, args: args.value ?? {}, wait: false });
      cards.value = new Map();
      running.value = call.id;
      stop.value = follow(`${at("sessions", session.value, "events")}?call=${encodeURIComponent(call.id)}`, (event) => {
        const fresh = new Map(cards.value);
        if (take(fresh, event)) cards.value = fresh;
        if (event.kind === "done" && event.call === call.id) stop.value();
      });
    } catch (error) {
      trouble.value = error;
    }
  };
  if (tool.trouble) return <Trouble of={tool.trouble} />;
  if (!tool.value) return null;
  const known = tool.value.knowledge;
  const knowledge = known && [known.quirks, known.anti_patterns, known.examples].some((part) => part?.length) ? known : undefined;
  const card = running.value ? cards.value.get(running.value) : undefined;
  return (
    <>
      <section class="sheet" aria-label={tool.value.id}>
        <div class="head">
          <h1 class="mono">{tool.value.id}</h1><span class="grow" />
          <span class="tag">{tool.value.effect}</span>
          {Object.entries(tool.value.annotations ?? {}).filter(([, on]) => on).map(([name]) => <span class="tag" key={name}>{name.replace("_", " ")}</span>)}
        </div>
        <p dir="auto" style={{ whiteSpace: "pre-wrap", marginTop: "8px" }}>{tool.value.description}</p>
        {(tool.value.capabilities?.length ?? 0) > 0 && <p class="small soft">needs {tool.value.capabilities!.join(", ")}</p>}
        {stats.value && <Numbers of={stats.value} />}
      </section>
      <section class="sheet" aria-label="Try it">
        <h2>Try it</h2>
        <Suspense fallback={<p class="soft">…</p>}>
          <SchemaForm schema={tool.value.input_schema} value={args.value} changed={(said) => (args.value = said)} label="Arguments" />
        </Suspense>
        <div class="actions" style={{ marginTop: "10px" }}>
          <button class="main" onClick={run}>Run</button>
          <label class="small soft" for="in-session">in session</label>
          <input id="in-session" style={{ width: "220px" }} value={session.value} onInput={(event) => (session.value = event.currentTarget.value)} />
        </div>
        <Trouble of={trouble.value} />
        {card && <div style={{ marginTop: "12px" }}><CallCard card={card} cards={cards.value} /></div>}
      </section>
      {knowledge && (
        <section class="sheet" aria-label="What is known">
          {list("Quirks", knowledge.quirks)}
          {(knowledge.anti_patterns?.length ?? 0) > 0 && <><h3>What not to do</h3><ul>{knowledge.anti_patterns!.map((one, n) => (
            <li key={n} dir="auto">{Object.values(one).filter((part) => typeof part === "string").join(" — ")}</li>))}</ul></>}
          {(knowledge.examples?.length ?? 0) > 0 && <><h3>Examples</h3>{knowledge.examples!.map((one: Example, n) => (
            <div key={n} style={{ marginBottom: "8px" }}>
              <p dir="auto" class="small">{one.description}</p>
              <Value of={one.args} label="Example" />
              <button onClick={() => (args.value = one.args)}>Take these arguments</button>
            </div>))}</>}
        </section>
      )}
      <section class="sheet"><details><summary>Schemas</summary>
        <h3>takes</h3><Value of={tool.value.input_schema} label="Input schema" />
        {tool.value.output_schema && <><h3>gives</h3><Value of={tool.value.output_schema} label="Output schema" /></>}
      </details></section>
    </>
  );
}

const list = (title: string, lines?: unknown[]) =>
  lines?.length ? <><h3>{title}</h3><ul>{lines.map((line, n) => <li key={n} dir="auto">{typeof line === "string" ? line : JSON.stringify(line)}</li>)}</ul></> : null;

function Numbers({ of }: { of: Record<string, any> }) {
  return (
    <div class="columns" style={{ marginTop: "8px" }}>
      <div class="figure"><b>{(of.calls ?? 0).toLocaleString()}</b><span class="soft small">calls</span></div>
      <div class="figure"><b>{sum(of.failures).toLocaleString()}</b><span class="soft small">failed</span></div>
      {of.p50_s !== undefined && <div class="figure"><b>{length(of.p50_s)}</b><span class="soft small">median</span></div>}
      {of.p95_s !== undefined && <div class="figure"><b>{length(of.p95_s)}</b><span class="soft small">p95</span></div>}
    </div>
  );
}

const sum = (counts: unknown): number =>
  typeof counts === "number" ? counts : Object.values((counts ?? {}) as Record<string, number>).reduce((a, b) => a + b, 0);
