// The part of a time axis that is on the screen, and the ways to change it.

import { useSignal } from "@preact/signals";

export interface Window {
  from: number;
  to: number;
}

const WHOLE: Window = { from: 0, to: 1 };
const LEAST = 1e-6;

/** A window of less than nothing or past the ends is put right. */
function fitting(from: number, to: number): Window {
  const width = Math.min(1, Math.max(LEAST, to - from));
  const start = Math.min(1 - width, Math.max(0, from));
  return { from: start, to: start + width };
}

/** A window onto an axis whose whole length is 1. */
export function useZoom() {
  const window = useSignal(WHOLE);
  const { from, to } = window.value;
  const width = to - from;
  return {
    from,
    to,
    width,
    zoomed: width < 1,
    /** Makes it smaller or larger around a place of the window, from 0 to 1. */
    by: (factor: number, around = 0.5) => {
      const fixed = window.value.from + (window.value.to - window.value.from) * around;
      const next = Math.min(1, Math.max(LEAST, (window.value.to - window.value.from) * factor));
      window.value = fitting(fixed - next * around, fixed + next * (1 - around));
    },
    /** Moves it by a part of itself. */
    pan: (part: number) => {
      const by = (window.value.to - window.value.from) * part;
      window.value = fitting(window.value.from + by, window.value.to + by);
    },
    set: (one: number, two: number) => (window.value = fitting(Math.min(one, two), Math.max(one, two))),
    reset: () => (window.value = WHOLE),
    /** Where something stands in the window, in percent. */
    percent: (place: number) => ((place - from) / width) * 100,
  };
}

export type Zoom = ReturnType<typeof useZoom>;
