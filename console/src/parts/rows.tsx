// A list of any length: only the rows on the screen are there.

import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";

interface Given {
  count: number;
  height: number;
  label: string;
  row: (index: number) => ComponentChildren;
  /** Told which rows are on the screen. */
  seen?: (first: number, last: number) => void;
  /** Asked for more when the end comes near. */
  more?: () => void;
  /** Stays at the newest row while the person has not scrolled away from it. */
  stick?: boolean;
  chosen?: number;
  choose?: (index: number) => void;
  /** Enter on the chosen row. */
  enter?: (index: number) => void;
}

const SPARE = 8;

export function Rows({ count, height, label, row, seen, more, stick, chosen, choose, enter }: Given) {
  const box = useRef<HTMLDivElement>(null);
  const top = useSignal(0);
  const room = useSignal(600);
  const atEnd = useRef(true);

  useEffect(() => {
    const watch = new ResizeObserver(() => (room.value = box.current?.clientHeight ?? 600));
    watch.observe(box.current!);
    return () => watch.disconnect();
  }, []);
  useEffect(() => {
    if (stick && atEnd.current && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [count, stick]);
  useEffect(() => {
    if (chosen === undefined || chosen < 0 || !box.current) return;
    const from = chosen * height;
    if (from < box.current.scrollTop) box.current.scrollTop = from;
    else if (from + height > box.current.scrollTop + box.current.clientHeight)
      box.current.scrollTop = from + height - box.current.clientHeight;
  }, [chosen]);

  // The last event of a scroll may come when the list has left the page, and its reference with it.
  const scrolled = ({ currentTarget: { scrollTop, clientHeight, scrollHeight } }: { currentTarget: HTMLElement }) => {
    top.value = scrollTop;
    atEnd.current = scrollTop + clientHeight >= scrollHeight - height * 2;
    if (scrollTop + clientHeight >= scrollHeight - height * 20) more?.();
  };
  const pressed = (event: KeyboardEvent) => {
    if (!choose) return;
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -count, End: count }[event.key];
    if (event.key === "Enter" && event.target === box.current && chosen !== undefined && chosen >= 0) enter?.(chosen);
    if (step === undefined || count === 0) return;
    event.preventDefault();
    choose(Math.max(0, Math.min(count - 1, (chosen ?? -1) + step)));
  };
  const first = Math.max(0, Math.floor(top.value / height) - SPARE);
  const last = Math.min(count, Math.ceil((top.value + room.value) / height) + SPARE);
  useEffect(() => seen?.(first, last), [first, last]);
  return (
    <div class="list" ref={box} onScroll={scrolled} onKeyDown={pressed} tabIndex={0} role="region" aria-label={label}>
      <div style={{ height: `${count * height}px`, position: "relative" }}>
        <div style={{ position: "absolute", insetInline: 0, top: `${first * height}px` }}>
          {Array.from({ length: Math.max(0, last - first) }, (_, n) => (
            <div key={first + n} style={{ height: `${height}px`, overflow: "hidden" }}>
              {row(first + n)}
            </div>
          ))}
        </div>
      </div>
    </div>
  );
}
