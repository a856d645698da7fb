// Questions that wait for a person. j and k go through them; a approves, d declines.

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { at, follow, get, post } from "../api";
import { Nothing, State, Time, Trouble } from "../parts/basics";
import { Answering } from "../parts/question";
import { Rows } from "../parts/rows";
import { go, route, to } from "../router";
import type { Entry, Page, Question } from "../types";

export function Inbox() {
  const items = useSignal<Question[]>([]);
  const unknown = useSignal<Entry[]>([]);
  const trouble = useSignal<unknown>(undefined);
  const loaded = useSignal(false);
  const done = useSignal("");
  const load = async () => {
    try {
      items.value = (await get<Page<Question>>("v1/questions")).items;
      unknown.value = await get<Page<Entry>>("v1/calls", { state: "unknown", limit: 50 }).then((page) => page.items, () => []);
      trouble.value = undefined;
    } catch (error) {
      trouble.value = error;
    }
    loaded.value = true;
  };
  useEffect(() => {
    void load();
    return follow("v1/questions/events", () => void load());
  }, []);
  const chosen = route.value.parts[1];
  const found = items.value.findIndex((one) => one.id === chosen);
  const question = items.value[found];
  const answer = (action: string) => question && post(at("sessions", question.session, "answers"), { question: question.id, action })
    .then(() => { done.value = `${question.tool}: ${action}`; return load(); }, (error) => (trouble.value = error));

  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey || (event.target as HTMLElement).closest("input, textarea, select")) return;
      const step = { j: 1, k: -1 }[event.key];
      if (step !== undefined && items.value.length) go(to("inbox", items.value[Math.max(0, Math.min(items.value.length - 1, found + step))]!.id));
      else if (event.key === "a" && question?.kind === "confirm") void answer("accept");
      else if (event.key === "d" && question) void answer("decline");
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  });
  return (
    <>
      <div class="head">
        <h1>Inbox</h1><span class="soft">{items.value.length} open</span><span class="grow" />
        <span class="soft small">j, k next and previous · a approve · d decline</span>
      </div>
      <Trouble of={trouble.value} />
      <p class="hidden-text" role="status">{done.value}</p>
      <div class={`split ${question ? "chosen" : ""}`}>
        {loaded.value && items.value.length === 0 ? <Nothing>Nobody waits for an answer.</Nothing> : (
          <Rows count={items.value.length} height={56} label="Open questions" chosen={found} choose={(n) => go(to("inbox", items.value[n]!.id))}
            row={(n) => { const one = items.value[n]!; return (
              <a class="row" href={to("inbox", one.id)} aria-selected={one.id === chosen}>
                <span class="grow">
                  <span class="cut" style={{ display: "block" }} dir="auto"><b>{one.prompt}</b></span>
                  <span class="cut soft small" style={{ display: "block" }}>{one.tool} · {one.session}{one.owner ? ` · ${one.owner}` : ""} · <Time at={one.asked_at} /></span>
                </span>
                <span class="tag">{one.kind}</span>
              </a>
            ); }} />
        )}
        <div>
          {question ? <section class="sheet" aria-label="Question"><Answering key={question.id} question={question} answered={load} /></section>
            : <Nothing>Choose a question.</Nothing>}
          {unknown.value.length > 0 && (
            <section class="sheet" aria-label="Nobody knows">
              <h2>Calls that may have run</h2>
              {unknown.value.map((one) => (
                <p key={one.id}><a href={to("sessions", one.session)}>{one.tool}</a> <State of="unknown" /> <Time at={one.accepted_at} /></p>
              ))}
            </section>
          )}
        </div>
      </div>
    </>
  );
}
