// One box for everything: tools, sessions, calls and screens.

import { useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { get } from "../api";
import { go, to } from "../router";
import type { Audited, Entry, Page, SessionLine, ToolsPage } from "../types";
import { Said, State, Time, Trouble } from "./basics";

interface Hit {
  kind: "Screens" | "Tools" | "Sessions" | "Calls";
  address: string;
  name: string;
  text?: string;
  state?: string;
  at?: number;
}

const FEW = 6;
const RECENT = 200;
const PAUSE_MS = 150;

async function tools(q: string, abort: AbortSignal): Promise<Hit[]> {
  const { items } = await get<ToolsPage>("v1/tools", { q, limit: FEW }, abort);
  return items.map((one) => ({ kind: "Tools", address: to("tools", one.id), name: one.id, text: one.description }));
}

async function sessions(q: string, abort: AbortSignal): Promise<Hit[]> {
  const { items } = await get<Page<SessionLine>>("v1/sessions", { q, limit: FEW }, abort);
  return items.map((one) => ({ kind: "Sessions", address: to("sessions", one.id), name: one.id, text: one.owner, at: one.touched }));
}

/** Calls of late by what lists tell of them, and those that ended by all that was said in them. */
async function calls(q: string, abort: AbortSignal): Promise<Hit[]> {
  const [recent, ended] = await Promise.all([
    get<Page<Entry>>("v1/calls", { limit: RECENT }, abort),
    get<Page<Audited>>("v1/audit", { q, limit: FEW }, abort),
  ]);
  const words = q.toLowerCase();
  const listed = recent.items.filter((one) =>
    [one.id, one.tool, one.label, one.session].some((text) => text?.toLowerCase().includes(words)),
  );
  const hits = new Map<string, Hit>();
  for (const one of listed.slice(0, FEW))
    hits.set(one.id, {
      kind: "Calls",
      address: to("live", one.session!, one.id),
      name: one.tool,
      text: `${one.session} · ${one.id}`,
      state: one.status,
      at: one.accepted_at,
    });
  for (const one of ended.items)
    if (!hits.has(one.call))
      hits.set(one.call, {
        kind: "Calls",
        address: to("live", one.session, one.call),
        name: one.tool,
        text: `${one.session} · ${one.call}`,
        state: one.outcome,
        at: one.accepted_at,
      });
  return [...hits.values()].slice(0, FEW);
}

export function Find({ screens, close }: { screens: readonly (readonly [string, string])[]; close: () => void }) {
  const box = useRef<HTMLDialogElement>(null);
  const text = useSignal("");
  const hits = useSignal<Hit[]>([]);
  const chosen = useSignal(0);
  const trouble = useSignal<unknown>(undefined);
  const busy = useSignal(false);
  useLayoutEffect(() => box.current!.showModal(), []); // before the next key is pressed
  useEffect(() => {
    const q = text.value.trim();
    const abort = new AbortController();
    const named = screens
      .filter(([, title]) => q && title.toLowerCase().startsWith(q.toLowerCase()))
      .map(([key, title]): Hit => ({ kind: "Screens", address: to(key), name: title }));
    if (!q) {
      hits.value = [];
      return;
    }
    busy.value = true;
    const timer = setTimeout(() => {
      Promise.all([tools(q, abort.signal), sessions(q, abort.signal), calls(q, abort.signal)]).then(
        (found) => {
          [hits.value, chosen.value, trouble.value, busy.value] = [[...named, ...found.flat()], 0, undefined, false];
        },
        (error) => {
          if (!abort.signal.aborted) [trouble.value, busy.value] = [error, false];
        },
      );
    }, PAUSE_MS);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [text.value]);
  const open = (hit: Hit | undefined) => {
    if (!hit) return;
    box.current?.close();
    go(hit.address);
  };
  const pressed = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step !== undefined) chosen.value = Math.max(0, Math.min(hits.value.length - 1, chosen.value + step));
    else if (event.key === "Enter" && !busy.value) open(hits.value[chosen.value]);
    else return;
    event.preventDefault();
  };
  return (
    <dialog ref={box} class="find" aria-label="Search everything" onClose={close}>
      <input
        type="search"
        role="combobox"
        list={undefined}
        aria-label="Search tools, sessions and calls"
        aria-expanded={hits.value.length > 0}
        aria-controls="hits"
        aria-activedescendant={hits.value.length ? `hit-${chosen.value}` : undefined}
        placeholder="Search tools, sessions and calls"
        autocomplete="off"
        value={text.value}
        onInput={(event) => (text.value = event.currentTarget.value)}
        onKeyDown={pressed}
      />
      <Trouble of={trouble.value} />
      <div id="hits" role="listbox" aria-label="Found">
        {hits.value.map((hit, n) => (
          <div
            key={hit.kind + hit.address}
            id={`hit-${n}`}
            role="option"
            aria-selected={n === chosen.value}
            class="row"
            onClick={() => open(hit)}
            ref={n === chosen.value ? (row) => row?.scrollIntoView({ block: "nearest" }) : undefined}
          >
            <span class="soft small hit-kind">{hit.kind !== hits.value[n - 1]?.kind && hit.kind}</span>
            <span class="grow cut">
              <b>
                <Said of={hit.name} most={100} />
              </b>{" "}
              <span class="soft small">
                <Said of={hit.text} most={120} />
              </span>
            </span>
            {hit.state && <State of={hit.state} />}
            <span class="wide-only">
              <Time at={hit.at} />
            </span>
          </div>
        ))}
      </div>
      <p class="soft small" role="status">
        {!text.value.trim()
          ? "Words of a tool, the id of a session or a call, or what was said in a call."
          : busy.value
            ? "Looking…"
            : hits.value.length
              ? ""
              : "Nothing was found."}
      </p>
    </dialog>
  );
}
