// The time axis of a waterfall: time in which something was done has its true length, long waits are folded up.

import type { Span } from "./spans";

export interface Gap {
  from: number;
  to: number;
}

/** Times and places, both growing: between two knots time runs evenly. */
export interface Axis {
  times: number[];
  places: number[];
  gaps: Gap[];
  length: number;
}

/** The part of all the other time that a folded gap takes, and that all of them take together at most. */
const FOLDED = 0.06;
const ALL_FOLDED = 0.4;
/** Shorter gaps are never folded. */
const LEAST_S = 0.05;
/** A gap is folded where it would take more than this part of the busy time. */
const LONG = 0.25;

/** When something was done: by models, and by calls that made no others. */
function busy(roots: readonly Span[], until: number): Gap[] {
  const work: Gap[] = [];
  const walk = (span: Span) => {
    work.push({ from: span.from, to: span.from });
    if (span.to !== undefined && span.to <= until) work.push({ from: span.to, to: span.to });
    if (span.kind === "model" || (span.kind === "call" && !span.children.length))
      for (const phase of span.phases) {
        if (phase.from > until) break;
        if (phase.doing !== "waiting") work.push({ from: phase.from, to: Math.min(phase.to ?? until, until) });
      }
    span.children.forEach(walk);
  };
  roots.forEach(walk);
  work.sort((one, two) => one.from - two.from);
  const merged: Gap[] = [];
  for (const one of work) {
    const last = merged.at(-1);
    if (last && one.from <= last.to) last.to = Math.max(last.to, one.to);
    else merged.push({ ...one });
  }
  return merged;
}

export function axisOf(roots: readonly Span[], until: number): Axis {
  const work = busy(roots, until);
  const axis: Axis = { times: [], places: [], gaps: [], length: 0 };
  if (!work.length) return axis;
  const end = Math.max(until, work.at(-1)!.to);
  const sum = work.reduce((all, one) => all + one.to - one.from, 0);
  // Many short pauses together are part of the work; only those that would press it together are folded.
  const longest = Math.max(LEAST_S, sum * LONG);
  const pauses = work
    .slice(1)
    .map((one, n) => one.from - work[n]!.to)
    .concat(end - work.at(-1)!.to);
  const many = pauses.filter((pause) => pause > longest).length;
  const unfolded = sum + pauses.reduce((all, pause) => all + (pause > longest ? 0 : pause), 0);
  const folded = (unfolded || 1) * Math.min(FOLDED, ALL_FOLDED / Math.max(1, many));
  let place = 0;
  const knot = (time: number) => {
    axis.times.push(time);
    axis.places.push(place);
  };
  knot(work[0]!.from);
  let time = work[0]!.from;
  const pass = (to: number, short: boolean) => {
    if (to <= time) return;
    place += short ? folded : to - time;
    if (short) axis.gaps.push({ from: time, to });
    time = to;
    knot(to);
  };
  for (const one of work) {
    pass(one.from, one.from - time > longest);
    pass(one.to, false);
  }
  pass(end, end - time > longest);
  axis.length = place || 1;
  return axis;
}

/** Where a time stands, from 0 to the length of the axis. */
export function placeOf(axis: Axis, time: number): number {
  return between(axis.times, axis.places, time);
}

/** The time that stands at a place. */
export function timeAt(axis: Axis, place: number): number {
  return between(axis.places, axis.times, place);
}

function between(from: readonly number[], to: readonly number[], value: number): number {
  const last = from.length - 1;
  if (last < 0) return 0;
  if (value <= from[0]!) return to[0]!;
  if (value >= from[last]!) return to[last]!;
  let [low, high] = [0, last];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (from[middle]! <= value) low = middle;
    else high = middle;
  }
  const width = from[high]! - from[low]!;
  return width ? to[low]! + ((value - from[low]!) / width) * (to[high]! - to[low]!) : to[low]!;
}
