// The real client of A2A. Reads steps as JSON lines, writes what came back.
// {send, stream, get, cancel, list, subscribe}: what the SDK's client does; `taskId` and `contextId` as given.

import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";
const { ClientFactory } = await import(pathToFileURL(process.argv[2]));

const client = await new ClientFactory().createFromUrl(process.argv[3], ".well-known/agent-card.json");
let count = 0;

const message = (step) => ({
  message: {
    messageId: `m${count++}`, role: 1, taskId: step.taskId ?? "", contextId: step.contextId ?? "", extensions: [], referenceTaskIds: [],
    metadata: undefined,
    parts: [
      ...(step.text ? [{ content: { $case: "text", value: step.text }, filename: "", mediaType: "", metadata: undefined }] : []),
      ...(step.raw ? [{ content: { $case: "raw", value: Buffer.from(step.raw, "base64") }, filename: step.filename ?? "", mediaType: step.mediaType ?? "", metadata: undefined }] : []),
      ...(step.data ? [{ content: { $case: "data", value: step.data }, filename: "", mediaType: "", metadata: undefined }] : []),
    ],
  },
  tenant: "", configuration: step.configuration, metadata: undefined,
});

async function collected(stream) {
  const all = [];
  for await (const one of stream) all.push(one.payload ?? one);
  return all;
}

const steps = {
  send: (step) => client.sendMessage(message(step)),
  stream: (step) => collected(client.sendMessageStream(message(step))),
  get: (step) => client.getTask({ id: step.taskId, tenant: "" }),
  cancel: (step) => client.cancelTask({ id: step.taskId, tenant: "", metadata: undefined }),
  list: (step) => client.listTasks({
    contextId: step.contextId ?? "", tenant: "", status: step.status ?? 0, pageToken: step.pageToken ?? "", pageSize: step.pageSize,
    statusTimestampAfter: step.after, includeArtifacts: step.artifacts,
  }),
  subscribe: (step) => collected(client.resubscribeTask({ id: step.taskId, tenant: "" })),
  card: () => client.getAgentCard(),
};

for await (const line of createInterface({ input: process.stdin })) {
  const step = JSON.parse(line);
  try {
    console.log(JSON.stringify({ value: await steps[step.do](step) }));
  } catch (error) {
    console.log(JSON.stringify({ error: String(error.message ?? error) }));
  }
}
