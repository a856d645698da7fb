// Small pieces that every screen is made of.

import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { Problem } from "../api";

const TONES: Record<string, string> = {
  succeeded: "good", done: "good", ok: "good", healthy: "good", running: "busy", streaming: "busy", queued: "soft", waiting: "warn",
  failed: "bad", timed_out: "bad", denied: "bad", unhealthy: "bad", cancelled: "soft", unknown: "odd",
};

export const State = ({ of }: { of: string }) => (
  <span class={`state ${TONES[of] ?? "soft"}`}>{of.replace("_", " ")}</span>
);

export function Time({ at }: { at: number | undefined }) {
  if (!at) return null;
  const when = new Date(at * 1000);
  const today = when.toDateString() === new Date().toDateString();
  return (
    <time dateTime={when.toISOString()} title={when.toLocaleString()} class="soft small">
      {today ? when.toLocaleTimeString() : when.toLocaleString()}
    </time>
  );
}

export function length(seconds: number | undefined): string {
  if (seconds === undefined) return "";
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  return seconds < 90 ? `${seconds.toFixed(1)} s` : `${Math.round(seconds / 60)} min`;
}

const MOST_SHOWN = 20_000;

/** A value as text, never as markup; a huge one is cut, and said to be. */
export function Value({ of, label }: { of: unknown; label?: string }) {
  const whole = useSignal(false);
  const text = typeof of === "string" ? of : JSON.stringify(of, null, 2) ?? "";
  const cut = text.length > MOST_SHOWN && !whole.value;
  return (
    <div class="json" tabIndex={0} role="region" aria-label={label ?? "value"}>
      <pre dir="auto">{cut ? text.slice(0, MOST_SHOWN) : text}</pre>
      {cut && <button onClick={() => (whole.value = true)}>Show all {text.length.toLocaleString()} characters</button>}
    </div>
  );
}

export function Trouble({ of }: { of: unknown }) {
  if (!of) return null;
  const problem = of instanceof Problem ? of : undefined;
  return (
    <p class="trouble" role="alert">
      {problem ? problem.message : String(of)}
      {problem?.hint && <span class="soft">{problem.hint}</span>}
    </p>
  );
}

export const Nothing = ({ children }: { children: ComponentChildren }) => <p class="nothing">{children}</p>;

/** What an asynchronous function gave, anew whenever `keys` change; the last answer stays while the next is awaited. */
export function useAsked<T>(ask: (abort: AbortSignal) => Promise<T>, keys: unknown[]) {
  const found = useSignal<{ value?: T; trouble?: unknown; busy: boolean }>({ busy: true });
  const turn = useSignal(0);
  useEffect(() => {
    const abort = new AbortController();
    found.value = { ...found.value, busy: true };
    ask(abort.signal).then(
      (value) => !abort.signal.aborted && (found.value = { value, busy: false }),
      (trouble) => !abort.signal.aborted && (found.value = { value: found.value.value, trouble, busy: false }),
    );
    return () => abort.abort();
  }, [...keys, turn.value]);
  return { ...found.value, again: () => turn.value++ };
}

/** A button for work that takes a while: it can not be pressed twice, and says what went wrong. */
export function Do({ work, children, class: look }: { work: () => Promise<unknown>; children: ComponentChildren; class?: string }) {
  const busy = useSignal(false);
  const trouble = useSignal<unknown>(undefined);
  const press = async () => {
    busy.value = true;
    trouble.value = undefined;
    try {
      await work();
    } catch (error) {
      trouble.value = error;
    } finally {
      busy.value = false;
    }
  };
  return (
    <>
      <button class={look} disabled={busy.value} onClick={press}>{children}</button>
      <Trouble of={trouble.value} />
    </>
  );
}

/** Calls back once the person stopped typing. */
export function useLater(wait = 200) {
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => () => clearTimeout(timer.current), []);
  return (work: () => void) => {
    clearTimeout(timer.current);
    timer.current = setTimeout(work, wait);
  };
}
