// A small plot over time.

import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";

export function Plot({ label, times, values, unit }: { label: string; times: number[]; values: number[]; unit?: string }) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>(undefined);
  useEffect(() => {
    const style = getComputedStyle(document.documentElement);
    const ink = style.getPropertyValue("color");
    plot.current = new uPlot(
      {
        width: box.current!.clientWidth,
        height: 120,
        legend: { show: false },
        cursor: { show: false },
        axes: [{ stroke: ink, grid: { show: false } }, { stroke: ink, size: 44, grid: { stroke: "#8884", width: 1 } }],
        series: [{}, { stroke: "#2f9e83", width: 1.5, fill: "#2f9e8322" }],
      },
      [times, values],
      box.current!,
    );
    const seen = new ResizeObserver(() => plot.current?.setSize({ width: box.current!.clientWidth, height: 120 }));
    seen.observe(box.current!);
    return () => {
      seen.disconnect();
      plot.current?.destroy();
    };
  }, []);
  useEffect(() => plot.current?.setData([times, values]), [times, values]);
  const last = values.at(-1);
  return (
    <figure class="sheet" style={{ margin: 0 }} role="img" aria-label={`${label}: ${last ?? "nothing"} ${unit ?? ""}`}>
      <figcaption class="small soft">{label}{last === undefined ? "" : `: ${last.toLocaleString()} ${unit ?? ""}`}</figcaption>
      <div ref={box} />
    </figure>
  );
}
