// A request to a model as the model saw it: what is new stands open, what the request before had too is folded up.

import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { at, get } from "../api";
import type { PromptForm, PromptMessageForm, PromptToolForm } from "../forms";
import { plain, Said, Trouble, useAsked, Value } from "./basics";

/** All of a prompt, however many pieces it comes in. */
async function whole(session: string, seq: number, abort: AbortSignal): Promise<PromptForm> {
  const prompt = await get<PromptForm>(at("sessions", session, "prompts", seq), {}, abort);
  for (let next = prompt.next; next !== undefined && next !== null; ) {
    const more = await get<PromptForm>(at("sessions", session, "prompts", seq), { first: next }, abort);
    prompt.messages.push(...more.messages);
    next = more.next;
  }
  return prompt;
}

/** `key` changes when the reply is there. */
export function Prompt({ session, seq, over }: { session: string; seq: number; over: boolean }) {
  const asked = useAsked((abort) => whole(session, seq, abort), [session, seq, over]);
  const prompt = asked.value;
  if (!prompt) return <Trouble of={asked.trouble} />;
  const same = prompt.same ?? 0;
  return (
    <section class="sheet prompt-view" aria-label="What the model saw">
      <div class="head">
        <h2>What the model saw</h2>
        <span class="grow" />
        {prompt.exact && (
          <span class="tag" title="The digest in the log is that of this very request">
            exactly as sent
          </span>
        )}
      </div>
      {prompt.notes.map((note) => (
        <p key={note} class="small soft">
          {note}
        </p>
      ))}
      <Changes of={prompt} />
      <Instructions of={prompt} />
      {prompt.tools && <Tools of={prompt.tools} before={prompt.tools_before ?? undefined} />}
      {same > 0 && (
        <Folded title={`${same} ${same === 1 ? "message" : "messages"} as in the request before`}>
          {prompt.messages.slice(0, same).map((one, n) => (
            <Message key={n} of={one} />
          ))}
        </Folded>
      )}
      {prompt.messages.slice(same).map((one, n) => (
        <Message key={same + n} of={one} fresh={prompt.previous !== undefined} />
      ))}
    </section>
  );
}

/** One line that says what is new. */
function Changes({ of }: { of: PromptForm }) {
  if (of.previous === undefined)
    return (
      <p class="small soft">
        The first request of {plain(of.agent)} in this conversation: {of.total.toLocaleString()} {of.total === 1 ? "message" : "messages"}.
      </p>
    );
  const fresh = of.total - (of.same ?? 0);
  const parts = [`${fresh} new ${fresh === 1 ? "message" : "messages"}`];
  if (of.dropped) parts.push(`${of.dropped} of before left out`);
  if (of.instructions_before !== undefined) parts.push("other instructions");
  if (of.tools_before !== undefined) parts.push("other tools");
  return <p class="small soft">Since the request before: {parts.join(", ")}.</p>;
}

function Instructions({ of }: { of: PromptForm }) {
  if (of.instructions === null || of.instructions === undefined) return null;
  const changed = of.instructions_before !== undefined && of.instructions_before !== null;
  if (!of.instructions && !changed) return <p class="small soft">No instructions.</p>;
  return (
    <Folded title="instructions" open={of.previous === undefined || changed} note={changed ? "changed" : undefined}>
      {changed ? <Lines before={of.instructions_before!} after={of.instructions} /> : <Value of={of.instructions} label="instructions" />}
    </Folded>
  );
}

/** Which lines came and went. */
function Lines({ before, after }: { before: string; after: string }) {
  const [old, now] = [before.split("\n"), after.split("\n")];
  const [had, has] = [new Set(old), new Set(now)];
  return (
    <div class="json" tabIndex={0} role="region" aria-label="instructions">
      <pre dir="auto">
        {old
          .filter((line) => !has.has(line))
          .map((line, n) => (
            <del key={`-${n}`} class="removed">
              {plain(line) || " "}
            </del>
          ))}
        {now.map((line, n) =>
          had.has(line) ? (
            <span key={n} class="same">
              {plain(line) || " "}
            </span>
          ) : (
            <ins key={n} class="added">
              {plain(line) || " "}
            </ins>
          ),
        )}
      </pre>
    </div>
  );
}

function Tools({ of, before }: { of: PromptToolForm[]; before: string[] | undefined }) {
  const names = new Set(of.map((tool) => tool.name));
  const gone = before?.filter((name) => !names.has(name)) ?? [];
  const fresh = before ? of.filter((tool) => !before.includes(tool.name)).map((tool) => tool.name) : [];
  if (!of.length) return <p class="small soft">No tools.</p>;
  return (
    <Folded
      title={`${of.length} ${of.length === 1 ? "tool" : "tools"}`}
      note={[...fresh.map((name) => `+ ${name}`), ...gone.map((name) => `- ${name}`)].join(", ") || undefined}
    >
      {of.map((tool) => (
        <Folded key={tool.name} title={tool.name}>
          <p class="small words">
            <Said of={tool.description} />
          </p>
          <Value of={tool.schema} label={`arguments of ${tool.name}`} />
        </Folded>
      ))}
    </Folded>
  );
}

/** Made when it is first opened: a long conversation is not drawn for nothing. */
function Folded({ title, note, open = false, children }: { title: string; note?: string; open?: boolean; children: ComponentChildren }) {
  const shown = useSignal(open);
  return (
    <details open={shown.value} onToggle={(event) => (shown.value = event.currentTarget.open)}>
      <summary class="small soft">
        {plain(title)}
        {note && <span class="tag">{plain(note)}</span>}
      </summary>
      {shown.value && children}
    </details>
  );
}

const MOST = 4_000;

function Message({ of, fresh }: { of: PromptMessageForm; fresh?: boolean }) {
  const all = useSignal(false);
  const long = of.text.length > MOST && !all.value;
  return (
    <div class={`said ${of.role} ${fresh ? "fresh" : ""}`}>
      <p class="small soft said-by">
        <b>{of.role}</b>
        {of.call && <code>{plain(of.call)}</code>}
        {fresh && <span class="tag">new</span>}
      </p>
      {of.text && (
        <p class="words">
          <bdi>{plain(long ? of.text.slice(0, MOST) : of.text)}</bdi>
        </p>
      )}
      {long && (
        <button class="small" onClick={() => (all.value = true)}>
          Show all {of.text.length.toLocaleString()} characters
        </button>
      )}
      {of.cut && <p class="small soft">Of {of.cut.toLocaleString()} characters these are the first.</p>}
      {of.files?.map((file, n) => (
        <p key={n} class="small soft">
          {plain(file.name ?? "a file")}, {file.mime_type}, {file.size.toLocaleString()} bytes
        </p>
      ))}
      {of.calls?.map((call) => (
        <p key={call.id} class="said-call">
          <code>{plain(call.name)}</code> <code class="soft">{plain(call.args.slice(0, MOST))}</code>
        </p>
      ))}
    </div>
  );
}
