// What waits for a person, as the server tells it: for the badge and for the inbox.

import { signal } from "@preact/signals";
import { follow, get } from "./api";
import type { Page, Question } from "./types";

/** The open questions, the oldest of very many; undefined until they are known. */
export const questions = signal<Question[] | undefined>(undefined);
/** How many there are, as people read it. */
export const counted = signal("0");
export const trouble = signal<unknown>(undefined);

let asking: Promise<void> | undefined;
let stale = false;
/** How many pages are looked at: the first, until somebody wants to see more. */
let pages = 1;
let onward = false;

/** Asks for them anew. Who asks while an answer is on its way gets the next one. */
export function refresh(): Promise<void> {
  stale = true;
  asking ??= (async () => {
    while (stale) {
      stale = false;
      try {
        const { items, next } = await listed();
        onward = !!next;
        questions.value = items;
        counted.value = items.length.toLocaleString() + (next ? "+" : "");
        trouble.value = undefined;
      } catch (error) {
        trouble.value = error;
      }
    }
    asking = undefined;
  })();
  return asking;
}

async function listed(): Promise<Page<Question>> {
  let page = await get<Page<Question>>("v1/questions");
  const items = page.items;
  for (let n = 1; n < pages && page.next; n++) {
    page = await get<Page<Question>>("v1/questions", { after: page.next });
    items.push(...page.items);
  }
  return { items, next: page.next };
}

let growing: Promise<void> | undefined;

/** Looks at one page more, where there is one. */
export function more(): Promise<void> {
  growing ??= (async () => {
    await asking;
    if (onward) {
      pages++;
      await refresh();
    }
    growing = undefined;
  })();
  return growing;
}

/** Looks on until there is enough, or there are no more. */
async function until(enough: (items: Question[]) => boolean): Promise<void> {
  while (onward && !trouble.value && !enough(questions.value ?? [])) await more();
}

/** Looks on until a question is there. */
export const seek = (id: string) => until((items) => items.some((one) => one.id === id));

/** Looks on until there are so many: a page may be short. */
export const fill = (least: number) => until((items) => items.length >= least);

/** Keeps them up to date until told to stop. */
export const attend = () => follow("v1/questions/events", () => void refresh(), true);
