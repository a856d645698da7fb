// A small plot over time.

import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { theme } from "../theme";

const HEIGHT = 120;

interface Given {
  label: string;
  times: number[];
  values: (number | null)[];
  unit?: string;
}

export function Plot({ label, times, values, unit = "" }: Given) {
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
        scales: { y: { range: (_, least, most) => [Math.min(0, least ?? 0), Math.max(most ?? 0, 0.01) * 1.1] } },
        axes: [
          { stroke: ink, grid: { show: false }, ticks: { show: false }, space: 70, size: 30, values: (_, splits) => splits.map((at) => new Date(at * 1000).toLocaleTimeString([], { timeStyle: "short" })) },
          { stroke: ink, size: 48, grid: { stroke: "#8884", width: 1 }, ticks: { show: false }, space: 34 },
        ],
        series: [{}, { stroke: brand, width: 1.5, fill: brand.replace(/^rgb\((.*)\)$/, "rgba($1, 0.12)"), spanGaps: true, points: { show: true, size: 4 } }],
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
  const now = last === undefined || last === null ? "nothing yet" : `${last.toLocaleString(undefined, { maximumFractionDigits: 2 })} ${unit}`.trim();
  return (
    <figure class="sheet" role="img" aria-label={`${label}: ${now}`}>
      <figcaption class="small soft">{label}: <b>{now}</b></figcaption>
      <div ref={box} />
    </figure>
  );
}
