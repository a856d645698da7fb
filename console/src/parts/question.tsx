// One open question: what exactly would run, and the ways to answer.

import { useSignal } from "@preact/signals";
import { at, post } from "../api";
import type { Question } from "../types";
import { Do, Time, Value } from "./basics";
import { lazy, Suspense } from "preact/compat";

const SchemaForm = lazy(() => import("./form").then((made) => ({ default: made.SchemaForm })));

export function Answering({ question, answered }: { question: Question; answered?: () => void }) {
  const edited = useSignal<unknown>(undefined);
  const editing = useSignal(false);
  const reason = useSignal("");
  const value = useSignal<unknown>(undefined);
  const confirms = question.kind === "confirm";
  const changed = editing.value && JSON.stringify(edited.value) !== JSON.stringify(question.arguments);

  const send = async (action: string, scope?: string) => {
    await post(at("sessions", question.session, "answers"), {
      question: question.id,
      action,
      reason: reason.value || undefined,
      scope,
      arguments: action === "accept" && changed ? edited.value : undefined,
      value: action === "accept" && !confirms ? value.value : undefined,
    });
    answered?.();
  };
  return (
    <div class="answering">
      <p><b dir="auto">{question.prompt}</b></p>
      <p class="soft small">
        {question.tool} in {question.session}{question.owner ? ` of ${question.owner}` : ""} · asked <Time at={question.asked_at} /> · until{" "}
        <Time at={question.expires_at} />
        {question.path?.length > 0 && <> · {question.path.join(" → ")}</>}
      </p>
      {(question.demands?.length > 0 || question.approved_by?.length > 0) && (
        <p class="small">Approved by {question.approved_by?.join(", ") || "nobody yet"}; {demands(question)}</p>
      )}
      {editing.value ? (
        <>
          <label for={`edit-${question.id}`}>Arguments</label>
          <textarea id={`edit-${question.id}`} rows={8} spellcheck={false}
            value={JSON.stringify(edited.value, null, 2)}
            onChange={(event) => { try { edited.value = JSON.parse(event.currentTarget.value); } catch { /* kept as it was */ } }} />
          {changed && <Difference before={question.arguments} after={edited.value} />}
        </>
      ) : (
        <Value of={question.arguments} label={`Arguments of ${question.tool}`} />
      )}
      {!confirms && question.schema && (
        <Suspense fallback={<p class="soft">…</p>}>
          <SchemaForm schema={question.schema} value={value.value} changed={(said) => (value.value = said)} label="Answer" />
        </Suspense>
      )}
      {!confirms && !question.schema && (
        <>
          <label for={`value-${question.id}`}>Answer</label>
          <input id={`value-${question.id}`} onInput={(event) => (value.value = event.currentTarget.value)} />
        </>
      )}
      <p>
        <label for={`reason-${question.id}`} class="small soft">Reason (goes to the log)</label>
        <input id={`reason-${question.id}`} value={reason.value} onInput={(event) => (reason.value = event.currentTarget.value)} />
      </p>
      <div class="actions">
        <Do class="main" work={() => send("accept")}>{confirms ? (changed ? "Approve as edited" : "Approve") : "Answer"}</Do>
        <Do class="bad" work={() => send("decline")}>Decline</Do>
        {confirms && question.offer && <Do work={() => send("accept", "session")}>Allow for this session</Do>}
        {confirms && !editing.value && (
          <button onClick={() => { edited.value = question.arguments; editing.value = true; }}>Edit</button>
        )}
      </div>
      {confirms && question.offer && <p class="small soft">For this session: <code>{question.offer}</code></p>}
    </div>
  );
}

function demands(question: Question): string {
  const said = (question.demands ?? []).map((one: Record<string, unknown>) => JSON.stringify(one)).join("; ");
  return said ? `it takes ${said}` : "";
}

/** Two values line by line. */
export function Difference({ before, after }: { before: unknown; after: unknown }) {
  const old = JSON.stringify(before, null, 2).split("\n");
  const fresh = JSON.stringify(after, null, 2)?.split("\n") ?? [];
  return (
    <div class="json" role="region" aria-label="What is changed" tabIndex={0}>
      <pre>
        {old.filter((line) => !fresh.includes(line)).map((line) => <span class="removed">- {line}</span>)}
        {fresh.map((line) => (old.includes(line) ? <span>{"  " + line + "\n"}</span> : <span class="added">+ {line}</span>))}
      </pre>
    </div>
  );
}
