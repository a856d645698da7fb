// The accounts of whoever looks, as the server tells them; never their tokens.

import { get } from "./api";
import type { AccountForm, Page, Question } from "./types";

export const accounts = async () => (await get<Page<AccountForm>>("v1/accounts")).items;

interface Wanted {
  account: string;
  scope?: string;
}

/** What a call waits for until its owner connects an account. */
export function wanted({ kind, data }: Question): Wanted | undefined {
  const { account, scope } = (data ?? {}) as Record<string, unknown>;
  if (kind !== "external" || typeof account !== "string") return undefined;
  return { account, scope: typeof scope === "string" ? scope : undefined };
}

/** What a question asks, in words for this page: it has a button where others name an address. */
export function asks(question: Question): string {
  const need = wanted(question);
  if (!need) return question.prompt;
  return `Connect your account ${need.account}${need.scope ? ` with more rights (${need.scope})` : ""}`;
}

/** The page where an account is connected. It comes from the server: what a question says of it leads nowhere. */
export function page(of: AccountForm | undefined, scope?: string): string | undefined {
  if (!of?.connect_url || !/^https?:\/\//.test(of.connect_url)) return undefined;
  return scope ? `${of.connect_url}?scope=${encodeURIComponent(scope)}` : of.connect_url;
}
