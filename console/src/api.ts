// Talking to the server: one function for requests, one for streams, and what is known of the connection.

import { signal } from "@preact/signals";
import { lines } from "./stream";
import type { Event, Me } from "./types";

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
/** How often the server came back: what is on the screen is asked for anew then. */
export const returns = signal(0);
/** Whether somebody was signed in and is not any more. */
export const ended = signal(false);

function answered(): void {
  if (link.value === "lost") returns.value++;
  link.value = "open";
}

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
  answered();
  if (reply.ok) return reply.status === 204 ? (undefined as T) : await reply.json();
  throw await problem(reply);
}

async function problem(reply: Response): Promise<Problem> {
  if (reply.status === 401 || reply.headers.get("WWW-Authenticate")?.includes("invalid_token")) {
    if (me.value) ended.value = true;
    me.value = null;
  }
  try {
    const { error } = await reply.json();
    return new Problem(reply.status, error.code, error.message, error.hint);
  } catch {
    return new Problem(reply.status, "internal", `The server answered ${reply.status}`);
  }
}

export const get = <T>(path: string, query: Record<string, unknown> = {}, abort?: AbortSignal) =>
  api<T>("GET", path + asked(query), undefined, abort);
/** All of something as lines of JSON. */
export async function written(path: string, query: Record<string, unknown>): Promise<Blob> {
  const reply = await fetch(base + path + asked(query), { headers: { "X-Toolcrib": "1", Accept: "application/x-ndjson" } });
  if (!reply.ok) throw await problem(reply);
  return reply.blob();
}

export const post = <T>(path: string, body: unknown = {}) => api<T>("POST", path, body);

/** A query; null is a value that is empty, where that means something. */
export function asked(query: Record<string, unknown>): string {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== "" && value !== false);
  return given.length ? `?${new URLSearchParams(given.map(([key, value]) => [key, value === null ? "" : String(value)]))}` : "";
}

export const at = (...parts: (string | number)[]) => `v1/${parts.map((part) => encodeURIComponent(part)).join("/")}`;

/** Asks who is signed in. A server that is away is asked again until it is back. */
export async function meet(): Promise<void> {
  for (let wait = 250; ; wait = Math.min(wait * 2, 4000)) {
    try {
      me.value = await get<Me>("v1/me");
      return;
    } catch (error) {
      if (me.value === null) return;
      if (error instanceof Problem && error.status >= 400 && error.status < 500) throw error;
      await new Promise((done) => setTimeout(done, wait));
    }
  }
}

/** An event with its large values, which a stream tells as references: what came of a call is shown, and a question answered. */
export async function whole<T>(said: T): Promise<T> {
  const { session, seq, large } = said as Event;
  return large === undefined ? said : await get<T>(at("sessions", session, "events", seq));
}

/**
 * Follows a stream of the server; returns how to stop it. A lost connection is opened again past the last event that was
 * heard, and so is one that the server ended; nothing is heard twice. A page that nobody looks at lets go of it unless it
 * is `always` wanted: browsers have few connections for all pages of a server.
 */
export function follow<T = Event>(path: string, heard: (data: T, kind: string) => void, always = false, opened?: () => void): () => void {
  const over = new AbortController();
  let last = "";

  const listen = async (pause: AbortController) => {
    const headers: Record<string, string> = { Accept: "text/event-stream", "X-Toolcrib": "1" };
    if (last) headers["Last-Event-ID"] = last;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const alive = () => {
      clearTimeout(timer);
      timer = setTimeout(() => pause.abort(), SILENCE_MS);
    };
    try {
      alive();
      const reply = await fetch(base + path, { headers, signal: AbortSignal.any([over.signal, pause.signal]) });
      if (!reply.ok || !reply.body) throw await problem(reply);
      answered();
      opened?.();
      for await (const line of lines(reply.body, alive)) {
        if (line.kind !== "end" && line.data) heard(await whole<T>(JSON.parse(line.data)), line.kind);
        if (line.id !== undefined) last = line.id;
      }
    } finally {
      clearTimeout(timer);
    }
  };
  const once = async () => {
    const pause = new AbortController();
    const hide = () => document.hidden && !always && pause.abort();
    document.addEventListener("visibilitychange", hide);
    try {
      await listen(pause);
      return true;
    } catch (error) {
      if (over.signal.aborted || pause.signal.aborted) return true;
      if (error instanceof Problem && error.status === 404) over.abort();
      if (!(error instanceof Problem) || error.status >= 500) link.value = "lost";
      return false;
    } finally {
      document.removeEventListener("visibilitychange", hide);
    }
  };
  const keep = async () => {
    for (let wait = 250; !over.signal.aborted; ) {
      if (document.hidden && !always) await looked();
      wait = (await once()) ? 250 : Math.min(wait * 2, 4000);
      await new Promise((done) => setTimeout(done, wait));
    }
  };
  void keep();
  return () => over.abort();
}

const looked = () => new Promise((done) => document.addEventListener("visibilitychange", done, { once: true }));

/** A stream that says nothing for so long, not even that it is alive, is dead. */
const SILENCE_MS = 45_000;
