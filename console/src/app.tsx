// The frame: where one can go, who one is, and whether the server is there.

import { signal } from "@preact/signals";
import type { ComponentType } from "preact";
import { useEffect } from "preact/hooks";
import { api, follow, get, link, me, meet } from "./api";
import { route, to } from "./router";
import { Agents } from "./screens/agents";
import { Audit } from "./screens/audit";
import { Cluster } from "./screens/cluster";
import { Inbox } from "./screens/inbox";
import { Live } from "./screens/live";
import { Sessions } from "./screens/sessions";
import { SignIn } from "./screens/signin";
import { Tools } from "./screens/tools";

const SCREENS: [string, string, ComponentType][] = [
  ["tools", "Tools", Tools],
  ["live", "Live", Live],
  ["inbox", "Inbox", Inbox],
  ["sessions", "Sessions", Sessions],
  ["agents", "Agents", Agents],
  ["cluster", "Cluster", Cluster],
  ["audit", "Audit", Audit],
];

/** How many questions wait for somebody. */
export const waiting = signal(0);

const theme = signal(localStorage.getItem("theme") ?? "");

export function App() {
  useEffect(() => void meet(), []);
  if (me.value === undefined) return link.value === "lost" ? <p class="nothing">The server does not answer; it is tried again…</p> : null;
  if (me.value === null) return <SignIn />;
  return <Frame />;
}

function Frame() {
  useEffect(() => {
    const count = () => void get<{ items: unknown[] }>("v1/questions").then((page) => (waiting.value = page.items.length), () => {});
    count();
    return follow("v1/questions/events", count);
  }, []);
  useEffect(() => {
    document.documentElement.dataset.theme = theme.value;
    localStorage.setItem("theme", theme.value);
  }, [theme.value]);
  useEffect(() => {
    document.title = waiting.value ? `(${waiting.value}) Toolcrib` : "Toolcrib";
  }, [waiting.value]);
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      if (event.key !== "/" || (event.target as HTMLElement).closest("input, textarea, select")) return;
      event.preventDefault();
      document.querySelector<HTMLElement>("[data-search]")?.focus();
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
  const [name = "tools"] = route.value.parts;
  const [, title, Screen] = SCREENS.find(([key]) => key === name) ?? SCREENS[0]!;
  return (
    <div class="frame">
      <header class="rail">
        <a class="name" href={to("tools")}><img src="./icon.svg" width="24" height="24" alt="" />Toolcrib</a>
        <nav aria-label="Screens">
          {SCREENS.map(([key, text]) => (
            <a key={key} href={to(key)} aria-current={key === name ? "page" : undefined}>
              {text}
              {key === "inbox" && waiting.value > 0 && <span class="count" aria-label={`${waiting.value} open`}>{waiting.value}</span>}
            </a>
          ))}
        </nav>
        <div class="foot">
          <span>{me.value!.name}{me.value!.admin && me.value!.auth !== "off" ? " (admin)" : ""}</span>
          <label>
            <span class="hidden-text">Colours</span>
            <select value={theme.value} onChange={(event) => (theme.value = event.currentTarget.value)}>
              <option value="">as the system</option>
              <option value="light">light</option>
              <option value="dark">dark</option>
            </select>
          </label>
          {me.value!.auth !== "off" && <button onClick={() => api("POST", "v1/signout", {}).finally(() => (me.value = null))}>Sign out</button>}
          <span>Toolcrib {me.value!.version}</span>
        </div>
      </header>
      <div class="main-area">
        {link.value === "lost" && <div class="lost" role="status">The connection is lost. It is tried again by itself.</div>}
        {me.value!.auth === "off" && <div class="notice">No sign-in: everybody on this machine may do everything here.</div>}
        <main class="screen" aria-label={title}><Screen /></main>
      </div>
    </div>
  );
}
