// Connecting an account: by the page of its service, or with a key.

import { useSignal } from "@preact/signals";
import { accounts, page, wanted } from "../accounts";
import { api, at, me } from "../api";
import type { AccountForm, Question } from "../types";
import { Do, plain, Trouble, useAsked } from "./basics";

/** Leads to the page of the service in a window of its own, or takes a key. */
export function Connect({ of, scope, changed }: { of: AccountForm; scope?: string; changed: () => void }) {
  const address = page(of, scope);
  if (of.grant === "key") return <Key name={of.name} changed={changed} />;
  if (address)
    return (
      <a class="button main" href={address} target="_blank" rel="noopener">
        Connect
      </a>
    );
  return (
    <p class="small soft">
      This server does not know its own address: set <code>serve.public_url</code> in crib.yaml, or run{" "}
      <code>toolcrib connect {plain(of.name)}</code>.
    </p>
  );
}

function Key({ name, changed }: { name: string; changed: () => void }) {
  const key = useSignal("");
  const keep = async () => {
    const typed = key.value;
    key.value = "";
    await api("PUT", at("accounts", name, "key"), { key: typed });
    changed();
  };
  return (
    <>
      <label class="field small soft">
        Key (it is encrypted and never shown)
        <input type="password" autocomplete="off" value={key.value} onInput={(event) => (key.value = event.currentTarget.value)} />
      </label>
      <Do class="main" disabled={!key.value.trim()} work={keep}>
        Connect
      </Do>
    </>
  );
}

/** What leads on with a call that waits for an account. Only its owner can connect it. */
export function ConnectFor({ question }: { question: Question }) {
  const need = wanted(question)!;
  const found = useAsked(accounts, [question.id]);
  const account = found.value?.find((one) => one.name === need.account && (!one.owner || one.owner === me.value?.name));
  if (question.owner && question.owner !== me.value?.name)
    return <p class="small">Only {plain(question.owner)} can connect this account.</p>;
  if (!account)
    return found.trouble ? (
      <Trouble of={found.trouble} />
    ) : found.value ? (
      <p class="small">There is no account {plain(need.account)} on this server.</p>
    ) : null;
  return <Connect of={account} scope={need.scope} changed={found.again} />;
}
