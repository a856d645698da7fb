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

export const to = (...parts: string[]) => "#/" + parts.map(encodeURIComponent).join("/");

export function go(address: string): void {
  location.hash = address.replace(/^#/, "");
  hash.value = here();
}
