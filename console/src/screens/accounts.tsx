// Services that one connects with, so that tools can use them in one's name.

import { accounts, wanted } from "../accounts";
import { api, at, me } from "../api";
import { Confirm, Nothing, plain, Said, State, Time, Trouble, useLooked } from "../parts/basics";
import { Connect } from "../parts/connect";
import { questions } from "../questions";
import { to } from "../router";
import type { AccountForm, Question } from "../types";

const LOOK_MS = 2_000;

export function Accounts() {
  const found = useLooked(accounts, LOOK_MS, [questions.value]);
  const mine = found.value?.filter((one) => !one.owner || one.owner === me.value?.name);
  const others = found.value?.filter((one) => one.owner && one.owner !== me.value?.name) ?? [];
  return (
    <>
      <div class="head">
        <h1>Accounts</h1>
      </div>
      <Trouble of={found.trouble} />
      {mine?.length === 0 && (
        <Nothing>
          There is no service to connect with. <code>accounts:</code> in crib.yaml names them, and so does an MCP server with{" "}
          <code>account: true</code>.
        </Nothing>
      )}
      <div class="columns cards">
        {mine?.map((one) => (
          <Card key={one.name} of={one} changed={found.again} />
        ))}
      </div>
      {others.length > 0 && <Others of={others} changed={found.again} />}
    </>
  );
}

const waits = (name: string): Question[] =>
  (questions.value ?? []).filter((one) => wanted(one)?.account === name && (!one.owner || one.owner === me.value?.name));

function Card({ of, changed }: { of: AccountForm; changed: () => void }) {
  const waiting = waits(of.name);
  const state = waiting.length ? "waiting" : of.owner ? "connected" : of.expired_at ? "expired" : "not connected";
  const scope = waiting.map((one) => wanted(one)?.scope).find((one) => one);
  return (
    <article class="sheet account-card" aria-label={`${of.name} ${state}`}>
      <div class="head">
        <h2>{plain(of.name)}</h2>
        <span class="grow" />
        <State of={state} />
      </div>
      {waiting.map((one) => (
        <p key={one.id} class="small">
          <a href={to("inbox", one.id)}>A call of {plain(one.tool)}</a> waits for it since <Time at={one.asked_at} />.
        </p>
      ))}
      {of.owner && (
        <p class="small soft">
          Connected <Time at={of.connected_at ?? undefined} />
          {of.by !== of.owner && ` by ${plain(of.by ?? "")}`}.{!!of.scopes?.length && ` It may: ${plain(of.scopes.join(", "))}.`}{" "}
          <Until of={of} />
        </p>
      )}
      {of.expired_at && (
        <p class="small soft">
          The service ended the access <Time at={of.expired_at} />
          {of.reason && (
            <>
              {" "}
              (<Said of={of.reason} />)
            </>
          )}
          . Connect it again.
        </p>
      )}
      <div class="actions">
        {(!of.owner || waiting.length > 0) && <Connect of={of} scope={scope} changed={changed} />}
        {of.owner && <Disconnect of={of} changed={changed} />}
      </div>
    </article>
  );
}

/** How long its token is good for. */
function Until({ of }: { of: AccountForm }) {
  if (!of.expires_at) return null;
  return of.expires_at * 1000 > Date.now() ? (
    <>
      Good until <Time at={of.expires_at} />, then it is renewed.
    </>
  ) : (
    <>It is renewed when it is used next.</>
  );
}

function Disconnect({ of, changed }: { of: AccountForm; changed: () => void }) {
  const owner = of.owner!;
  const whose = owner === me.value?.name ? "" : ` of ${owner}`;
  const work = async () => {
    await api("DELETE", at("accounts", of.name) + (whose ? `?owner=${encodeURIComponent(owner)}` : ""));
    changed();
  };
  return (
    <Confirm
      class="bad"
      title={`Disconnect ${of.name}${whose}?`}
      work={work}
      text="Its tokens are deleted here, and the service is told that they are not used any more. Calls that need it wait until it is connected again."
    >
      Disconnect
    </Confirm>
  );
}

const Others = ({ of, changed }: { of: AccountForm[]; changed: () => void }) => (
  <section class="sheet wide" aria-label="Accounts of others" tabIndex={0}>
    <h2>Accounts of others</h2>
    <table>
      <thead>
        <tr>
          <th scope="col">account</th>
          <th scope="col">owner</th>
          <th scope="col">connected</th>
          <th scope="col">may</th>
          <th scope="col">
            <span class="hidden-text">what to do</span>
          </th>
        </tr>
      </thead>
      <tbody>
        {of.map((one) => (
          <tr key={`${one.name}\n${one.owner}`}>
            <td>{plain(one.name)}</td>
            <td>{plain(one.owner!)}</td>
            <td>
              <Time at={one.connected_at ?? undefined} />
            </td>
            <td class="soft small">{plain(one.scopes?.join(", ") ?? "")}</td>
            <td class="end">
              <Disconnect of={one} changed={changed} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  </section>
);
