// Folds events into spans as the console does: one log as lines of JSON on standard input, its spans on standard output.

import { createInterface } from "node:readline";
import { axisOf, placeOf, timeAt } from "../../console/src/axis.ts";
import { rowsOf, Spans, stateAt } from "../../console/src/spans.ts";

const spans = new Spans();
for await (const line of createInterface({ input: process.stdin })) if (line) spans.take(JSON.parse(line));

const plain = (span) => ({
  id: span.id, kind: span.kind, name: span.name, label: span.label, parent: span.parent?.id, depth: span.depth, from: span.from, to: span.to,
  phases: span.phases, state: stateAt(span, spans.time), usage: span.usage, first: span.first, seq: span.seq, seqs: span.seqs,
});
const axis = axisOf(spans.roots, spans.time);
const there = axis.times.map((time) => timeAt(axis, placeOf(axis, time)));
const halves = Array.from({ length: spans.last + 1 }, (_, upto) => rowsOf(spans.roots, new Set(), upto).length);
console.log(JSON.stringify({ spans: rowsOf(spans.roots, new Set(), Infinity).map(plain), axis, there, halves }));
