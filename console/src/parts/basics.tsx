// Small pieces that every screen is made of.

import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { get, link, Problem, returns } from "../api";
import { narrow, route } from "../router";
import type { Page } from "../types";

const TONES: Record<string, string> = {
  succeeded: "good",
  done: "good",
  ok: "good",
  healthy: "good",
  running: "busy",
  streaming: "busy",
  queued: "soft",
  waiting: "warn",
  degraded: "warn",
  failed: "bad",
  timed_out: "bad",
  timeout: "bad",
  denied: "bad",
  declined: "bad",
  not_found: "bad",
  invalid_arguments: "bad",
  unavailable: "bad",
  rate_limited: "bad",
  too_large: "bad",
  internal: "bad",
  unhealthy: "bad",
  dead: "bad",
  alive: "good",
  connected: "good",
  expired: "bad",
  cancelled: "soft",
  unknown: "odd",
};

export const tone = (state: string) => TONES[state] ?? "soft";

export const State = ({ of }: { of: string }) => <span class={`state ${tone(of)}`}>{of.replaceAll("_", " ")}</span>;

// Marks that turn text around, and controls: what they hide must be seen before somebody says yes to it.
const UNSEEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u115f\u1160\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\uffa0\ufeff\ufff9-\ufffb]/g;

/** Text with what cannot be seen in it written out. */
export const plain = (text: string) => text.replace(UNSEEN, (mark) => `\\u${mark.charCodeAt(0).toString(16).padStart(4, "0")}`);

const MOST_SAID = 2_000;

/** Words of somebody else: text and never markup, kept to itself, and cut where they do not end. */
export function Said({ of, most = MOST_SAID }: { of: unknown; most?: number }) {
  const text = typeof of === "string" ? of : of === undefined || of === null ? "" : JSON.stringify(of);
  return <bdi>{plain(text.length > most ? `${text.slice(0, most)}…` : text)}</bdi>;
}

export function Time({ at }: { at: number | undefined }) {
  if (!at) return null;
  const when = new Date(at * 1000);
  return (
    <time dateTime={when.toISOString()} title={when.toLocaleString()} class="soft small">
      {moment(when)}
    </time>
  );
}

const CLOCK: Intl.DateTimeFormatOptions = { hour: "2-digit", minute: "2-digit", second: "2-digit" };

/** A time with its date, and with the year where it is another one. */
function moment(when: Date): string {
  const year = when.getFullYear() === new Date().getFullYear() ? undefined : "numeric";
  return when.toLocaleString([], { year, month: "short", day: "numeric", ...CLOCK });
}

export function length(seconds: number | undefined): string {
  if (seconds === undefined) return "";
  if (seconds < 1) return `${(seconds * 1000).toLocaleString(undefined, { maximumSignificantDigits: 2 })} ms`;
  if (seconds < 90) return `${seconds.toFixed(1)} s`;
  if (seconds < 5_400) return `${Math.round(seconds / 60)} min`;
  return seconds < 129_600 ? `${Math.round(seconds / 3_600)} h` : `${Math.round(seconds / 86_400)} days`;
}

const MOST_SHOWN = 20_000;

/** A value as text, never as markup; a huge one is cut, and said to be. The first of the texts to `mark` that stands in it is marked. */
export function Value({ of, label, mark = [] }: { of: unknown; label?: string; mark?: string[] }) {
  const whole = useSignal(false);
  const box = useRef<HTMLDivElement>(null);
  const text = useMemo(() => (typeof of === "string" ? of : (JSON.stringify(of, null, 2) ?? "")), [of]);
  const marks = typeof of === "string" ? mark : mark.map((one) => JSON.stringify(one).slice(1, -1));
  const place = found(text, marks);
  const cut = text.length > MOST_SHOWN && !whole.value && !(place && place[1] > MOST_SHOWN);
  useEffect(() => box.current?.querySelector("mark")?.scrollIntoView({ block: "center" }), [place?.[0]]);
  return (
    <div class="json" ref={box} tabIndex={0} role="region" aria-label={label ?? "value"}>
      <pre dir="auto" class={whole.value ? "huge" : undefined}>
        <Marked text={cut ? text.slice(0, MOST_SHOWN) : text} place={place} />
      </pre>
      {cut && <button onClick={() => (whole.value = true)}>Show all {text.length.toLocaleString()} characters</button>}
    </div>
  );
}

/** Where the first of some texts begins and ends, however it is spelled in capitals. */
export function found(text: string, marks: string[]): [number, number] | undefined {
  for (const one of marks) {
    const from = one ? text.toLowerCase().indexOf(one.toLowerCase()) : -1;
    if (from >= 0) return [from, from + one.length];
  }
  return undefined;
}

export const Marked = ({ text, place }: { text: string; place: [number, number] | undefined }) =>
  place ? (
    <>
      {plain(text.slice(0, place[0]))}
      <mark>{plain(text.slice(...place))}</mark>
      {plain(text.slice(place[1]))}
    </>
  ) : (
    plain(text)
  );

export function Trouble({ of }: { of: unknown }) {
  const problem = of instanceof Problem ? of : undefined;
  // That the connection is lost is said once, above.
  if (!of || (problem?.status === 0 && link.value === "lost")) return null;
  return (
    <p class="trouble" role="alert">
      <Said of={problem ? problem.message : String(of)} />
      {problem?.hint && (
        <span class="soft">
          <Said of={problem.hint} />
        </span>
      )}
    </p>
  );
}

export const Nothing = ({ children }: { children: ComponentChildren }) => <p class="nothing">{children}</p>;

const SETTLED_MS = 300;

/** A part of the address that changes fast: it is written once the person pauses, since browsers allow few changes a second. */
export function useAddressed(name: string) {
  const text = route.value.query.get(name) ?? "";
  const value = useSignal(text);
  const written = useRef(text);
  useEffect(() => {
    if (text === written.current) return;
    written.current = text;
    value.value = text;
  }, [text]);
  useEffect(() => {
    const timer = setTimeout(() => {
      if (value.value === written.current) return;
      written.current = value.value;
      narrow(name)(value.value);
    }, SETTLED_MS);
    return () => clearTimeout(timer);
  }, [value.value]);
  return value;
}

/** What an asynchronous function gave, anew whenever `keys` change; the last answer stays while the next is awaited. */
export function useAsked<T>(ask: (abort: AbortSignal) => Promise<T>, keys: unknown[]) {
  const found = useSignal<{ value?: T; trouble?: unknown; busy: boolean }>({ busy: true });
  const turn = useSignal(0);
  useEffect(() => {
    const abort = new AbortController();
    found.value = { ...found.value, busy: true };
    ask(abort.signal).then(
      (value) => {
        if (!abort.signal.aborted) found.value = { value, busy: false };
      },
      (trouble) => {
        if (!abort.signal.aborted) found.value = { value: found.value.value, trouble, busy: false };
      },
    );
    return () => abort.abort();
  }, [...keys, turn.value, returns.value]);
  return { ...found.value, again: () => turn.value++ };
}

// The first page is there at once; who scrolls on wants many.
const FEW = 200;
const MORE = 1000;
const LOOKS = 50;

/** A list that comes in pages: the next is asked for when the end comes near, all anew when what is asked for changes. */
export function usePages<T, P extends Page<T> = Page<T>>(path: string, query: Record<string, unknown>) {
  const first = useSignal<P | undefined>(undefined);
  const last = useSignal<P | undefined>(undefined);
  const items = useSignal<T[]>([]);
  const next = useSignal<string | undefined>(undefined);
  const trouble = useSignal<unknown>(undefined);
  const busy = useSignal(true);
  const abort = useRef<AbortController>(undefined);
  const asked = JSON.stringify(query);

  const load = async (after?: string) => {
    if (after && busy.value) return;
    abort.current?.abort();
    abort.current = new AbortController();
    const { signal } = abort.current;
    const had = after ? items.value.length : 0;
    busy.value = true;
    try {
      // A server that has much to look through gives short pages, or empty ones: it is asked on until there is something.
      for (let looks = 0; looks === 0 || (after && looks < LOOKS && items.value.length < had + FEW); looks++) {
        const page: P = await get<P>(path, { ...query, after, limit: had ? MORE : FEW }, signal);
        if (signal.aborted) return;
        items.value = after ? [...items.value, ...page.items] : page.items;
        if (!after) first.value = page;
        last.value = page;
        after = next.value = page.next ?? undefined;
      }
      trouble.value = undefined;
    } catch (error) {
      if (signal.aborted) return;
      trouble.value = error;
    }
    busy.value = false;
  };
  useEffect(() => void load(), [path, asked, returns.value]);
  useEffect(() => () => abort.current?.abort(), []);
  return {
    items: items.value,
    first: first.value,
    last: last.value,
    onward: !!next.value,
    trouble: trouble.value,
    busy: busy.value,
    more: () => {
      if (next.value) void load(next.value);
    },
    again: () => void load(),
  };
}

interface Work {
  work: () => Promise<unknown>;
  children: ComponentChildren;
  class?: string;
  disabled?: boolean;
}

/** A button for work that takes a while: it cannot be pressed twice, and says what went wrong. */
export function Do({ work, children, class: look, disabled }: Work) {
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
      <button type="button" class={look} disabled={busy.value || disabled} onClick={press}>
        {children}
      </button>
      <Trouble of={trouble.value} />
    </>
  );
}

interface Confirmed extends Work {
  title: string;
  /** What follows from it. */
  text: ComponentChildren;
}

/** A button for work that somebody may regret: it says what follows, and asks once more. */
export function Confirm({ title, text, work, children, class: look }: Confirmed) {
  const dialog = useRef<HTMLDialogElement>(null);
  return (
    <>
      <button type="button" class={look} onClick={() => dialog.current?.showModal()}>
        {children}
      </button>
      <dialog ref={dialog} aria-label={title}>
        <h2>{title}</h2>
        <p>{text}</p>
        <div class="actions">
          <Do
            class={look}
            work={async () => {
              await work();
              dialog.current?.close();
            }}
          >
            {children}
          </Do>
          <button type="button" onClick={() => dialog.current?.close()}>
            Leave it
          </button>
        </div>
      </dialog>
    </>
  );
}

/** What an asynchronous function gives, asked for again and again while somebody looks; a slow server less often. */
export function useLooked<T>(ask: () => Promise<T>, everyMs: number, keys: unknown[] = []) {
  const found = useSignal<{ value?: T; trouble?: unknown }>({});
  const again = useRef(() => {});
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout>;
    let turn = 0;
    let over = false;
    const look = async () => {
      if (over) return;
      const begun = performance.now();
      const mine = ++turn;
      clearTimeout(timer);
      if (!document.hidden || found.value.value === undefined) {
        const looked = await ask().then(
          (value) => ({ value }),
          (trouble) => ({ value: found.value.value, trouble }),
        );
        if (over || mine !== turn) return; // somebody asked anew meanwhile
        found.value = looked;
      }
      timer = setTimeout(look, Math.max(everyMs, 10 * (performance.now() - begun)));
    };
    again.current = () => void look();
    void look();
    return () => {
      over = true;
      clearTimeout(timer);
    };
  }, [...keys, returns.value]);
  return { ...found.value, again: () => again.current() };
}

/** A field whose value counts once the person stopped typing. */
export function Search({
  label,
  value = "",
  changed,
  first,
}: {
  label: string;
  value?: string;
  changed: (text: string) => void;
  first?: boolean;
}) {
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => {
    // What the person types meanwhile is not taken away.
    if (field.current && document.activeElement !== field.current) field.current.value = value;
  }, [value]);
  useEffect(() => () => clearTimeout(timer.current), []);
  const typed = (text: string) => {
    clearTimeout(timer.current);
    timer.current = setTimeout(() => changed(text.trim()), 200);
  };
  return (
    <input
      ref={field}
      type="search"
      aria-label={label}
      placeholder={first ? `${label} (press /)` : label}
      data-search={first ? "" : undefined}
      onInput={(event) => typed(event.currentTarget.value)}
    />
  );
}

interface Choices {
  label: string;
  value: string;
  choices: readonly (string | readonly [string, string])[];
  changed: (value: string) => void;
}

/** One of a few: each a value, or a value and what is shown for it. */
export const Choice = ({ label, value, choices, changed }: Choices) => (
  <select aria-label={label} value={value} onChange={(event) => changed(event.currentTarget.value)}>
    {choices
      .map((one) => (typeof one === "string" ? ([one, one] as const) : one))
      .map(([key, text]) => (
        <option key={key} value={key}>
          {text}
        </option>
      ))}
  </select>
);

/** Whether a key was pressed for itself, and not into a field or together with others. */
export const bare = (event: KeyboardEvent) =>
  !event.ctrlKey &&
  !event.metaKey &&
  !event.altKey &&
  !event.defaultPrevented &&
  !(event.target as HTMLElement).closest("input:not([type=range]), textarea, select, dialog");
