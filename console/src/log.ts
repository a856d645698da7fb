// The log of a session, however long: only the pages that are looked at are here.

import { at, get } from "./api";
import type { Event, Page } from "./types";
import { dataOf } from "./types";

const PAGE = 200;

/** The pages that were looked at, and what has come since. */
export class Log {
  readonly pages = new Map<number, Event[]>();
  /** The tools of the calls whose beginning was seen. */
  readonly tools = new Map<string, string>();
  private asked = new Set<number>();
  private missing = new Set<number>();
  last = 0;

  constructor(
    private id: string,
    private changed: () => void,
    private failed: (error: unknown) => void,
  ) {}

  at(seq: number): Event | undefined {
    return this.pages.get(Math.floor((seq - 1) / PAGE))?.[(seq - 1) % PAGE];
  }

  need(first: number, last: number): void {
    for (let page = Math.floor((first - 1) / PAGE); page <= Math.floor((last - 1) / PAGE); page++) {
      if (page < 0 || this.asked.has(page)) continue;
      this.asked.add(page);
      this.fetch(page * PAGE, (page + 1) * PAGE).then(
        () => this.changed(),
        (error) => {
          this.asked.delete(page);
          this.missing.add(page);
          this.failed(error);
        },
      );
    }
  }

  /** Pages end by their bytes too: asks until all of them are here. */
  private async fetch(after: number, last: number): Promise<void> {
    for (let place = after; place < last; ) {
      const { items, next } = await get<Page<Event>>(at("sessions", this.id, "events"), { after: place, limit: last - place });
      for (const event of items) this.put(event);
      if (next === undefined) return;
      place = items.at(-1)!.seq;
    }
  }

  /** Asks again for what could not be had. */
  again(): void {
    const missing = [...this.missing];
    this.missing.clear();
    for (const page of missing) this.need(page * PAGE + 1, page * PAGE + 1);
  }

  put(event: Event): void {
    const page = Math.floor((event.seq - 1) / PAGE);
    if (!this.pages.has(page)) this.pages.set(page, []);
    this.pages.get(page)![(event.seq - 1) % PAGE] = event;
    this.last = Math.max(this.last, event.seq);
    if (event.kind === "accepted") this.tools.set(event.call!, dataOf(event, "accepted").tool);
  }
}
