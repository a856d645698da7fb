// A session as a waterfall: runs, turns, requests to models and calls on one time axis.

import { useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { type Axis, axisOf, placeOf } from "../axis";
import { lasted, type Phase, rowsOf, type Span, type Spans, stateAt, titled } from "../spans";
import { length, plain, State, tone } from "./basics";
import { SmallMap } from "./waterfall_map";
import { useZoom, type Zoom } from "./zoom";

const HEIGHT = 26;
const SPARE = 6;

interface Given {
  spans: Spans;
  /** Changes with each event that a waterfall shows. */
  changes: number;
  upto: number;
  /** Whether the slider stands in the past. */
  past: boolean;
  chosen: Span | undefined;
  choose: (span: Span) => void;
}

export function Waterfall({ spans, changes, upto, past, chosen, choose }: Given) {
  const closed = useSignal<ReadonlySet<string>>(new Set());
  const zoom = useZoom();
  const box = useRef<HTMLDivElement>(null);
  const top = useSignal(0);
  const room = useSignal(400);
  const until = past ? (spans.times[upto - 1] ?? spans.time) : spans.time;
  const rows = useMemo(() => rowsOf(spans.roots, closed.value, upto), [spans, changes, closed.value, upto]);
  // The axis stays as it is while somebody moves through time: what has not happened yet leaves its place empty.
  const axis = useMemo(() => axisOf(spans.roots, spans.time), [spans, changes]);
  const at = useMemo(() => (chosen ? rows.indexOf(chosen) : -1), [rows, chosen]);

  useEffect(() => {
    const watch = new ResizeObserver(() => (room.value = box.current?.clientHeight ?? 400));
    watch.observe(box.current!);
    return () => watch.disconnect();
  }, []);
  useEffect(() => bring(box.current, at), [at]);
  useEffect(() => {
    // Who moves through time sees what began last.
    if (past)
      bring(
        box.current,
        rows.reduce((best, span, n) => (span.seq >= (rows[best]?.seq ?? 0) ? n : best), -1),
      );
  }, [upto, past]);
  useWheel(box, zoom);

  const fold = (span: Span, shut: boolean) => {
    const next = new Set(closed.value);
    if (shut) next.add(span.id);
    else next.delete(span.id);
    closed.value = next;
  };
  const pressed = (event: KeyboardEvent) => {
    const span = rows[at];
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -rows.length, End: rows.length }[event.key];
    if (step !== undefined && rows.length) choose(rows[Math.max(0, Math.min(rows.length - 1, at + step))]!);
    else if (event.key === "ArrowRight" && event.shiftKey) zoom.pan(0.2);
    else if (event.key === "ArrowLeft" && event.shiftKey) zoom.pan(-0.2);
    else if (event.key === "ArrowRight" && span)
      closed.value.has(span.id) ? fold(span, false) : rows[at + 1]?.parent === span && choose(rows[at + 1]!);
    else if (event.key === "ArrowLeft" && span)
      span.children.length && !closed.value.has(span.id) ? fold(span, true) : span.parent && choose(span.parent);
    else if (event.key === "+" || event.key === "=") zoom.by(0.6, middle(axis, zoom, span, until));
    else if (event.key === "-") zoom.by(1 / 0.6, middle(axis, zoom, span, until));
    else if (event.key === "0") zoom.reset();
    else if (event.key === "z" && span) fit(axis, zoom, span, until);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const first = Math.max(0, Math.floor(top.value / HEIGHT) - SPARE);
  const last = Math.min(rows.length, Math.ceil((top.value + room.value) / HEIGHT) + SPARE);
  return (
    <section class="waterfall" aria-label="Waterfall">
      <div class="fall-head">
        <span class="fall-name small soft">
          {spans.count.toLocaleString()} spans{spans.first > 0 && ` since event ${spans.first.toLocaleString()}`}
        </span>
        <SmallMap axis={axis} rows={rows} zoom={zoom} until={until} past={past} />
        <span class="fall-numbers small soft wide-only">
          <span>took</span>
          <span>tokens</span>
          <span>cost</span>
        </span>
      </div>
      <div
        class="fall-rows"
        ref={box}
        role="tree"
        aria-label="Spans"
        tabIndex={0}
        aria-activedescendant={at >= first && at < last ? `span-${at}` : undefined}
        onKeyDown={pressed}
        onScroll={(event) => (top.value = event.currentTarget.scrollTop)}
        onDblClick={() => chosen && fit(axis, zoom, chosen, until)}
      >
        <div role="none" style={{ height: `${rows.length * HEIGHT}px`, position: "relative" }}>
          <div role="none" style={{ position: "absolute", insetInline: 0, top: `${first * HEIGHT}px` }}>
            {rows.slice(first, last).map((span, n) => (
              // By its place on the screen: who moves fast has the same rows filled anew, and none made.
              <Row
                key={n}
                n={first + n}
                span={span}
                axis={axis}
                zoom={zoom}
                until={until}
                past={past}
                chosen={span === chosen}
                open={span.children.length ? !closed.value.has(span.id) : undefined}
                choose={choose}
                fold={fold}
              />
            ))}
          </div>
        </div>
      </div>
      <p class="fall-keys small soft keys">
        <span>
          <kbd>↑</kbd> <kbd>↓</kbd> choose
        </span>
        <span>
          <kbd>←</kbd> <kbd>→</kbd> fold
        </span>
        <span>
          <kbd>+</kbd> <kbd>-</kbd> <kbd>0</kbd> zoom
        </span>
        <span>
          <kbd>z</kbd> zoom to the chosen
        </span>
        <span class="fall-legend">
          <i class="fall-bar model" /> model
          <i class="fall-bar call" /> call
          <i class="fall-bar waiting" /> waits
        </span>
      </p>
    </section>
  );
}

/** Scrolls no more than it takes to see a row. */
function bring(box: HTMLDivElement | null, row: number): void {
  if (!box || row < 0) return;
  const from = row * HEIGHT;
  if (from < box.scrollTop) box.scrollTop = from;
  else if (from + HEIGHT > box.scrollTop + box.clientHeight) box.scrollTop = from + HEIGHT - box.clientHeight;
}

/** Where the chosen span stands in the window: what is zoomed into stays in sight. */
function middle(axis: Axis, zoom: Zoom, span: Span | undefined, until: number): number {
  if (!span) return 0.5;
  const place = (placeOf(axis, span.from) + placeOf(axis, span.to ?? until)) / 2 / axis.length;
  return Math.min(1, Math.max(0, (place - zoom.from) / zoom.width));
}

function fit(axis: Axis, zoom: Zoom, span: Span, until: number): void {
  const [from, to] = [placeOf(axis, span.from) / axis.length, placeOf(axis, span.to ?? until) / axis.length];
  const margin = (to - from) * 0.05 + 1e-6;
  zoom.set(from - margin, to + margin);
}

/** The wheel zooms with Ctrl, and moves sideways with Shift. */
function useWheel(box: { current: HTMLDivElement | null }, zoom: Zoom): void {
  const now = useRef(zoom);
  now.current = zoom;
  useEffect(() => {
    const turned = (event: WheelEvent) => {
      const track = (event.target as HTMLElement).closest?.(".fall-track")?.getBoundingClientRect();
      const sideways = event.shiftKey ? event.deltaY : Math.abs(event.deltaX) > Math.abs(event.deltaY) ? event.deltaX : 0;
      if (event.ctrlKey) now.current.by(event.deltaY > 0 ? 1.25 : 0.8, track ? (event.clientX - track.left) / track.width : 0.5);
      else if (sideways && now.current.zoomed) now.current.pan(sideways / 600);
      else return;
      event.preventDefault();
    };
    const element = box.current!;
    element.addEventListener("wheel", turned, { passive: false });
    return () => element.removeEventListener("wheel", turned);
  }, []);
}

interface RowGiven {
  n: number;
  span: Span;
  axis: Axis;
  zoom: Zoom;
  until: number;
  past: boolean;
  chosen: boolean;
  open: boolean | undefined;
  choose: (span: Span) => void;
  fold: (span: Span, shut: boolean) => void;
}

const SHOWN = ["failed", "timed_out", "cancelled", "unknown", "waiting", "running", "queued", "stopped"];

function Row({ n, span, axis, zoom, until, past, chosen, open, choose, fold }: RowGiven) {
  const state = stateAt(span, until);
  const took = Math.min(span.to ?? until, until) - span.from;
  const waited = lasted(span, "waiting", until);
  const over = span.to !== undefined && span.to <= until;
  const tokens = over && span.usage ? span.usage.input + span.usage.output : undefined;
  return (
    <div
      id={`span-${n}`}
      role="treeitem"
      class="fall-row"
      aria-level={span.depth + 1}
      aria-selected={chosen}
      aria-expanded={open}
      onClick={() => choose(span)}
    >
      <span class="fall-name" style={{ paddingLeft: `${Math.min(span.depth, 12) * 14 + 4}px` }}>
        <span
          class="fall-turn"
          aria-hidden="true"
          onClick={(event) => {
            if (open !== undefined) {
              event.stopPropagation();
              fold(span, open);
            }
          }}
        >
          {open === undefined ? "" : open ? "▾" : "▸"}
        </span>
        <i class={`fall-dot ${span.kind} ${state ? tone(state) : ""}`} aria-hidden="true" />
        <span class="cut">
          <bdi>{plain(span.kind === "model" ? span.label : titled(span))}</bdi>
        </span>
        {state && SHOWN.includes(state) && <State of={state} />}
      </span>
      <span class="fall-track">
        <Bars span={span} axis={axis} zoom={zoom} until={until} state={state} />
        {past && <b class="fall-now" style={{ left: `${zoom.percent(placeOf(axis, until) / axis.length)}%` }} />}
      </span>
      <span class="fall-numbers small wide-only">
        <span title={waited ? `of which it waited ${length(waited)}` : undefined}>{length(took)}</span>
        <span>{tokens === undefined ? "" : short(tokens)}</span>
        <span>{over && span.usage?.cost !== undefined ? money(span.usage.cost) : ""}</span>
        {waited > 0 && <span class="hidden-text">, waited {length(waited)}</span>}
      </span>
    </div>
  );
}

export const short = (count: number) => count.toLocaleString(undefined, { notation: "compact", maximumFractionDigits: 1 });
export const money = (cost: number) => `$${cost < 0.01 ? cost.toFixed(4) : cost.toFixed(2)}`;

const BAD = ["failed", "timed_out", "unknown"];

function Bars({ span, axis, zoom, until, state }: { span: Span; axis: Axis; zoom: Zoom; until: number; state: string | undefined }) {
  const look = `${span.kind} ${state && BAD.includes(state) ? tone(state) : ""}`;
  return <>{span.phases.map((phase, n) => bar(phase, n, look, axis, zoom, until))}</>;
}

function bar(phase: Phase, n: number, look: string, axis: Axis, zoom: Zoom, until: number) {
  if (phase.from > until) return null;
  const left = Math.max(-1, zoom.percent(placeOf(axis, phase.from) / axis.length));
  const right = Math.min(101, zoom.percent(placeOf(axis, Math.min(phase.to ?? until, until)) / axis.length));
  if (right < 0 || left > 100 || (n && right - left < 0.05)) return null;
  return <i key={n} class={`fall-bar ${look} ${phase.doing}`} style={{ left: `${left}%`, width: `${right - left}%` }} />;
}
