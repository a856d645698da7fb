import { useSignal } from "@preact/signals";
import { meet, post } from "../api";
import { Trouble } from "../parts/basics";

export function SignIn() {
  const key = useSignal("");
  const trouble = useSignal<unknown>(undefined);
  const enter = async (event: Event) => {
    event.preventDefault();
    try {
      await post("v1/signin", { key: key.value });
      await meet();
    } catch (error) {
      trouble.value = error;
    }
  };
  return (
    <main class="screen" style={{ maxWidth: "420px", margin: "10vh auto 0" }}>
      <form class="sheet" onSubmit={enter}>
        <h1>Sign in to Toolcrib</h1>
        <p class="soft">With an API key or an access token. <code>toolcrib keys add NAME</code> makes a key.</p>
        <label for="key">Key</label>
        <input id="key" type="password" autocomplete="current-password" required value={key.value} onInput={(event) => (key.value = event.currentTarget.value)} />
        <Trouble of={trouble.value} />
        <p style={{ marginTop: "12px" }}><button class="main">Sign in</button></p>
      </form>
    </main>
  );
}
