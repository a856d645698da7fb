// What the API sends, by the names of the contract.

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
  health?: string;
  deprecated?: boolean;
}

export interface Example {
  description?: string;
  args: Json;
  result?: Json;
}

export interface ToolWhole extends ToolLine {
  input_schema: Record<string, Json>;
  output_schema?: Record<string, Json>;
  limits?: Record<string, Json>;
  knowledge?: {
    quirks?: string[];
    anti_patterns?: { pattern?: string; why?: string; instead?: string; [more: string]: Json }[];
    examples?: Example[];
    [more: string]: Json;
  };
}

export interface Failure {
  code: string;
  message: string;
  retryable?: boolean;
  hint?: string;
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
  data: Record<string, any>;
}

export interface Question {
  id: string;
  session: string;
  call: string;
  kind: "confirm" | "input" | "client" | "external";
  [more: string]: any;
}

export interface Entry {
  id: string;
  tool: string;
  status: string;
  [more: string]: any;
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
