// A small plot over time.

import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { theme } from "../theme";

const HEIGHT = 120;
type Values = (number | null)[];

/** Whether a value has no neighbours: a line alone would not show it. */
const alone = (values: Values) => values.some((value, n) => value != null && values[n - 1] == null && values[n + 1] == null);

/** The time, with its date where a plot begins and where a day does. */
function tick(at: number, n: number, all: number[]): string {
  const [when, before] = [new Date(at * 1000), new Date((all[n - 1] ?? 0) * 1000)];
  const date = when.toDateString() === before.toDateString() ? "" : `${when.toLocaleDateString([], { month: "short", day: "numeric" })} `;
  return date + when.toLocaleTimeString([], { timeStyle: "short" });
}

interface Given {
  label: string;
  times: number[];
  values: Values;
  unit?: string;
  /** Of things that are counted. */
  whole?: boolean;
}

export function Plot({ label, times, values, unit = "", whole }: Given) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>(undefined);
  useEffect(() => {
    const style = getComputedStyle(box.current!);
    const ink = style.color;
    const brand = getComputedStyle(document.querySelector(".rail [aria-current]") ?? document.body).color;
    plot.current = new uPlot(
      {
        width: box.current!.clientWidth,
        height: HEIGHT,
        legend: { show: false },
        cursor: { show: false },
        scales: { y: { range: (_, least, most) => [Math.min(0, least ?? 0), Math.max(most ?? 0, whole ? 1 : 0.01) * 1.1] } },
        axes: [
          { stroke: ink, grid: { show: false }, ticks: { show: false }, space: 90, size: 26, values: (_, splits) => splits.map(tick) },
          {
            stroke: ink,
            size: 48,
            grid: { stroke: "#8884", width: 1 },
            ticks: { show: false },
            space: 34,
            ...(whole ? { incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4] } : {}),
          },
        ],
        series: [
          {},
          {
            stroke: brand,
            width: 1.5,
            fill: brand.replace(/^rgb\((.*)\)$/, "rgba($1, 0.12)"),
            points: { show: (_, series) => alone(_.data[series] as Values), size: 5 },
          },
        ],
      },
      [times, values],
      box.current!,
    );
    const seen = new ResizeObserver(([entry]) => plot.current?.setSize({ width: entry!.contentRect.width, height: HEIGHT }));
    seen.observe(box.current!);
    return () => {
      seen.disconnect();
      plot.current?.destroy();
    };
  }, [theme.value]);
  useEffect(() => plot.current?.setData([times, values]), [times, values]);
  const last = values.findLast((value) => value !== null);
  const now =
    last === undefined || last === null ? "nothing yet" : `${last.toLocaleString(undefined, { maximumFractionDigits: 2 })} ${unit}`.trim();
  return (
    <figure class="sheet" role="img" aria-label={`${label}: ${now}`}>
      <figcaption class="small soft">
        {label}: <b>{now}</b>
      </figcaption>
      <div ref={box} />
    </figure>
  );
}
