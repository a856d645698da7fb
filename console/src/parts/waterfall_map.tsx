// All of a waterfall in a strip above it: the part that is shown is framed, and another is chosen by dragging.

import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { type Axis, placeOf, timeAt } from "../axis";
import type { Span } from "../spans";
import { theme } from "../theme";
import { length } from "./basics";
import type { Zoom } from "./zoom";

const HEIGHT = 30;
const SLOW_MS = 200;

interface Given {
  axis: Axis;
  rows: Span[];
  zoom: Zoom;
  until: number;
  past: boolean;
}

type Dragged = PointerEvent & { currentTarget: HTMLElement };

export function SmallMap({ axis, rows, zoom, until, past }: Given) {
  const box = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const dragged = useSignal<{ from: number; to: number } | undefined>(undefined);
  const width = useSignal(600);
  const wanted = useRef<() => unknown>(() => {});
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  wanted.current = () => canvas.current && draw(canvas.current, axis, rows, until);

  useEffect(() => {
    const watch = new ResizeObserver(() => (width.value = box.current?.clientWidth ?? 600));
    watch.observe(box.current!);
    return () => {
      watch.disconnect();
      clearTimeout(timer.current);
    };
  }, []);
  useEffect(() => {
    timer.current ??= setTimeout(() => {
      timer.current = undefined;
      wanted.current();
    }, SLOW_MS);
  }, [axis, rows, width.value, theme.value]);
  useEffect(() => {
    const element = box.current!;
    const turned = (event: WheelEvent) => {
      event.preventDefault();
      const { left, width } = element.getBoundingClientRect();
      zoom.by(event.deltaY > 0 ? 1.25 : 0.8, (event.clientX - left) / width);
    };
    element.addEventListener("wheel", turned, { passive: false });
    return () => element.removeEventListener("wheel", turned);
  }, []);

  // The last event of a drag may come when the strip has left the page, and its reference with it.
  const part = (event: Dragged) => {
    const { left, width } = event.currentTarget.getBoundingClientRect();
    return Math.min(1, Math.max(0, (event.clientX - left) / width));
  };
  const down = (event: Dragged) => {
    event.currentTarget.setPointerCapture(event.pointerId);
    dragged.value = { from: part(event), to: part(event) };
  };
  const move = (event: Dragged) => {
    if (dragged.value) dragged.value = { ...dragged.value, to: part(event) };
  };
  const up = () => {
    const { from, to } = dragged.value ?? { from: 0, to: 0 };
    dragged.value = undefined;
    if (Math.abs(to - from) > 0.005) zoom.set(from, to);
  };
  const frame = dragged.value
    ? { from: Math.min(dragged.value.from, dragged.value.to), to: Math.max(dragged.value.from, dragged.value.to) }
    : zoom;
  return (
    <div class="fall-map" ref={box} onPointerDown={down} onPointerMove={move} onPointerUp={up} onDblClick={zoom.reset} aria-hidden="true">
      <canvas ref={canvas} width={width.value} height={HEIGHT} />
      {(zoom.zoomed || dragged.value) && (
        <b class="fall-frame" style={{ left: `${frame.from * 100}%`, width: `${(frame.to - frame.from) * 100}%` }} />
      )}
      {past && <b class="fall-now" style={{ left: `${(placeOf(axis, until) / axis.length) * 100}%` }} />}
      <div class="fall-ticks small soft">
        {ticks(axis, zoom, width.value).map(({ at, text }, n) => (
          <span key={n} style={{ left: `${at}%` }}>
            {text}
          </span>
        ))}
        {axis.gaps.map((gap) => (
          <Fold key={gap.from} axis={axis} zoom={zoom} from={gap.from} to={gap.to} width={width.value} />
        ))}
      </div>
    </div>
  );
}

/** A wait that is folded up: the axis says how long it was. */
function Fold({ axis, zoom, from, to, width }: { axis: Axis; zoom: Zoom; from: number; to: number; width: number }) {
  const [left, right] = [zoom.percent(placeOf(axis, from) / axis.length), zoom.percent(placeOf(axis, to) / axis.length)];
  if (right < 0 || left > 100) return null;
  return (
    <b class="fall-fold" style={{ left: `${left}%`, width: `${right - left}%` }} title={`${length(to - from)} in which nothing was done`}>
      {right - left > room(length(to - from), width) ? length(to - from) : "…"}
    </b>
  );
}

/** All rows, however thin. */
function draw(canvas: HTMLCanvasElement, axis: Axis, rows: Span[], until: number): void {
  const paper = canvas.getContext("2d");
  if (!paper) return;
  const style = getComputedStyle(canvas);
  const [model, call, wait, bad] = ["--brand", "--busy", "--warn", "--bad"].map((name) => solid(style.getPropertyValue(name))) as [
    string,
    string,
    string,
    string,
  ];
  const { width, height } = canvas;
  paper.clearRect(0, 0, width, height);
  const step = Math.min(4, height / Math.max(1, rows.length));
  const scale = width / axis.length;
  rows.forEach((span, n) => {
    if (span.kind === "run" || span.kind === "turn") return;
    for (const phase of span.phases) {
      if (phase.from > until) break;
      const left = placeOf(axis, phase.from) * scale;
      const right = placeOf(axis, Math.min(phase.to ?? until, until)) * scale;
      paper.fillStyle = phase.doing === "waiting" ? wait : span.state === "failed" ? bad : span.kind === "model" ? model : call;
      paper.fillRect(left, n * step, Math.max(1, right - left), Math.max(1, step - 0.5));
    }
  });
}

/** A canvas knows no `light-dark()`. */
function solid(color: string): string {
  const [, light, dark] = /light-dark\(([^,]+),\s*([^)]+)\)/.exec(color) ?? [];
  if (!light) return color;
  const set = document.documentElement.dataset.theme;
  const isDark = set ? set === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  return isDark ? dark! : light;
}

/** Times along an axis, so many in the window; none where a fold says its own. */
function ticks(axis: Axis, zoom: Zoom, width: number): { at: number; text: string }[] {
  const start = axis.times[0] ?? 0;
  const count = width < 400 ? 3 : 6;
  const folds = axis.gaps.map(
    (gap) => [gap.from, gap.to].map((time) => zoom.percent(placeOf(axis, time) / axis.length)) as [number, number],
  );
  const made = Array.from({ length: count }, (_, n) => {
    const time = timeAt(axis, (zoom.from + (zoom.width * n) / count) * axis.length);
    return { at: (n / count) * 100, text: time === start ? "0" : length(time - start) };
  });
  return made.filter(({ at, text }) => !folds.some(([from, to]) => at > from - room(text, width) && at < to));
}

/** What a text takes in so wide a strip, in percent. */
const room = (text: string, width: number) => ((text.length * 6.5 + 8) / Math.max(1, width)) * 100;
