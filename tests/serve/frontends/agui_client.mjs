// The real client of AG-UI. Reads steps as JSON lines, writes what a front end would know after each.
// {send: text or parts} says something; {resume: payload} answers all interrupts; {result: value} answers all pending calls of tools
// of the front end; {again: true} runs once more without news. `tools` are those of the front end.

import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";
const { HttpAgent, buildResumeArray } = await import(pathToFileURL(process.argv[2]));

const [, , , url, threadId] = process.argv;
const agent = new HttpAgent({ url, threadId });
let count = 0;
let last = {};

async function run(more) {
  const kinds = [];
  const seen = { kinds, error: null, outcome: null, custom: [], activities: {}, subagents: [] };
  try {
    await agent.runAgent(more, {
      onEvent: ({ event }) => void kinds.push(event.type),
      onRunErrorEvent: ({ event }) => void (seen.error = event.message),
      onRunFinishedEvent: ({ event }) => void Object.assign(seen, { outcome: event.outcome, result: event.result, usage: event.usage }),
      onCustomEvent: ({ event }) => void seen.custom.push([event.name, event.value]),
      onActivitySnapshotEvent: ({ event }) => void (seen.activities[event.activityType] = event.content),
      onSubagentStartedEvent: ({ event }) => void seen.subagents.push(event.name),
    });
  } catch (error) {
    seen.error = String(error.message ?? error);
  }
  last = seen;
  console.log(JSON.stringify({ ...seen, messages: agent.messages, state: agent.state }));
}

const steps = {
  async send(text, step) {
    agent.addMessage({ id: `u${count++}`, role: "user", content: text });
    await run({ tools: step.tools, context: step.context });
  },
  async resume(payload) {
    const answers = Object.fromEntries(last.outcome.interrupts.map((one) => [one.id, { status: "resolved", payload }]));
    await run({ resume: buildResumeArray(last.outcome.interrupts, answers) });
  },
  async result(value, step) {
    for (const id of last.outcome.pendingToolCallIds)
      agent.addMessage({ id: `t${count++}`, role: "tool", toolCallId: id, content: JSON.stringify(value) });
    await run({ tools: step.tools });
  },
  async again() {
    await run({});
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const step = JSON.parse(line);
  for (const [name, value] of Object.entries(step)) if (steps[name]) await steps[name](value, step);
}
