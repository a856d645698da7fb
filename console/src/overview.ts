// What the overview shows, as its address says it.

import { computed } from "@preact/signals";
import { route, to } from "./router";

export const RANGES = [
  ["hour", "Hour"],
  ["day", "Day"],
  ["week", "Week"],
] as const;
export const GROUPS = ["tool", "agent", "owner", "source", "code", "rule"] as const;
const FILTERS = ["tool", "agent", "owner", "source", "code"] as const;
/** What some calls have none of: calls of no agent, tools that no source has now. */
const NAMELESS: string[] = ["agent", "source"];
export const SORTS = [
  ["calls", "most calls"],
  ["failed", "most failures"],
  ["p95", "slowest"],
  ["waits", "longest waits"],
  ["cost", "highest cost"],
] as const;
export type Group = (typeof GROUPS)[number];

const asked = (name: string, known: readonly string[], first: string) => {
  const value = route.value.query.get(name) ?? "";
  return known.includes(value) ? value : first;
};
export const range = computed(() =>
  asked(
    "range",
    RANGES.map(([key]) => key),
    "day",
  ),
);
export const by = computed(() => asked("by", GROUPS, "tool") as Group);
export const sort = computed(() =>
  asked(
    "sort",
    SORTS.map(([key]) => key),
    by.value === "agent" ? "cost" : "calls",
  ),
);
export const filters = computed(
  () =>
    Object.fromEntries(
      [...FILTERS, "since", "until"].flatMap((name) => {
        const value = route.value.query.get(name);
        return value || (value === "" && NAMELESS.includes(name)) ? [[name, value || null]] : [];
      }),
    ) as Record<string, string | null>,
);

/** Which calls behind the numbers are listed: all, those that failed or waited, or those that a rule decided. */
export const behind = computed(() => {
  const which = route.value.query.get("calls");
  if (which === null) return undefined;
  const [kind, name] = which.split(/ (.*)/s);
  return kind === "rule" && name ? { kind, name } : { kind: kind === "failed" || kind === "waited" ? kind : "all", name: "" };
});

/** What narrows the overview to one of its groups, and shows its calls. Numbers are not narrowed by rule. */
export const callsOf = (group: Group, name: string): Record<string, string | number | null> =>
  group === "rule" ? { calls: `rule ${name}` } : { [group]: name, calls: 1 };

/** An address of this screen with something changed; null takes a part away. */
export function changed(parts: Record<string, string | number | null>): string {
  const query = new URLSearchParams(route.value.query);
  for (const [name, value] of Object.entries(parts)) {
    if (value === null) query.delete(name);
    else query.set(name, String(value));
  }
  return to("overview") + (query.size ? `?${query}` : "");
}
