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

/** Asks for them anew. Who asks while an answer is on its way gets the next one. */
export function refresh(): Promise<void> {
  stale = true;
  asking ??= (async () => {
    while (stale) {
      stale = false;
      try {
        const page = await get<Page<Question>>("v1/questions");
        questions.value = page.items;
        counted.value = page.items.length.toLocaleString() + (page.next ? "+" : "");
        trouble.value = undefined;
      } catch (error) {
        trouble.value = error;
      }
    }
    asking = undefined;
  })();
  return asking;
}

/** Keeps them up to date until told to stop. */
export const attend = () => follow("v1/questions/events", () => void refresh(), true);
