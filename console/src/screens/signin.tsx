// Who are you? A key becomes a cookie that no script can read.

import { useSignal } from "@preact/signals";
import { ended, me, post } from "../api";
import { Trouble } from "../parts/basics";
import type { Me } from "../types";

export function SignIn() {
  const key = useSignal("");
  const trouble = useSignal<unknown>(undefined);
  const enter = async (event: Event) => {
    event.preventDefault();
    trouble.value = undefined;
    try {
      me.value = await post<Me>("v1/signin", { key: key.value });
      ended.value = false;
    } catch (error) {
      trouble.value = error;
    }
  };
  return (
    <main class="screen signin">
      <form class="sheet" onSubmit={enter}>
        <h1>
          <img src="./icon.svg" width="24" height="24" alt="" /> Sign in to Toolcrib
        </h1>
        {ended.value && (
          <p class="trouble" role="status">
            You are signed out: the key has expired or was revoked. What you were looking at comes back when you sign in.
          </p>
        )}
        <p class="soft">
          With an API key or an access token. <code>toolcrib keys add NAME</code> makes a key.
        </p>
        <label for="key">Key</label>
        <input
          id="key"
          type="password"
          autocomplete="current-password"
          required
          autofocus
          value={key.value}
          onInput={(event) => (key.value = event.currentTarget.value)}
        />
        <Trouble of={trouble.value} />
        <p class="below">
          <button class="main">Sign in</button>
        </p>
      </form>
    </main>
  );
}
