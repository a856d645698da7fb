// What a server sends of its own accord: lines of events, as they come.

import { createParser, type EventSourceMessage } from "eventsource-parser";

export interface Line {
  /** Where the stream goes on after this line; a line may say that alone, without data. */
  id?: string;
  kind: string;
  data: string;
}

/** The lines of a stream; `alive` is called whenever anything comes, also where it says nothing. */
export async function* lines(body: ReadableStream<Uint8Array>, alive: () => void): AsyncGenerator<Line> {
  const reader = body.pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>).getReader();
  const ready: Line[] = [];
  const parser = createParser({
    onId: (id) => ready.push({ id, kind: "message", data: "" }),
    onEvent: ({ id, event = "message", data }: EventSourceMessage) => {
      if (id !== undefined) ready.pop(); // its id was told just before
      ready.push({ id, kind: event, data });
    },
  });
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      alive();
      parser.feed(value);
      yield* ready.splice(0);
    }
  } finally {
    void reader.cancel().catch(() => {});
  }
}
