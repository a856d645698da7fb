// Talking to the server: one function for requests, one for streams, and what is known of the connection.

import { signal } from "@preact/signals";
import type { Me } from "./types";

export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly hint?: string,
  ) {
    super(message);
  }
}

export type Link = "open" | "lost";

/** Who is signed in; undefined until it is known, null where nobody is. */
export const me = signal<Me | null | undefined>(undefined);
/** Whether the server answers. */
export const link = signal<Link>("open");

const base = new URL(".", location.href).pathname;

export async function api<T>(method: string, path: string, body?: unknown, abort?: AbortSignal): Promise<T> {
  let reply: Response;
  try {
    reply = await fetch(base + path.replace(/^\//, ""), {
      method,
      signal: abort,
      headers: { "X-Toolcrib": "1", ...(body === undefined ? {} : { "Content-Type": "application/json" }) },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (error) {
    if (abort?.aborted) throw error;
    link.value = "lost";
    throw new Problem(0, "unavailable", "The server does not answer", "It is tried again by itself.");
  }
  link.value = "open";
  if (reply.ok) return reply.status === 204 ? (undefined as T) : await reply.json();
  throw await problem(reply);
}

async function problem(reply: Response): Promise<Problem> {
  if (reply.status === 401) me.value = null;
  try {
    const { error } = await reply.json();
    return new Problem(reply.status, error.code, error.message, error.hint);
  } catch {
    return new Problem(reply.status, "internal", `The server answered ${reply.status}`);
  }
}

export const get = <T>(path: string, query: Record<string, unknown> = {}, abort?: AbortSignal) =>
  api<T>("GET", path + asked(query), undefined, abort);
export const post = <T>(path: string, body: unknown = {}) => api<T>("POST", path, body);

export function asked(query: Record<string, unknown>): string {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== "" && value !== false);
  return given.length ? "?" + new URLSearchParams(given.map(([key, value]) => [key, String(value)])) : "";
}

export const at = (...parts: (string | number)[]) => "v1/" + parts.map((part) => encodeURIComponent(part)).join("/");

/** Asks who is signed in. A server that is away is asked again until it is back. */
export async function meet(): Promise<void> {
  for (let wait = 250; ; wait = Math.min(wait * 2, 4000)) {
    try {
      me.value = await get<Me>("v1/me");
      return;
    } catch (error) {
      if (error instanceof Problem && error.status === 401) {
        me.value = null;
        return;
      }
      await new Promise((done) => setTimeout(done, wait));
    }
  }
}

/**
 * Follows a stream of the server; returns how to stop it. A lost connection is opened again past the last event that was
 * heard, and so is one that the server ended; nothing is heard twice.
 */
export function follow(path: string, heard: (data: any, kind: string) => void): () => void {
  const over = new AbortController();
  let last = "";

  const listen = async () => {
    const headers: Record<string, string> = { Accept: "text/event-stream", "X-Toolcrib": "1" };
    if (last) headers["Last-Event-ID"] = last;
    const reply = await fetch(base + path, { headers, signal: over.signal });
    if (!reply.ok || !reply.body) throw await problem(reply);
    link.value = "open";
    for await (const line of lines(reply.body)) {
      if (line.id !== undefined) last = line.id;
      if (line.kind !== "end" && line.data) heard(JSON.parse(line.data), line.kind);
    }
  };
  const keep = async () => {
    for (let wait = 500; !over.signal.aborted; wait = Math.min(wait * 2, 5000)) {
      const begun = Date.now();
      try {
        await listen();
        wait = 250;
      } catch (error) {
        if (over.signal.aborted) return;
        if (error instanceof Problem && error.status === 404) return;
        if (!(error instanceof Problem) || error.status >= 500) link.value = "lost";
        if (Date.now() - begun > 10_000) wait = 500;
      }
      await new Promise((done) => setTimeout(done, wait));
    }
  };
  void keep();
  return () => over.abort();
}

interface Line {
  id?: string;
  kind: string;
  data: string;
}

async function* lines(body: ReadableStream<Uint8Array>): AsyncGenerator<Line> {
  const reader = body.pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>).getReader();
  let rest = "";
  let line: Line = { kind: "message", data: "" };
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const pieces = (rest + value).split(/\r?\n/);
    rest = pieces.pop() ?? "";
    for (const piece of pieces) {
      if (piece === "") {
        yield line;
        line = { kind: "message", data: "" };
      } else if (piece.startsWith("id:")) line.id = piece.slice(3).trim();
      else if (piece.startsWith("event:")) line.kind = piece.slice(6).trim();
      else if (piece.startsWith("data:")) line.data += piece.slice(5).trimStart();
    }
  }
}
