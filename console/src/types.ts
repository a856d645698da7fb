// What the API sends, by the names of the contract.

import type { EventKinds } from "./events";

export type Json = unknown;
export type Effect = "read" | "idempotent" | "once";

export interface Me {
  name: string;
  roles?: string[];
  scopes?: string[];
  namespaces?: string[];
  auth: "off" | "key" | "jwt";
  admin: boolean;
  version: string;
  features: Record<string, boolean>;
}

export interface Page<T> {
  items: T[];
  next?: string;
  total?: number;
}

export type Health = "ok" | "degraded" | "unavailable";

/** Tools, and with the first page what there is to choose from and which sources are not well. */
export interface ToolsPage extends Page<ToolLine> {
  facets?: Record<"namespace" | "source" | "effect" | "health", Record<string, number>>;
  unwell?: { name: string; health: Health; reason: string }[];
}

/** Something that was written and does nothing, or not what it looks like. */
export interface Finding {
  code: string;
  severity: "error" | "warning" | "info";
  message: string;
  about: string;
  file?: string;
  line?: number;
  nearest?: string;
}

export interface ToolLine {
  id: string;
  name: string;
  namespace: string;
  title?: string;
  description: string;
  effect: Effect;
  annotations?: Record<string, boolean>;
  capabilities?: string[];
  source?: string;
  health: Health;
  reason?: string;
  tags?: string[];
  trusted?: boolean;
  changed?: string[];
}

export interface Example {
  arguments: Json;
  title?: string;
  result?: Json;
}

/** How calls ended lately, and the last of them. */
export interface Counts {
  calls: number;
  failures: Record<string, number>;
  per_s: number;
  p50_ms?: number | null;
  p95_ms?: number | null;
  points: { at: number; calls: number; failures: number; p50_ms: number | null; p95_ms: number | null }[];
  last: { session: string; call: string; tool: string; at: number; outcome: string; duration_ms: number }[];
}

export interface Audited {
  cursor: string;
  session: string;
  owner: string;
  call: string;
  accepted_at: number;
  ended_at: number;
  chain: string[];
  tool: string;
  arguments: Json;
  verdict?: Verdict | null;
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

export interface Verdict {
  effect: string;
  by?: string;
  message?: string;
}

export interface ToolWhole extends ToolLine {
  input_schema: Record<string, Json>;
  output_schema?: Record<string, Json>;
  limits?: Record<string, Json>;
  knowledge?: {
    help?: string;
    anti_patterns?: { match: string; hint: string }[];
    examples?: Example[];
  };
  warnings?: string[];
}

export interface Failure {
  code: string;
  message: string;
  retryable?: boolean;
  hint?: string | null;
}

export interface Result {
  call?: string;
  ok: boolean;
  data?: Json;
  content?: Record<string, Json>[];
  failure?: Failure;
  metadata?: Record<string, Json>;
}

export interface Event {
  session: string;
  seq: number;
  time: number;
  call?: string;
  kind: string;
  /** Of the type that `EventKinds` has for its kind. */
  data: Record<string, any>;
  /** The bytes of values that are only references here. */
  large?: Record<string, number>;
}

/** The data of an event that is of that kind. */
export const dataOf = <K extends keyof EventKinds>(event: Event, _kind: K): EventKinds[K] => event.data as unknown as EventKinds[K];

export interface Question {
  id: string;
  session: string;
  call: string;
  tool: string;
  kind: "confirm" | "input" | "client" | "external";
  prompt: string;
  arguments: Record<string, Json>;
  /** The arguments as the JSON text that will run: a number of JavaScript is not always the number that was asked about. */
  shown?: string;
  asked_at: number;
  expires_at: number;
  schema?: Record<string, Json> | null;
  path?: string[];
  offer?: string | null;
  data?: Json;
  demands?: Record<string, Json>[];
  approved_by?: string[];
  escalated?: boolean;
  owner?: string;
}

export interface Entry {
  id: string;
  tool: string;
  label: string;
  status: string;
  accepted_at: number;
  started_at?: number;
  done_at?: number;
  seq: number;
  session?: string;
  owner?: string;
  parent?: string;
  by?: { kind: string; name: string };
  result?: Result;
}

export interface SessionLine {
  id: string;
  owner: string;
  namespaces?: string[];
  created: number;
  touched: number;
  seq: number;
  open?: boolean;
  waiting?: number;
  running?: number;
  agent?: string;
}
