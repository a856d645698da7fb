// The real client of the AI SDK: a chat over HTTP. Reads steps as JSON lines, writes what the page would show.
// {send: text or parts} sends a message; {approve: bool, reason} answers every approval that is asked for; {output: value} answers
// every call that waits for the page; {attach: true} takes up the stream of a chat that goes on.

import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";
const { DefaultChatTransport, readUIMessageStream } = await import(pathToFileURL(process.argv[2]));

const [, , , api, id] = process.argv;
const transport = new DefaultChatTransport({ api });
let messages = [];

async function take(stream, message) {
  let shown = message;
  const seen = [];
  for await (const next of readUIMessageStream({ stream: stream.pipeThrough(tap(seen)), message, terminateOnError: false })) shown = next;
  if (shown) messages = [...messages.filter((one) => one.id !== shown.id), shown];
  console.log(JSON.stringify({ message: shown ?? null, kinds: seen }));
}

const tap = (seen) => new TransformStream({ transform(chunk, out) { seen.push(chunk.type); out.enqueue(chunk); } });

async function send(trigger = "submit-message") {
  const last = messages.at(-1);
  const stream = await transport.sendMessages({ chatId: id, messages, trigger, messageId: last.id, abortSignal: undefined });
  await take(stream, last.role === "assistant" ? last : undefined);
}

const steps = {
  async send(text) {
    const parts = typeof text === "string" ? [{ type: "text", text }] : text;
    messages.push({ id: `m${messages.length}`, role: "user", parts });
    await send();
  },
  async approve(approved, step) {
    const last = messages.at(-1);
    for (const part of last.parts)
      if (part.state === "approval-requested") Object.assign(part, { state: "approval-responded", approval: { ...part.approval, approved, reason: step.reason } });
    await send();
  },
  async output(output) {
    const last = messages.at(-1);
    for (const part of last.parts) if (part.state === "input-available") Object.assign(part, { state: "output-available", output });
    await send();
  },
  async attach() {
    const stream = await transport.reconnectToStream({ chatId: id });
    if (stream) await take(stream, undefined);
    else console.log(JSON.stringify({ message: null, kinds: [] }));
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const step = JSON.parse(line);
  try {
    for (const [name, value] of Object.entries(step)) if (steps[name]) await steps[name](value, step);
  } catch (error) {
    console.log(JSON.stringify({ error: String(error.message ?? error) }));
  }
}
