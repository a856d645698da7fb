// The rules in force with how often each decided, and what would become of a call.

import { useSignal } from "@preact/signals";
import { lazy, Suspense } from "preact/compat";
import { at, get, me, post } from "../api";
import { Nothing, plain, Said, Trouble, useAddressed, useAsked, useLooked } from "../parts/basics";
import { Sparkline } from "../parts/chart";
import "../policy.css";
import type { PolicyForm, RuleForm, SessionForm, WhyForm } from "../forms";
import { to } from "../router";
import type { Page, ToolsPage } from "../types";

const JsonField = lazy(() => import("../parts/form").then((made) => ({ default: made.JsonField })));

const LOOK_MS = 5_000;
const EFFECTS: Record<string, [string, string]> = { allow: ["allows", "good"], ask: ["asks", "warn"], deny: ["denies", "bad"] };
const DEFAULTS: Record<string, string> = {
  allow: "runs",
  ask: "asks first",
  deny: "is denied",
  auto: "runs if its tool only reads, and asks first if not",
};

export function Policy() {
  return (
    <>
      <div class="head">
        <h1>Policy</h1>
      </div>
      <Why />
      {me.value?.admin ? (
        <Rules />
      ) : (
        <Nothing>Administrators see the rules here. What would become of a call of yours is answered above.</Nothing>
      )}
    </>
  );
}

function Rules() {
  const asked = useLooked(() => get<PolicyForm>("v1/policy"), LOOK_MS);
  const policy = asked.value;
  if (!policy) return <Trouble of={asked.trouble} />;
  if (policy.custom) return <Nothing>This crib has a policy of its own making: it has no rules to show.</Nothing>;
  const used = policy.rules.filter((rule) => rule.decided > 0);
  const idle = policy.rules.filter((rule) => rule.decided === 0);
  const others = Object.entries(policy.others);
  return (
    <>
      <p class="soft">
        {policy.rules.length.toLocaleString()} {policy.rules.length === 1 ? "rule" : "rules"}
        {policy.preset && (
          <>
            {" "}
            over the preset <code>{policy.preset}</code>
          </>
        )}
        {policy.file && (
          <>
            {" "}
            in <code>{plain(policy.file)}</code>
          </>
        )}
        . A call that no rule speaks of {DEFAULTS[policy.default] ?? policy.default}.
      </p>
      {policy.rules.length === 0 && (
        <Nothing>
          There are no rules. Write some under <code>policy:</code> in crib.yaml, and they are counted here.
        </Nothing>
      )}
      {used.length > 0 && <Table title="Decided in the last week" rules={used} />}
      {idle.length > 0 && (
        <Table
          title="Never decided in the last week"
          rules={idle}
          note="A rule that never decides may be about nothing, or others may always come before it."
        />
      )}
      {others.length > 0 && (
        <section class="sheet policy-names" aria-label="Rules from elsewhere">
          <h2>From elsewhere</h2>
          <p class="small soft">Rules of agents, of sessions and of earlier policies that decided in the last week.</p>
          <table>
            <tbody>
              {others.map(([name, calls]) => (
                <tr key={name}>
                  <td>
                    <code>{plain(name)}</code>
                  </td>
                  <td class="end">
                    <a href={decided(name)}>{calls.toLocaleString()}</a>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </section>
      )}
    </>
  );
}

function Table({ title, rules, note }: { title: string; rules: RuleForm[]; note?: string }) {
  return (
    <section class="sheet wide" aria-label={title} tabIndex={0}>
      <h2>{title}</h2>
      {note && <p class="small soft">{note}</p>}
      <table>
        <thead>
          <tr>
            <th scope="col">rule</th>
            <th scope="col">what it does</th>
            <th scope="col" class="end">
              calls
            </th>
            <th scope="col" class="wide-only">
              over time
            </th>
          </tr>
        </thead>
        <tbody>
          {rules.map((rule, n) => (
            <Row key={n} of={rule} />
          ))}
        </tbody>
      </table>
    </section>
  );
}

/** The calls of a week that a rule decided. */
const decided = (rule: string) => `${to("overview")}?${new URLSearchParams({ by: "rule", range: "week", calls: `rule ${rule}` })}`;

function Row({ of }: { of: RuleForm }) {
  const [says, tone] = EFFECTS[of.effect] ?? [of.effect, "soft"];
  const when = Object.entries(of.when ?? {});
  return (
    <tr>
      <td>
        <code>{plain(of.name)}</code>
        {of.name !== of.pattern && <div class="small soft mono">{plain(of.pattern)}</div>}
        {of.line != null && <div class="small soft">line {of.line}</div>}
      </td>
      <td>
        <span class={`state ${tone}`}>{says}</span>
        {of.reason && (
          <div class="small">
            <Said of={of.reason} />
          </div>
        )}
        {of.approvers && <div class="small soft">approved by {plain(of.approvers)}</div>}
        {!!of.excepts?.length && (
          <div class="small soft">
            except <code>{of.excepts.map(plain).join(", ")}</code>
          </div>
        )}
        {when.length > 0 && (
          <div class="small soft">
            when{" "}
            {when
              .map(([fact, globs]) => `${fact} is ${globs.join(" or ")}`)
              .map(plain)
              .join(", ")}
          </div>
        )}
      </td>
      <td class="end">
        <b>{of.decided ? <a href={decided(of.name)}>{of.decided.toLocaleString()}</a> : "0"}</b>
      </td>
      <td class="wide-only">{of.decided > 0 && <Sparkline values={of.points} marked={[]} />}</td>
    </tr>
  );
}

/** What would become of a call that somebody types in. Nothing is called. */
function Why() {
  const session = useAddressed("session");
  const tool = useAddressed("tool");
  const agent = useAddressed("agent");
  const args = useSignal<unknown>({});
  const verdict = useSignal<WhyForm | undefined>(undefined);
  const trouble = useSignal<unknown>(undefined);
  const sessions = useAsked((abort) => get<Page<SessionForm>>("v1/sessions", { limit: 50 }, abort), []);
  const tools = useAsked((abort) => get<ToolsPage>("v1/tools", { limit: 200 }, abort), []);
  const within = session.value || sessions.value?.items[0]?.id || "";
  const ask = async (event: Event) => {
    event.preventDefault();
    trouble.value = verdict.value = undefined;
    try {
      verdict.value = await post<WhyForm>(at("sessions", within, "why"), {
        tool: tool.value.trim(),
        args: args.value ?? {},
        agent: agent.value.trim() || undefined,
      });
    } catch (error) {
      trouble.value = error;
    }
  };
  return (
    <section class="sheet why" aria-label="What would become of a call">
      <h2>What would become of a call?</h2>
      {sessions.value?.items.length === 0 ? (
        <Nothing>
          A call is judged for a session, and there is none yet: <a href={to("tools")}>run a tool</a>, and come back.
        </Nothing>
      ) : (
        <form onSubmit={ask}>
          <div class="filters">
            <label class="field">
              Tool
              <input required list="why-tools" value={tool.value} onInput={(event) => (tool.value = event.currentTarget.value)} />
            </label>
            <label class="field">
              Session
              <input
                list="why-sessions"
                placeholder={within}
                value={session.value}
                onInput={(event) => (session.value = event.currentTarget.value)}
              />
            </label>
            <label class="field">
              Agent, if one calls
              <input value={agent.value} onInput={(event) => (agent.value = event.currentTarget.value)} />
            </label>
          </div>
          <datalist id="why-tools">
            {tools.value?.items.map((one) => (
              <option key={one.id} value={one.id} />
            ))}
          </datalist>
          <datalist id="why-sessions">
            {sessions.value?.items.map((one) => (
              <option key={one.id} value={one.id} />
            ))}
          </datalist>
          <b aria-hidden="true">Arguments</b>
          <Suspense fallback={null}>
            <JsonField label="Arguments" value={args.value} changed={(value) => (args.value = value)} />
          </Suspense>
          <div class="actions">
            <button class="main" disabled={!tool.value.trim() || !within}>
              Ask why
            </button>
          </div>
        </form>
      )}
      <Trouble of={trouble.value} />
      {verdict.value && <Verdict of={verdict.value} />}
    </section>
  );
}

function Verdict({ of }: { of: WhyForm }) {
  const effect = String(of.verdict.effect);
  const [first, ...rest] = of.lines;
  const words: Record<string, string> = { allow: "It would run", ask: "Somebody would be asked first", deny: "It would be denied" };
  return (
    <div role="status" aria-label="Verdict">
      <p>
        <span class={`state ${EFFECTS[effect]?.[1] ?? "soft"}`}>{words[effect] ?? effect}</span>{" "}
        <span class="soft">
          <Said of={first} />
        </span>
      </p>
      {rest.length > 0 && (
        <ul class="small mono">
          {rest.map((line, n) => (
            <li key={n}>
              <Said of={line} />
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}
