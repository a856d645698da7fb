// A plot of several things over time: hovered, gone through with keys, brushed, and readable as a table.

import { useSignal } from "@preact/signals";
import { useEffect, useId, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { theme } from "../theme";

/** Colours that people with any kind of colour blindness can tell apart (after Okabe and Ito), on light and on dark. */
export const COLOURS = ["#2b86c9", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8a8a8a"];
const DASHES = [[], [6, 3], [2, 3]];
const HEIGHT = 150;
/** More bars than a plot is pixels wide: they are drawn as one area. */
const MANY = 1_500;
/** A sparkline is about as many pixels wide. */
const BARS = 168;
const WHOLE = [1, 2, 5].flatMap((one) => Array.from({ length: 10 }, (_, n) => one * 10 ** n)).toSorted((a, b) => a - b);

/** What an address has to say of one line. */
export type Part = Record<string, string | number | null>;

export interface Line {
  label: string;
  values: (number | null)[];
  colour?: string;
  part?: Part;
}

interface Given {
  title: string;
  times: number[];
  step: number;
  lines: Line[];
  /** As people read a value. */
  say: (value: number) => string;
  /** What stands on each other, and does not cross. */
  stacked?: boolean;
  log?: boolean;
  /** Somebody chose a time, and of what is stacked perhaps a part. */
  chosen?: (since: number, until: number, part?: Part) => void;
  /** Where the name of a line leads. */
  link?: (part: Part) => string;
  hint?: string;
}

const clock: Intl.DateTimeFormatOptions = { hour: "2-digit", minute: "2-digit" };

/** Of the lines of a logarithmic axis those that are read: powers of ten, and where these are few 2 and 5 of each as well. */
function readable(splits: number[]): (number | null)[] {
  const few = splits.length > 0 && splits.at(-1)! / splits[0]! <= 100;
  return splits.map((one) => {
    const first = Math.round(one / 10 ** Math.floor(Math.log10(one) + 1e-9));
    return first === 1 || (few && (first === 2 || first === 5)) ? one : null;
  });
}

/** A step as people read it. */
export function stepName(at: number, step: number): string {
  const from = new Date(at * 1000);
  const day = from.toLocaleDateString([], { weekday: "short", month: "short", day: "numeric" });
  const until = new Date((at + step) * 1000);
  const later =
    step > 86_400 || until.toDateString() !== from.toDateString()
      ? `${until.toLocaleDateString([], { month: "short", day: "numeric" })}, `
      : "";
  return `${day}, ${from.toLocaleTimeString([], clock)} to ${later}${until.toLocaleTimeString([], clock)}`;
}

/** Each line with all below it, the highest first: what is drawn later covers the lower part. */
function piled(lines: Line[]): (number | null)[][] {
  const sums = lines[0]?.values.map(() => 0) ?? [];
  return lines.map((line) => line.values.map((value, n) => (sums[n] = sums[n]! + (value ?? 0)))).reverse();
}

/** What stands at some height of a pile. */
function hit(lines: Line[], n: number, height: number): Line | undefined {
  let sum = 0;
  for (const line of lines) {
    sum += line.values[n] ?? 0;
    if (height < sum) return line;
  }
}

export function Chart({ title, times, step, lines, say, stacked, log, chosen, link, hint }: Given) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>(undefined);
  const place = useSignal<number | undefined>(undefined);
  const table = useSignal(false);
  const id = useId();
  const told = useRef({ chosen, times, step, say, lines });
  told.current = { chosen, times, step, say, lines };
  const shape = lines.map((line) => line.label + line.colour).join("|");
  const colour = (line: Line, n: number) => line.colour ?? COLOURS[n % COLOURS.length]!;
  const data = () => [times, ...(stacked ? piled(lines) : lines.map((line) => line.values))] as uPlot.AlignedData;
  // Half a call is no value: axes of what is counted have whole numbers.
  const whole = !!stacked && lines.every((line) => line.values.every((value) => value === null || Number.isInteger(value)));
  const dense = times.length > MANY;
  useEffect(() => {
    const ink = getComputedStyle(box.current!).color;
    const order = stacked ? lines.map((line, n) => ({ line, n })).reverse() : lines.map((line, n) => ({ line, n }));
    const bars = uPlot.paths.bars!({ size: [0.8, 40], align: 1 });
    const within = (range: [number, number]) => told.current.chosen?.(...range);
    let down: number | undefined;
    plot.current = new uPlot(
      {
        width: box.current!.clientWidth,
        height: HEIGHT,
        legend: { show: false },
        cursor: {
          y: false,
          points: { show: !stacked },
          drag: { x: !!chosen, y: false, setScale: false },
          sync: { key: "overview", scales: ["x", null] },
        },
        scales: {
          x: { range: (_, least, most) => [least, most + told.current.step] },
          y: log ? { distr: 3 } : { range: (_, _least, most) => [0, Math.max(most ?? 0, 1e-9) * 1.1] },
        },
        axes: [
          { stroke: ink, grid: { show: false }, ticks: { show: false }, space: 80, size: 26, values: (_, splits) => splits.map(named) },
          {
            stroke: ink,
            size: 58,
            ...(whole ? { incrs: WHOLE } : {}),
            grid: { stroke: "#8883", width: 1, ...(log ? { filter: (_: uPlot, splits: number[]) => readable(splits) } : {}) },
            ...(log ? { filter: (_: uPlot, splits: number[]) => readable(splits) } : {}),
            ticks: { show: false },
            space: 32,
            values: (_, splits) => splits.map((one) => (one === null ? "" : told.current.say(one))),
          },
        ],
        series: [
          {},
          ...order.map(({ line, n }) => ({
            stroke: colour(line, n),
            width: stacked ? 0 : 2,
            fill: stacked ? colour(line, n) : undefined,
            dash: stacked ? [] : DASHES[n % DASHES.length],
            paths: stacked && !dense ? bars : undefined,
            points: { show: !stacked && lonely(line.values), size: 6, fill: colour(line, n) },
            spanGaps: false,
          })),
        ],
        hooks: {
          setCursor: [(one) => (place.value = one.cursor.idx ?? undefined)],
          setSelect: [
            (one) => {
              const { left, width } = one.select;
              if (width < 4) return;
              const [from, until] = [one.posToVal(left, "x"), one.posToVal(left + width, "x")];
              one.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
              if (down === undefined) return; // somebody drags in another plot, which this one follows
              down = undefined;
              within([Math.floor(from / told.current.step) * told.current.step, Math.ceil(until / told.current.step) * told.current.step]);
            },
          ],
        },
      },
      data(),
      box.current!,
    );
    const over = plot.current.over;
    const clicked = (event: MouseEvent) => {
      const { times, step, lines } = told.current;
      const at = place.value === undefined ? undefined : times[place.value];
      const height = plot.current!.posToVal(event.clientY - over.getBoundingClientRect().top, "y");
      if (at !== undefined) told.current.chosen?.(at, at + step, stacked ? hit(lines, place.value!, height)?.part : undefined);
    };
    const pressed = (event: MouseEvent) => (down = event.clientX);
    const released = (event: MouseEvent) => {
      if (down !== undefined && Math.abs(event.clientX - down) < 4) clicked(event);
    };
    over.addEventListener("mousedown", pressed);
    over.addEventListener("click", released);
    const seen = new ResizeObserver(([entry]) => plot.current?.setSize({ width: entry!.contentRect.width, height: HEIGHT }));
    seen.observe(box.current!);
    return () => {
      seen.disconnect();
      plot.current?.destroy();
    };
  }, [theme.value, shape, stacked, log, whole, dense]);
  useEffect(() => plot.current?.setData(data()), [times, lines]);

  const move = (event: KeyboardEvent) => {
    const by = { ArrowLeft: -1, ArrowRight: 1, Home: -times.length, End: times.length }[event.key];
    if (event.key === "Enter" && place.value !== undefined) chosen?.(times[place.value]!, times[place.value]! + step);
    else if (by !== undefined) {
      place.value = Math.max(0, Math.min(times.length - 1, (place.value ?? (by < 0 ? times.length : -1)) + by));
      plot.current?.setCursor({ left: plot.current.valToPos(times[place.value]!, "x"), top: 0 });
    } else return;
    event.preventDefault();
  };
  const at = place.value === undefined ? undefined : times[place.value];
  const value = (line: Line) => (at === undefined ? undefined : line.values[place.value!]);
  return (
    <section class="sheet chart" aria-label={title}>
      <div class="chart-head">
        <h2 id={id}>{title}</h2>
        <button class="bare small" aria-pressed={table.value} onClick={() => (table.value = !table.value)}>
          {table.value ? "Plot" : "Table"}
          <span class="hidden-text"> of {title}</span>
        </button>
      </div>
      <p class="reading small soft" aria-live="polite">
        {at === undefined ? (chosen ? (hint ?? "drag to choose a time, click for its calls") : "") : stepName(at, step)}
      </p>
      <div
        hidden={table.value}
        ref={box}
        class="canvas"
        tabIndex={0}
        role="slider"
        aria-labelledby={id}
        aria-valuemin={0}
        aria-valuemax={Math.max(0, times.length - 1)}
        aria-valuenow={place.value ?? 0}
        aria-valuetext={
          at === undefined
            ? "no time chosen"
            : `${stepName(at, step)}: ${lines.map((line) => `${line.label} ${spoken(value(line), say)}`).join(", ")}`
        }
        onKeyDown={move}
      />
      {table.value && <Table title={title} times={times} step={step} lines={lines} say={say} />}
      <ul class="legend small">
        {lines.map((line, n) => (
          <li key={line.label}>
            <i class={stacked ? "" : `dash${n % 3}`} style={{ color: colour(line, n) }} />
            {link && line.part ? <a href={link(line.part)}>{line.label}</a> : line.label}
            {at !== undefined && <b> {spoken(value(line), say)}</b>}
          </li>
        ))}
      </ul>
    </section>
  );
}

const spoken = (value: number | null | undefined, say: (value: number) => string) =>
  value === null || value === undefined ? "none" : say(value);

/** Whether a value has no neighbours: a line alone would not show it. */
const lonely = (values: (number | null)[]) => values.some((value, n) => value != null && values[n - 1] == null && values[n + 1] == null);

function named(at: number, n: number, all: number[]): string {
  const [when, before] = [new Date(at * 1000), new Date((all[n - 1] ?? 0) * 1000)];
  const day = when.toDateString() === before.toDateString() ? "" : when.toLocaleDateString([], { month: "short", day: "numeric" });
  return when.getHours() + when.getMinutes() === 0 && day ? day : `${day} ${when.toLocaleTimeString([], clock)}`.trim();
}

const Table = ({ title, times, step, lines, say }: Pick<Given, "title" | "times" | "step" | "lines" | "say">) => (
  <div class="behind" tabIndex={0} role="region" aria-label={`${title}, as a table`}>
    <table>
      <thead>
        <tr>
          <th scope="col">time</th>
          {lines.map((line) => (
            <th key={line.label} scope="col" class="end">
              {line.label}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {times
          .map((at, n) => ({ at, n }))
          .reverse()
          .filter(({ n }) => lines.some((line) => line.values[n]))
          .map(({ at, n }) => (
            <tr key={at}>
              <th scope="row">{stepName(at, step)}</th>
              {lines.map((line) => (
                <td key={line.label} class="end">
                  {spoken(line.values[n], say)}
                </td>
              ))}
            </tr>
          ))}
      </tbody>
    </table>
  </div>
);

/** As many bars as can be told apart, each with the sum of those that it stands for. */
function fewer(values: number[]): number[] {
  const each = Math.ceil(values.length / BARS);
  if (each <= 1) return values;
  return Array.from({ length: Math.ceil(values.length / each) }, (_, n) =>
    values.slice(n * each, (n + 1) * each).reduce((sum, one) => sum + one, 0),
  );
}

/** A line without axes, of whole numbers; `marked` ones stand out below it. */
export function Sparkline({ values: all, marked: some }: { values: number[]; marked: number[] }) {
  const [values, marked] = [fewer(all), fewer(some)];
  const most = Math.max(1, ...values);
  const width = 100 / Math.max(1, values.length);
  const bar = (value: number, n: number) =>
    `M${(n * width).toFixed(2)} 20v${((-20 * value) / most).toFixed(2)}h${(width * 0.85).toFixed(2)}V20z`;
  return (
    <svg class="spark" viewBox="0 0 100 20" preserveAspectRatio="none" aria-hidden="true">
      <path d={values.map(bar).join("")} fill={COLOURS[0]} />
      <path d={marked.map(bar).join("")} fill={COLOURS[5]} />
    </svg>
  );
}
