// One open question: what exactly would run, and the ways to answer.

import { useSignal } from "@preact/signals";
import { lazy, Suspense } from "preact/compat";
import { asks, wanted } from "../accounts";
import { at, post } from "../api";
import { to } from "../router";
import type { Question } from "../types";
import { Do, plain, Said, Time, Value } from "./basics";
import { ConnectFor } from "./connect";
import { Difference } from "./difference";
import { Origins, originsOf, restOf } from "./origins";

const SchemaForm = lazy(() => import("./form").then((made) => ({ default: made.SchemaForm })));
const JsonField = lazy(() => import("./form").then((made) => ({ default: made.JsonField })));

export function Answering({ question, answered }: { question: Question; answered?: (action: string) => void }) {
  const edited = useSignal<unknown>(question.arguments);
  const editing = useSignal(false);
  const reason = useSignal("");
  const value = useSignal<unknown>(undefined);
  const confirms = question.kind === "confirm";
  const more = restOf(question);
  const connects = wanted(question) !== undefined;
  const changed = editing.value && JSON.stringify(edited.value) !== JSON.stringify(question.arguments);
  const exact = kept(question);
  const broken = editing.value && edited.value === undefined;

  const send = async (action: string, scope?: string) => {
    const yes = action === "accept";
    await post(at("sessions", question.session, "answers"), {
      question: question.id,
      action,
      reason: reason.value || undefined,
      scope,
      args: yes && changed ? edited.value : undefined,
      value: yes && !confirms ? value.value : undefined,
    });
    answered?.(action);
  };
  return (
    <div class="answering">
      <p class="prompt">
        <Said of={asks(question)} />
      </p>
      <p class="soft small">
        <code>{question.tool}</code> in <a href={to("sessions", question.session)}>{question.session}</a>
        {question.owner ? ` of ${question.owner}` : ""} · asked <Time at={question.asked_at} /> · until <Time at={question.expires_at} />
        {!!question.path?.length && <> · by {question.path.join(" → ")}</>}
      </p>
      {originsOf(question).length > 0 && <Origins of={question} />}
      {!!(question.demands?.length || question.approved_by?.length) && <p class="small">{demands(question)}</p>}
      <Suspense fallback={<p class="soft">…</p>}>
        {editing.value ? (
          <>
            <h3>Arguments</h3>
            <JsonField value={question.arguments} changed={(said) => (edited.value = said)} label="Arguments" />
            {changed && !broken && <Difference before={question.arguments} after={edited.value} />}
          </>
        ) : (
          Object.keys(question.arguments).length > 0 && (
            <Value of={question.shown || question.arguments} label={`Arguments of ${question.tool}`} />
          )
        )}
        {!connects && more !== undefined && more !== null && <Value of={more} label="More about it" />}
        {!confirms && question.schema && (
          <SchemaForm schema={question.schema} value={value.value} changed={(said) => (value.value = said)} label="Answer" />
        )}
        {!confirms && !connects && !question.schema && (
          <label class="field">
            Answer
            <input onInput={(event) => (value.value = event.currentTarget.value)} />
          </label>
        )}
      </Suspense>
      <label class="field small soft">
        Reason (goes to the log)
        <input value={reason.value} onInput={(event) => (reason.value = event.currentTarget.value)} />
      </label>
      <div class="actions">
        {connects ? (
          <ConnectFor question={question} />
        ) : (
          <Do class="main" disabled={broken} work={() => send("accept")}>
            {confirms ? (changed ? "Approve as edited" : "Approve") : "Answer"}
          </Do>
        )}
        <Do class="bad" work={() => send("decline")}>
          Decline
        </Do>
        {confirms && question.offer && !changed && <Do work={() => send("accept", "session")}>Allow for this session</Do>}
        {confirms && exact && (
          <button
            type="button"
            aria-pressed={editing.value}
            onClick={() => {
              edited.value = question.arguments;
              editing.value = !editing.value;
            }}
          >
            Edit
          </button>
        )}
      </div>
      {confirms && !exact && (
        <p class="small soft">
          A number in it is larger than a page can keep: edit it with <code>toolcrib approvals edit</code>.
        </p>
      )}
      {confirms && question.offer && !changed && (
        <p class="small soft">
          For this session means: <code>{plain(offered(question))}</code>
        </p>
      )}
    </div>
  );
}

/** Whether the page has the very numbers that are asked about, so that editing changes none of the others. */
function kept(question: Question): boolean {
  if (!question.shown) return true;
  const numbers = question.shown.replace(/"(?:[^"\\]|\\.)*"/g, "").match(/-?\d[\d.eE+-]*/g) ?? [];
  return numbers.every((said) => !/^-?\d+$/.test(said) || String(Number(said)) === said);
}

/** What is allowed from then on. Rules have every value in quotes; people know numbers without. */
function offered({ offer, arguments: args }: Question): string {
  const bare = Object.entries(args).filter(([, value]) => typeof value === "number" || typeof value === "boolean");
  return bare.reduce((text, [name, value]) => text.replace(`${name} = "${value}"`, () => `${name} = ${value}`), offer ?? "");
}

function demands(question: Question): string {
  const wanted = (question.demands ?? []).map(({ approvers, quorum }) => {
    const who = Array.isArray(approvers) && approvers.length ? approvers.join(" or ") : "whoever may answer";
    return Number(quorum ?? 1) > 1 ? `${quorum} of ${who}` : who;
  });
  const said = question.approved_by?.length ? ` Approved so far by ${question.approved_by.join(", ")}.` : "";
  return (
    (wanted.length ? `It takes a yes of ${wanted.join(", and of ")}.` : "") +
    (question.escalated ? " It was passed on, since nobody answered in time." : "") +
    said
  );
}
