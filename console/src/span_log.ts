// Reads the log of a session into spans, from its beginning on; what happens meanwhile waits its turn.

import { at, get } from "./api";
import { Spans } from "./spans";
import type { Event, Page } from "./types";

const PAGE = 1000;
/** Of a longer log the newest events are enough: nobody looks through more spans than that. */
const MOST = 120_000;

export class SpanLog {
  readonly spans = new Spans();
  private pending: Event[] = [];
  private whole = false;
  private over = false;

  constructor(
    private id: string,
    private changed: () => void,
    private failed: (error: unknown) => void,
  ) {}

  /** Reads up to an event, and from then on what `put` brings. */
  async read(last: number): Promise<void> {
    this.spans.skip(last - MOST);
    try {
      while (!this.over && this.spans.last < last) {
        const { items } = await get<Page<Event>>(at("sessions", this.id, "events"), { after: this.spans.last, limit: PAGE });
        if (!items.length) break;
        for (const event of items) this.spans.take(event);
        this.changed();
      }
    } catch (error) {
      this.failed(error);
      return;
    }
    this.whole = true;
    for (const event of this.pending.splice(0)) this.spans.take(event);
    this.changed();
  }

  put(event: Event): void {
    if (this.whole) this.spans.take(event);
    else this.pending.push(event);
  }

  stop(): void {
    this.over = true;
  }
}
