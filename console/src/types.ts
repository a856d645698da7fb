// What the API sends, by the names that the screens use for it. What its description leaves open is said here.

import type { CallerRecord, EventKinds, VerdictRecord } from "./events";
import type { EntryForm, EventForm, QuestionForm, ResultForm, ToolDetail } from "./forms";

export type { CallerRecord, Failure, VerdictRecord as Verdict } from "./events";
export type {
  AccountForm,
  FindingForm as Finding,
  Me,
  SessionForm as SessionLine,
  SourceDetails,
  SourceEntry,
  SourceTestForm,
  ToolForm as ToolLine,
  ToolStats,
  Tools as ToolsPage,
} from "./forms";

export interface Page<T> {
  items: T[];
  next?: string | null;
}

/** A question as lists have it; one in the log of a session has no owner. */
export type Question = QuestionForm;

/** An event; its data is of the type that `EventKinds` has for its kind. */
// biome-ignore lint/suspicious/noExplicitAny: kinds are told apart where they are read
export type Event = EventForm & { data: Record<string, any> };

/** The data of an event that is of that kind. */
export const dataOf = <K extends keyof EventKinds>(event: Event, _kind: K): EventKinds[K] => event.data as unknown as EventKinds[K];

export type Entry = Omit<EntryForm, "by" | "result"> & { by?: CallerRecord | null; result?: ResultForm | null };

export interface Example {
  arguments: unknown;
  title?: string;
  result?: unknown;
}

export type ToolWhole = ToolDetail & {
  knowledge?: { help?: string; anti_patterns?: { match: string; hint: string }[]; examples?: Example[] } | null;
};

export interface Audited {
  cursor: string;
  session: string;
  owner: string;
  call: string;
  accepted_at: number;
  ended_at: number;
  chain: string[];
  tool: string;
  arguments: unknown;
  verdict?: VerdictRecord | null;
  approver?: string | null;
  answers: { action: string; actor: string; kind: string; reason?: string; scope?: string; edited: boolean; at: number }[];
  outcome: string;
  message?: string | null;
  duration_ms: number;
}

/** A page of the audit; all that ended since `reached` was looked at. */
export interface AuditPage extends Page<Audited> {
  reached?: number;
}
