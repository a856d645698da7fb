// Where the person is: the part of the address behind `#`. Every screen can be linked to and gone back to.

import { computed, signal } from "@preact/signals";

const here = () => location.hash.replace(/^#\/?/, "");
const hash = signal(here());
addEventListener("hashchange", () => (hash.value = here()));

/** The pieces of the address: screen, then what it shows. */
export const route = computed(() => {
  const [path = "", search = ""] = hash.value.split("?");
  return { parts: path.split("/").filter(Boolean).map(decoded), query: new URLSearchParams(search) };
});

/** An address that somebody typed may be anything. */
function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export const to = (...parts: string[]) => `#/${parts.map(encodeURIComponent).join("/")}`;

/** What an address says of one thing, not of a list. */
const OF_ONE = ["mark", "call", "event", "at", "span"];

/** An address on the same screen: what its list is narrowed by stays. */
export const stay = (...parts: string[]) =>
  to(...parts) + asked(new URLSearchParams([...route.value.query].filter(([name]) => !OF_ONE.includes(name))));

const asked = (query: URLSearchParams) => (query.size ? `?${query}` : "");

/** What the list of this screen is narrowed by, of these names. */
export const narrowed = (...names: string[]): Record<string, string> =>
  Object.fromEntries([...route.value.query].filter(([name]) => names.includes(name)));

/** Narrows the list of this screen, in its address: it can be linked to and gone back to. */
export const narrow = (name: string) => (value: string) => {
  const query = new URLSearchParams(route.value.query);
  if (value) query.set(name, value);
  else query.delete(name);
  history.replaceState(null, "", to(...route.value.parts) + asked(query));
  hash.value = here();
};

export function go(address: string): void {
  location.hash = address.replace(/^#/, "");
  hash.value = here();
}
