// The way from a call to its trace, where the server says where traces are looked at.

import { me } from "../api";

interface Given {
  trace?: string;
  session: string;
  call: string;
}

/** The address of a trace: the template of the server with the ids of a `traceparent`, a session and a call. */
export function address(template: string, { trace = "", session, call }: Given): string {
  const [, id = "", span = ""] = trace.split("-");
  const ids: Record<string, string> = { trace: id, span, session, call };
  return template.replace(/\{(trace|span|session|call)\}/g, (_, name: string) => encodeURIComponent(ids[name]!));
}

export function TraceLink(given: Given) {
  const template = me.value?.trace_url;
  if (!template || !given.trace) return null;
  return (
    <a class="button" href={address(template, given)} target="_blank" rel="noreferrer">
      Trace
    </a>
  );
}
