// The frame: where one can go, who one is, and whether the server is there.

import { useSignal } from "@preact/signals";
import type { ComponentType } from "preact";
import { lazy, Suspense } from "preact/compat";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { api, link, me, meet, returns } from "./api";
import { bare, Choice, Trouble } from "./parts/basics";
import { Find } from "./parts/search";
import { attend, counted, questions, refresh } from "./questions";
import { go, route, to } from "./router";
import { Inbox } from "./screens/inbox";
import { Live } from "./screens/live";
import { Overview } from "./screens/overview";
import { SignIn } from "./screens/signin";
import { Tools } from "./screens/tools";
import { theme } from "./theme";

// What most people look at first comes with the page, the rest when it is wanted or when there is time.
const later = {
  sessions: () => import("./screens/sessions").then((made) => ({ default: made.Sessions })),
  agents: () => import("./screens/agents").then((made) => ({ default: made.Agents })),
  sources: () => import("./screens/sources").then((made) => ({ default: made.Sources })),
  accounts: () => import("./screens/accounts").then((made) => ({ default: made.Accounts })),
  cluster: () => import("./screens/cluster").then((made) => ({ default: made.Cluster })),
  audit: () => import("./screens/audit").then((made) => ({ default: made.Audit })),
  policy: () => import("./screens/policy").then((made) => ({ default: made.Policy })),
};
const IDLE_MS = 3_000;
const AGAIN_MS = 1_000;

/** A screen that is loaded when it is wanted, and tried again while the server is away. */
function whenWanted(load: () => Promise<{ default: ComponentType }>): ComponentType {
  const keep = (): ReturnType<typeof load> => load().catch(() => new Promise((resolve) => setTimeout(() => resolve(keep()), AGAIN_MS)));
  return lazy(keep);
}

const SCREENS: [string, string, ComponentType][] = [
  ["overview", "Overview", Overview],
  ["tools", "Tools", Tools],
  ["live", "Live", Live],
  ["inbox", "Inbox", Inbox],
  ["sessions", "Sessions", whenWanted(later.sessions)],
  ["agents", "Agents", whenWanted(later.agents)],
  ["sources", "Sources", whenWanted(later.sources)],
  ["accounts", "Accounts", whenWanted(later.accounts)],
  ["cluster", "Cluster", whenWanted(later.cluster)],
  ["audit", "Audit", whenWanted(later.audit)],
  ["policy", "Policy", whenWanted(later.policy)],
];

const NAMES = SCREENS.map(([key, title]) => [key, title] as const);
const COLOURS = [["", "as the system"], "light", "dark"] as const;

export function App() {
  const refused = useSignal<unknown>(undefined);
  useEffect(() => void meet().catch((error) => (refused.value = error)), []);
  if (refused.value)
    return (
      <main class="screen signin">
        <Trouble of={refused.value} />
      </main>
    );
  if (me.value === undefined) return link.value === "lost" ? <p class="nothing">The server does not answer; it is tried again…</p> : null;
  if (me.value === null) return <SignIn />;
  return <Frame />;
}

function Frame() {
  const keys = useRef<HTMLDialogElement>(null);
  const finding = useSignal(false);
  const waiting = questions.value?.length ?? 0;
  useEffect(() => void refresh(), [returns.value]);
  useEffect(attend, []);
  useEffect(() => {
    const timer = setTimeout(() => Object.values(later).forEach((load) => void load().catch(() => {})), IDLE_MS);
    return () => clearTimeout(timer);
  }, []);
  useEffect(() => {
    document.title = waiting ? `(${counted.value}) Toolcrib` : "Toolcrib";
  }, [waiting, counted.value]);
  // Keys count from the moment that something can be seen.
  useLayoutEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      if (event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey) && !event.altKey && !document.querySelector("dialog[open]")) {
        event.preventDefault();
        finding.value = true;
        return;
      }
      if (!bare(event)) return;
      const screen = SCREENS[Number(event.key) - 1];
      if (event.key === "/") document.querySelector<HTMLElement>("[data-search]")?.focus();
      else if (event.key === "?") keys.current?.showModal();
      else if (event.key === "Escape") document.querySelector<HTMLElement>(".back")?.click();
      else if (screen) go(to(screen[0]));
      else return;
      event.preventDefault();
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
  const [name = "overview"] = route.value.parts;
  const [, title, Screen] = SCREENS.find(([key]) => key === name) ?? SCREENS[0]!;
  return (
    <div class="frame">
      <button class="skip" onClick={() => document.querySelector("main")?.focus()}>
        Skip to the content
      </button>
      <header class="rail">
        <a class="name" href={to("overview")}>
          <img src="./icon.svg" width="24" height="24" alt="" />
          Toolcrib
        </a>
        <nav aria-label="Screens">
          {SCREENS.map(([key, text]) => (
            <a key={key} href={to(key)} aria-current={key === name ? "page" : undefined}>
              {text}
              {key === "inbox" && waiting > 0 && (
                <span class="count">
                  {counted.value}
                  <span class="hidden-text"> open</span>
                </span>
              )}
            </a>
          ))}
        </nav>
        <div class="foot">
          <button class="bare find-button" onClick={() => (finding.value = true)}>
            Search<span class="wide-only"> (Ctrl K)</span>
          </button>
          <span>
            {me.value!.name}
            {me.value!.admin && me.value!.auth !== "off" ? " (admin)" : ""}
          </span>
          <Choice label="Colours" value={theme.value} choices={COLOURS} changed={(value) => (theme.value = value)} />
          {me.value!.auth !== "off" && (
            <button onClick={() => api("POST", "v1/signout", {}).finally(() => (me.value = null))}>Sign out</button>
          )}
          <button class="bare" onClick={() => keys.current?.showModal()}>
            Shortcuts (?)
          </button>
          <span class="version">Toolcrib {me.value!.version}</span>
        </div>
      </header>
      <div class="main-area">
        {link.value === "lost" && (
          <div class="lost" role="status">
            The connection is lost. It is tried again by itself.
          </div>
        )}
        {me.value!.auth === "off" && (
          <aside class="notice" aria-label="Sign-in">
            No sign-in: whoever is let in may do everything.
          </aside>
        )}
        <main class="screen" aria-label={title} tabIndex={-1}>
          <Suspense fallback={null}>
            <Screen />
          </Suspense>
        </main>
      </div>
      {finding.value && <Find screens={NAMES} close={() => (finding.value = false)} />}
      <dialog ref={keys} aria-label="Keys">
        <h2>Keys</h2>
        <dl>
          {KEYS.map(([key, what]) => (
            <>
              <dt>
                <kbd>{key}</kbd>
              </dt>
              <dd>{what}</dd>
            </>
          ))}
        </dl>
        <form method="dialog">
          <button class="main">Close</button>
        </form>
      </dialog>
    </div>
  );
}

const KEYS = [
  ["1 … 9", "go to a screen, from the top"],
  ["Ctrl K", "search tools, sessions and calls"],
  ["/", "search this screen"],
  ["↑ ↓", "go through a list that has the focus"],
  ["Enter", "open the chosen line"],
  ["Esc", "back to the whole list"],
  ["j k", "next and previous question in the inbox"],
  ["a d", "approve or decline it"],
  ["?", "this list"],
] as const;
