// One call with all that is known of it.

import { at, post } from "../api";
import type { Card } from "../fold";
import { go, to } from "../router";
import { Do, length, State, Time, Value } from "./basics";
import { Answering } from "./question";

const OVER = ["succeeded", "failed", "cancelled", "timed_out", "unknown"];

export function CallCard({ card, cards, small }: { card: Card; cards: Map<string, Card>; small?: boolean }) {
  const where = at("sessions", card.session, "calls", card.id);
  const over = OVER.includes(card.status);
  return (
    <article class="sheet call" aria-label={`${card.tool} ${card.status}`}>
      <div class="head">
        <b dir="auto">{card.label || card.tool}</b>
        <code class="soft">{card.tool}</code>
        <span class="grow" />
        <State of={card.status} />
      </div>
      <p class="small soft">
        {card.by?.name && <>{card.by.kind} {card.by.name} · </>}
        <Time at={card.accepted} />{card.duration !== undefined && <> · {length(card.duration)}</>}
        {card.verdict && <> · {card.verdict.effect}{card.verdict.message ? ` (${card.verdict.message})` : ""}</>}
      </p>
      {!over && card.progress !== undefined && (
        <div class="bar" role="progressbar" aria-label={card.message ?? "progress"} aria-valuenow={Math.round(card.progress * 100)} aria-valuemin={0} aria-valuemax={100}>
          <i style={{ width: `${card.progress * 100}%` }} />
        </div>
      )}
      {!over && card.message && <p class="small" dir="auto">{card.message}</p>}
      {card.question ? <Answering question={card.question} /> : (
        <details open={!small}><summary class="small soft">arguments</summary><Value of={card.args} label="Arguments" /></details>
      )}
      {card.output && <><h3>output</h3><Value of={card.output} label="Output" /></>}
      {card.failure && (
        <p class="trouble" dir="auto">[{card.failure.code}] {card.failure.message}{card.failure.hint && <span class="soft">{card.failure.hint}</span>}</p>
      )}
      {card.data !== undefined && card.data !== null && (small
        ? <details><summary class="small soft">result</summary><Value of={card.data} label="Result" /></details>
        : <><h3>result</h3><Value of={card.data} label="Result" /></>)}
      {card.answers.length > 0 && (
        <p class="small soft">{card.answers.map((one) => `${one.actor}: ${one.action}${one.reason ? ` (${one.reason})` : ""}`).join("; ")}</p>
      )}
      {!small && (
        <div class="actions">
          {!over && <Do class="bad" work={() => post(where + "/cancel")}>Cancel</Do>}
          {over && <Do work={async () => { await post(where + "/again"); }}>Run again</Do>}
          {card.status === "unknown" && <Settle where={where} />}
          <button onClick={() => go(to("sessions", card.session))}>Its session</button>
        </div>
      )}
      {card.children.map((id) => cards.get(id)).filter((child) => child !== undefined).map((child) => (
        <div key={child.id} style={{ marginTop: "10px" }}><CallCard card={child} cards={cards} small /></div>
      ))}
    </article>
  );
}

/** A call of which nobody knows whether it ran is settled by somebody who looked. */
function Settle({ where }: { where: string }) {
  const settle = (outcome: string) => post(where + "/reconcile", { outcome, reason: "looked at in the console" });
  return (
    <>
      <Do work={() => settle("happened")}>It happened</Do>
      <Do work={() => settle("not")}>It did not happen</Do>
    </>
  );
}
