// Generated from toolcrib.events by `make generate`.

/** A call was accepted. */
export interface Accepted {
  /** Id of the tool, or the name that was asked for where there is no such tool. */
  tool: string;
  /** One line for people that says what the call does. */
  label: string;
  /** Arguments as they came, with secrets masked; null where they were too large. */
  args: unknown;
  /** Who asked for it. */
  by: CallerRecord;
  /** Digest of what will run. */
  digest: string;
  /** `read`, `idempotent` or `once`. */
  effect: "idempotent" | "once" | "read";
  /** Whether it runs in the background; absent where nobody said so. */
  background?: boolean | null;
  /** What its result does: `wake`, `next_turn` or `silent`. */
  wake?: "next_turn" | "silent" | "wake" | null;
  /** Run that made it. */
  run?: string | null;
  /** Agent that made it. */
  agent?: string | null;
  /** Model turn that made it. */
  turn?: string | null;
  /** Id that a model's provider gave the call. */
  provider_id?: string | null;
  /** Idempotency key. */
  key?: string | null;
  /** Timeout that its caller wanted. */
  timeout_s?: number | null;
  /** Call that made it. */
  parent?: string | null;
  /** Tools of the calls that wait for it. */
  within?: string[] | null;
  /** Digest of the arguments that came, where they are secret. */
  given?: string | null;
  /** Whether its arguments are kept apart from the log. */
  secret?: boolean;
  /** Version of the tool that it was accepted for. */
  version?: string | null;
  /** Span that it was made in, as the header `traceparent` writes it, where calls are traced. */
  trace?: string | null;
}

/** An owner connected an account; in the session `toolcrib.accounts`. */
export interface AccountConnected {
  /** Name of the account. */
  account: string;
  /** Whose calls use it. */
  owner: string;
  /** Who connected it. */
  by: string;
  /** What its server allows with it. */
  scopes: string[];
  /** When its token expires, in seconds since 1970. */
  expires_at: number | null;
  /** Under which id the tokens are kept, encrypted. */
  secret: string;
}

/** An account is not connected any more; in the session `toolcrib.accounts`. */
export interface AccountDisconnected {
  /** Name of the account. */
  account: string;
  /** Whose it was. */
  owner: string;
  /** Who removed it; `toolcrib` where its server gave no new token. */
  by: string;
  /** Why: `removed`, or what the server said. */
  reason: string;
}

/** This program was registered with the server of an account; in the session `toolcrib.accounts`. */
export interface AccountRegistered {
  /** Name of the account. */
  account: string;
  /** Server that registered it. */
  issuer: string;
  /** Address that people come back to. */
  redirect_uri: string;
  /** Under which id is kept, encrypted, as whom it was registered. */
  secret: string;
}

/** The token of an account was replaced by a newer one; in the session `toolcrib.accounts`. */
export interface AccountRenewed {
  /** Name of the account. */
  account: string;
  /** Whose it is. */
  owner: string;
  /** When the new token expires, in seconds since 1970. */
  expires_at: number | null;
  /** Under which id the tokens are kept from now on, encrypted. */
  secret: string;
}

/** An owner was led to the server of an account, to agree there; in the session `toolcrib.accounts`. */
export interface AccountRequested {
  /** Name of the account. */
  account: string;
  /** Who has to agree. */
  owner: string;
  /** Who began it. */
  by: string;
  /** Under which id is kept, encrypted, what is needed when they come back. */
  secret: string;
}

/** What a call shows of its work: a snapshot or a change of it. */
export interface Activity {
  /** What it is; a snapshot replaces the one before of its type. */
  type: string;
  /** The snapshot. */
  content?: unknown;
  /** JSON Patch operations on what is shown. */
  patch?: (Record<string, unknown>)[] | null;
}

/** A question was answered. */
export interface Answered {
  /** Id of the question. */
  question: string;
  /** `accept`, `decline`, `cancel` or `fail`. */
  action: "accept" | "cancel" | "decline" | "fail";
  /** Who answered. */
  actor: string;
  /** How the same answer is recognised when it comes again. */
  key: string;
  /** The value that was asked for. */
  value?: unknown;
  /** Why, in the words of whoever answered. */
  reason?: string | null;
  /** `once`, or `session` where more calls like this one are allowed. */
  scope: "once" | "session";
  /** Arguments that take the place of those in the question. */
  args?: Record<string, unknown> | null;
  /** What these come down to: paths after links, hosts, programs. */
  resolved?: string[] | null;
}

/** A person allowed more calls like one for the whole session. */
export interface Approved {
  /** Rule that was added. */
  offer: string;
  /** Who allowed it. */
  actor: string;
  /** Id of the question that was answered so. */
  question: string;
}

/** A call that a model made in its message. */
export interface CallRequestRecord {
  /** Id that the call has in this log. */
  id: string;
  /** Name of the tool as the model said it. */
  tool: string;
  /** Arguments as JSON text. */
  args: string;
  /** Id that the provider gave the call. */
  provider_id: string | null;
  /** Whether the arguments are kept apart from the log. */
  secret?: boolean;
}

/** Who asked for a call. */
export interface CallerRecord {
  /** `user`, `agent`, `tool` or `client`. */
  kind: string;
  /** Name of the agent, id of the tool, or whatever the program calls the user. */
  name?: string;
}

/** One change of session state. */
export interface Change {
  op: "add" | "append" | "delete" | "merge" | "set";
  key: string;
  value?: unknown;
}

/** A summary took the place of the oldest part of a conversation, for the model alone. */
export interface Compacted {
  /** Id of the run. */
  run: string;
  /** Agent whose view was compacted. */
  agent: string;
  /** Number of the first event that is summarised. */
  from_seq: number;
  /** Number of the last one. */
  to_seq: number;
  /** The summary. */
  summary: string;
  /** How often the model was asked for it, where not once. */
  asked?: number | null;
  /** What the model was asked for it. */
  request?: ModelRequestRecord | null;
}

/** Who has to agree before a call runs. */
export interface DemandRecord {
  /** People and groups that may approve; without it everybody who may answer. */
  approvers?: string[];
  /** How many of them have to say yes. */
  quorum: number;
  /** Seconds after which `escalate_to` may approve as well. */
  escalate_s?: number | null;
  /** People and groups that may approve later. */
  escalate_to?: string[];
}

/** A call ended. Each call has one. */
export interface Done {
  /** Whether it succeeded. */
  ok: boolean;
  /** Why it did not. */
  failure?: Failure | null;
  /** What the policy said, where that is why. */
  verdict?: VerdictRecord | null;
  /** Its result as JSON. */
  data?: unknown;
  /** What the tool says of its success. */
  message?: string | null;
  /** Blocks of its result. */
  content?: (Record<string, unknown>)[] | null;
  /** Wish that another agent goes on: `{to, reason, message}`. */
  handover?: unknown;
  /** What else there is to know of the result. */
  metadata?: Record<string, unknown> | null;
  /** Whether it ran in the background. */
  background?: boolean;
  /** What its result does: `wake`, `next_turn` or `silent`. */
  wake?: "next_turn" | "silent" | "wake" | null;
  /** Milliseconds that it ran. */
  duration_ms: number;
  /** Changes of the session's state. */
  state?: StateRecord | null;
  /** Rule of the policy that decided about the call, where one did. */
  rule?: string | null;
}

/** A call brought something about, as its tool says; written with its end. */
export interface EffectReported {
  /** What it is, in the words of the tool. */
  type: string;
  /** What there is to know of it. */
  data?: unknown;
}

/** One of several people who have to agree said yes. */
export interface Endorsed {
  /** Id of the question. */
  question: string;
  /** `accept`. */
  action: "accept" | "cancel" | "decline" | "fail";
  /** Who said yes. */
  actor: string;
  /** How the same answer is recognised when it comes again. */
  key: string;
  /** The value that was asked for. */
  value?: unknown;
  /** Why, in the words of whoever answered. */
  reason?: string | null;
  /** `once` or `session`. */
  scope: "once" | "session";
  /** Arguments that take the place of those in the question. */
  args?: Record<string, unknown> | null;
  /** Absent: no arguments are changed where several have to agree. */
  resolved?: string[] | null;
}

/** A line for people and for the model. In the data of the event `more` stands beside `text`. */
export interface ErrorNotice {
  /** The line. */
  text?: string;
  [more: string]: unknown;
}

/** More people may approve a call from now on. */
export interface Escalated {
  /** Id of the question. */
  question: string;
  /** People and groups that may approve as well. */
  to: string[];
}

/** Why a call did not succeed: a stable code, a message for the model, whether to try again, and a hint. `reason` is the tool's own code, such as `INSUFFICIENT_FUNDS`, where it has one. */
export interface Failure {
  code: string;
  message: string;
  retryable?: boolean;
  hint?: string | null;
  reason?: string | null;
}

/** The time of a scheduled call has come. */
export interface Fired {
  /** Id of the schedule. */
  schedule: string;
  /** When it was to be made; absent where it waited for another call. */
  due?: number | null;
  /** Call that the schedule makes next. */
  next?: string | null;
}

/** Another agent goes on. */
export interface HandedOver {
  /** Run that is handed over; absent between runs. */
  run?: string | null;
  /** Agent that hands over; `from` in the data of the event. */
  from: string;
  /** Agent that goes on. */
  to: string;
  /** Why; `user` where a user chose the agent, `returned` for the way back. */
  reason?: string | null;
  /** What the other agent is asked. */
  message?: string | null;
  /** Call that handed over. */
  call?: string | null;
  /** How much of the conversation is passed on. */
  history?: PassedHistory | null;
  /** Whether the agent comes back when the other has answered. */
  returns?: boolean;
  /** How often the model was asked for the summary, where that is not as usual. */
  asked?: number | null;
  /** What the model was asked for the summary. */
  request?: ModelRequestRecord | null;
}

/** An MCP client answered one of several requests that a question holds. */
export interface InputGiven {
  /** Id of the question. */
  question: string;
  /** Name of the request within the question. */
  name: string;
  /** What the client answered. */
  response: unknown;
  /** Who answered. */
  actor: string;
}

/** The calls and the run in the foreground were stopped. */
export interface Interrupted {
  /** Whether calls in the background were stopped too. */
  background: boolean;
}

/** An API key was made; in the session `toolcrib.keys`. */
export interface KeyAdded {
  /** Id of the key. */
  id: string;
  /** Digest of the key, which itself is kept nowhere. */
  digest: string;
  /** Whose sessions it opens. */
  owner: string;
  /** Who made it. */
  by: string;
  /** Name for people. */
  name: string;
  /** What it may be used for. */
  scopes: string[];
  /** When it expires, in seconds since 1970. */
  expires_at: number | null;
  /** Namespaces that it opens; null for all. */
  namespaces: string[] | null;
}

/** An API key opens nothing any more; in the session `toolcrib.keys`. */
export interface KeyRevoked {
  /** Id of the key. */
  id: string;
  /** Who revoked it. */
  by: string;
}

/** An API key was used; written once an hour at most, in the session `toolcrib.keys`. */
export interface KeyUsed {
  /** Id of the key. */
  id: string;
}

/** Somebody said something in a conversation. */
export interface MessageAdded {
  /** `user`, `assistant`, or `note` for what the model is told by the program. */
  role: "assistant" | "note" | "user";
  /** The text. */
  content: string;
  /** Calls in the background whose results the note tells. */
  results?: string[] | null;
  /** How far the output of calls has been told, by call. */
  told?: Record<string, number> | null;
  /** Run that it belongs to. */
  run: string | null;
  /** Turn of the run. */
  turn?: number | null;
  /** Agent that said it. */
  agent?: string | null;
  /** Tokens of the reply, and their cost where it is known. */
  usage?: Record<string, number> | null;
  /** Why the reply ended: `stop`, `calls`, `length`, or the provider's own word. */
  finish?: string | null;
  /** How often the model was asked for it, where not once. */
  asked?: number | null;
  /** What the provider wants back with it. */
  kept?: unknown;
  /** Calls that the model made in it. */
  calls?: CallRequestRecord[] | null;
  /** Number of the `message_queued` that it was before. */
  queued?: number | null;
  /** Idempotency key. */
  key?: string | null;
  /** Texts and files of a message that has files; these are references, and `content` has placeholders. */
  parts?: (Record<string, unknown>)[] | null;
  /** What the model was asked for it. */
  request?: ModelRequestRecord | null;
}

/** A message came while a run was under way. */
export interface MessageQueued {
  /** `followup`, `steer`, `collect` or `interrupt`. */
  mode: string;
  /** The message. */
  text: string;
  /** Idempotency key. */
  key?: string | null;
  /** Agent that is to answer. */
  agent?: string | null;
  /** Run that it is for. */
  run?: string | null;
  /** Id of the message. */
  id?: string | null;
  /** Texts and files of a message that has files. */
  parts?: (Record<string, unknown>)[] | null;
  /** Model that all agents of its run speak with. */
  model?: string | null;
  /** Most turns of each agent in its run. */
  max_turns?: number | null;
}

/** What a model was asked: with the events before it, enough to show the request as the model saw it. */
export interface ModelRequestRecord {
  /** Number of the last event that it was made of. */
  seq: number;
  /** Digest of the instructions, which are kept beside the log. */
  instructions: string;
  /** Digest of the tools, which are kept beside the log. */
  tools: string;
  /** Digest of the messages that follow the instructions. */
  messages: string;
  /** When it was asked, in seconds since 1970, where that was not when its turn started. */
  at?: number | null;
  /** Which files the model takes, where there were any. */
  files?: Record<string, unknown> | null;
  /** Whether it was asked again without files, since it refused them. */
  bare?: boolean;
}

/** The session may use other tools from now on. */
export interface NamespacesChanged {
  /** Namespaces whose tools it may use. */
  namespaces: string[];
  /** Ids of these tools. */
  tools: string[];
  /** Whether rights were taken away, which only a caller who may open everything gives back. */
  narrowed?: boolean;
  /** Whether such a caller gave them back. */
  widened?: boolean;
  /** All grants that narrow it. */
  grants?: unknown[] | null;
}

/** A line for people; the model does not read it. In the data of the event `more` stands beside `text`. */
export interface Notice {
  /** The line. */
  text?: string;
  [more: string]: unknown;
}

/** The session was opened. */
export interface Opened {
  /** Who it belongs to. */
  owner: string;
  /** Namespaces whose tools it may use. */
  namespaces: string[];
  /** Ids of these tools. */
  tools: string[];
  /** Whether it existed before. */
  restored: boolean;
  /** Rights that it was opened with. */
  grants?: unknown[] | null;
}

/** A piece of a call's output: a text or a value. */
export interface Output {
  /** Text that continues the output. */
  delta?: string | null;
  /** A value that stands for itself. */
  value?: unknown;
}

/** How much of a conversation a handover passes on. */
export interface PassedHistory {
  /** `full`, `none`, `summary` or `{"last": n}`. */
  policy: unknown;
  /** Number of the first event that is passed on. */
  from_seq?: number | null;
  /** Number of the last one. */
  to_seq?: number | null;
  /** Digest of the messages that are passed on. */
  digest?: string | null;
  /** The summary, where that is what is passed on. */
  summary?: string | null;
}

/** A call waits for calls that it made and that wait for somebody. */
export interface Paused {
  /** Ids of these calls; the call goes on when one of them ends. */
  children: string[];
}

/** How far a call is. */
export interface Progress {
  /** `running`, or what the tool says. */
  status: string;
  /** Part that is done, from 0 to 1. */
  progress?: number | null;
  /** How much is done. */
  loaded?: number | null;
  /** How much there is to do. */
  total?: number | null;
  /** One line for people. */
  message?: string | null;
}

/** What a waiting call waits for. */
export interface QuestionRecord {
  /** Id of the question; it begins with the id of its call. */
  id: string;
  /** Id of the call. */
  call: string;
  /** Id of the session. */
  session: string;
  /** Id of the tool. */
  tool: string;
  /** `confirm`, `input`, `client` or `external`. */
  kind: "client" | "confirm" | "external" | "input";
  /** What whoever answers reads. */
  prompt: string;
  /** How the tool recognises the question when it runs again. */
  key: string;
  /** The final arguments, with defaults filled in. */
  arguments: Record<string, unknown>;
  /** JSON Schema of the value that is wanted. */
  schema: unknown;
  /** How the call goes on: `run`, `use`, `pass` or `pass_any`. */
  resume: "pass" | "pass_any" | "run" | "use";
  /** Digest of what is approved. */
  digest: string;
  /** Agents from the top down to the one that called. */
  path: string[];
  /** When it was asked, in seconds since 1970. */
  asked_at: number;
  /** When it expires, in seconds since 1970. */
  expires_at: number;
  /** Rule that an approval for the whole session would add. */
  offer?: string | null;
  /** Who has to agree, where rules say so. */
  demands?: (Record<string, unknown>)[] | null;
  /** More for whoever answers, as JSON. */
  data?: unknown;
}

/** A piece of what the model thinks while it does. */
export interface ReasoningStreamed {
  /** Id of the run. */
  run: string;
  /** Number of the turn. */
  turn: number;
  /** The piece. */
  delta: string;
}

/** What lived in the state for a run is gone. */
export interface RunEnded {
  /** Id of the run. */
  run: string;
}

/** A run is over. Each `run_started` has one. */
export interface RunFinished {
  /** Id of the run. */
  run: string;
  /** Agent that ran it last. */
  agent: string;
  /** `answered`, `stopped`, `failed` or `cancelled`. */
  reason: string;
  /** Code of the failure, or the limit that was reached. */
  code?: string | null;
  /** More about it. */
  detail?: string | null;
  /** What it answered. */
  answer?: unknown;
  /** How often the model was asked without the log being told. */
  asked?: number | null;
  /** How many turns it took. */
  turns: number;
  /** Tokens of the whole run, and their cost where it is known. */
  usage: Record<string, number>;
  /** What the model was asked last, where it did not reply. */
  request?: ModelRequestRecord | null;
}

/** A run goes on. */
export interface RunResumed {
  /** Id of the run. */
  run: string;
}

/** A run of an agent started. */
export interface RunStarted {
  /** Id of the run. */
  run: string;
  /** Agent that begins it. */
  agent: string;
  /** Why: `user`, `wake`, `call` or `api`. */
  origin: string;
  /** Call that the run belongs to. */
  call?: string | null;
  /** Digest of the agent's definition. */
  definition?: string | null;
  /** Run that made that call. */
  parent?: string | null;
  /** Model that all its agents speak with, in place of those of their definitions. */
  model?: string | null;
  /** Most turns of each of its agents, in place of those of their definitions. */
  max_turns?: number | null;
  /** Span that it was asked for in, as the header `traceparent` writes it, where runs are traced. */
  trace?: string | null;
}

/** A run waits for people. */
export interface RunWaiting {
  /** Id of the run. */
  run: string;
  /** Ids of the questions that it waits for. */
  questions: string[];
}

/** A call waits for its time. */
export interface Scheduled {
  /** Id of the schedule: that of its first call. */
  schedule: string;
  /** When it is to be made; absent where it waits for another call. */
  due?: number | null;
  /** Call whose end it waits for. */
  when?: string | null;
  /** Cron expression by which it is made again and again. */
  cron?: string | null;
  /** Time zone of the cron expression. */
  timezone?: string | null;
  /** What becomes of runs that nothing was there to make: `skip`, `once` or `all`. */
  missed?: "all" | "once" | "skip";
  /** How many missed runs are made at the most. */
  limit?: number;
  /** Call that scheduled it. */
  parent?: string | null;
  /** When it was due before, where that run was missed and left out. */
  skipped?: number | null;
}

/** A logout is over. */
export interface SessionClosed {
  /** Calls that ended meanwhile. */
  finished: number;
  /** Calls that were ended. */
  timed_out: number;
  /** Calls that wait for somebody. */
  waiting: number;
  /** Results that the model has not read. */
  undelivered: number;
}

/** A logout began. */
export interface SessionClosing {
  /** Seconds after which what still runs is ended. */
  timeout_s: number;
}

/** What is left of a session that was deleted; in the session `toolcrib.deleted`. */
export interface SessionDeleted {
  /** Id of the session. */
  session: string;
  /** Who it belonged to. */
  owner: string;
  /** Who deleted it. */
  actor: string;
  /** When, in seconds since 1970. */
  at: number;
  /** How many events it had. */
  events: number;
  /** How many calls it had. */
  calls: number;
  /** Digest of its log. */
  sha256: string;
  /** All namespaces that were ever open in it. */
  namespaces?: string[] | null;
}

/** A call that ended `unknown` got its outcome after all; takes the place of its `done`. */
export interface Settled {
  /** Whether it succeeded. */
  ok: boolean;
  /** Why it did not. */
  failure?: Failure | null;
  /** What the policy said, where that is why. */
  verdict?: VerdictRecord | null;
  /** Its result as JSON. */
  data?: unknown;
  /** What the tool says of its success. */
  message?: string | null;
  /** Blocks of its result. */
  content?: (Record<string, unknown>)[] | null;
  /** Wish that another agent goes on: `{to, reason, message}`. */
  handover?: unknown;
  /** What else there is to know; `settled_by` and `reason` where a person settled it. */
  metadata?: Record<string, unknown> | null;
  /** Whether it ran in the background. */
  background?: boolean;
  /** What its result does: `wake`, `next_turn` or `silent`. */
  wake?: "next_turn" | "silent" | "wake" | null;
  /** Milliseconds that it ran. */
  duration_ms: number;
  /** Changes of the session's state. */
  state?: StateRecord | null;
  /** Rule of the policy that decided about the call, where one did. */
  rule?: string | null;
}

/** An administrator added a source while the crib ran; in the session `toolcrib.sources`. */
export interface SourceAdded {
  /** Id of this addition. */
  id: string;
  /** Name of the source. */
  name: string;
  /** Its settings; secrets stand in it as references. */
  entry: Record<string, unknown>;
  /** Who added it. */
  by: string;
}

/** An administrator removed a source that had been added; in the session `toolcrib.sources`. */
export interface SourceRemoved {
  /** Name of the source. */
  name: string;
  /** Who removed it. */
  by: string;
}

/** An administrator disabled or enabled a source; in the session `toolcrib.sources`. */
export interface SourceSwitched {
  /** Name of the source. */
  name: string;
  /** Whether its tools can be used from now on. */
  enabled: boolean;
  /** Who did it. */
  by: string;
}

/** The body of a call started. */
export interface Started {
  /** 1, and more after a crash or an answer. */
  attempt: number;
  /** Arguments that it runs with, with secrets masked. */
  args: unknown;
  /** Digest of what runs. */
  digest: string;
  /** Seconds that it may take. */
  timeout_s: number | null;
  /** Why it may run. */
  verdict?: VerdictRecord | null;
}

/** What a process declared of state keys when it started; in the session `toolcrib.state`. */
export interface StateKeysDeclared {
  /** Name of the process. */
  worker: string;
  /** How each key may be changed. */
  keys: Record<string, unknown>;
  /** Numbers of its keys for secret arguments, where it was given some; the first encrypts. */
  secrets?: string[];
}

/** Changes of the session's state that a call committed. */
export interface StateRecord {
  /** Revision that the call started from. */
  base: number;
  /** Revision that it made. */
  revision: number;
  /** The changes, in order. */
  changes: Change[];
  /** How each key may be changed. */
  keys?: Record<string, unknown> | null;
  /** Run that its run-scoped keys belong to. */
  run?: string | null;
}

/** How a step failed. */
export interface StepFailure {
  /** Code of the failure. */
  code: string;
  /** What the model reads. */
  message: string;
  /** Whether to try again; null leaves that to the code. */
  retryable?: boolean | null;
  /** Advice for the model. */
  hint?: string | null;
  /** The tool's own code. */
  reason?: string | null;
}

/** A step of a call ran; later passes of the call take its outcome from here. */
export interface StepTaken {
  /** Name of the step within its call. */
  key: string;
  /** What it returned. */
  value?: unknown;
  /** Where the value is kept that tells a secret. */
  kept?: string | null;
  /** How it failed. */
  failure?: StepFailure | null;
}

/** Another process that runs a call is asked to stop it. */
export interface StopWanted {
  /** Id of the call. */
  call: string;
  /** How the call is to end. */
  failure: Failure;
}

/** A piece of the model's answer while it speaks. */
export interface TextStreamed {
  /** Id of the run. */
  run: string;
  /** Number of the turn. */
  turn: number;
  /** The piece. */
  delta: string;
}

/** What a tool of a stranger looks like; in the session `toolcrib.pins`. */
export interface ToolPinned {
  /** Id of the tool. */
  tool: string;
  /** Digest of each part. */
  parts: Record<string, string>;
  /** Who accepted it; absent where it was seen for the first time. */
  by?: string | null;
  /** To whom it was shown, where its server lists tools for each owner. */
  owner?: string | null;
}

/** The tools of the session changed. */
export interface ToolsChanged {
  /** Ids of the tools that it may use. */
  tools: string[];
  /** Definitions of the tools that its client runs, where those changed. */
  client?: (Record<string, unknown>)[] | null;
}

/** A turn is over, with all calls that it made. */
export interface TurnFinished {
  /** Id of the run. */
  run: string;
  /** Number of the turn. */
  turn: number;
  /** Agent that asked. */
  agent: string;
  /** Name of the model, where it has one. */
  model: string | null;
  /** Tokens of the turn, and their cost where it is known. */
  usage: Record<string, number>;
  /** Why the reply ended. */
  finish: string;
  /** Milliseconds that it took. */
  duration_ms: number;
}

/** The model is asked. */
export interface TurnStarted {
  /** Id of the run. */
  run: string;
  /** Number of the turn, from 1. */
  turn: number;
  /** Agent that asks. */
  agent: string;
  /** Name of the model, where it has one. */
  model: string | null;
  /** Whether it is to answer without calling tools. */
  last?: boolean;
}

/** What the client says of its user. The data of the event is `values` itself. */
export type UserState = Record<string, unknown>;

/** What the policy said of a call. */
export interface VerdictRecord {
  /** `allow`, `ask` or `deny`. */
  effect: string;
  /** What decided: `namespace`, `capability`, `rule`, `default` or `limit`. */
  by: string;
  /** Why, for people. */
  message?: string;
  /** The rule that decided. */
  rule?: string | null;
  /** The capability that decided. */
  capability?: string | null;
  /** Every rule that was looked at. */
  detail?: string[];
  /** Who has to agree. */
  demands?: DemandRecord[];
}

/** A call waits for an answer. */
export interface Waiting {
  /** What it waits for. */
  question: QuestionRecord;
  /** What the policy said of the call. */
  verdict?: VerdictRecord | null;
  /** Changes of the session's state that were committed with the question. */
  state?: StateRecord | null;
}

/** The data of each kind of event. */
export interface EventKinds {
  accepted: Accepted;
  scheduled: Scheduled;
  fired: Fired;
  waiting: Waiting;
  answered: Answered;
  endorsed: Endorsed;
  escalated: Escalated;
  started: Started;
  progress: Progress;
  output: Output;
  activity: Activity;
  step: StepTaken;
  effect: EffectReported;
  paused: Paused;
  done: Done;
  settled: Settled;
  opened: Opened;
  namespaces: NamespacesChanged;
  tools_changed: ToolsChanged;
  user_state: UserState;
  notice: Notice;
  error: ErrorNotice;
  input: InputGiven;
  run_ended: RunEnded;
  approved: Approved;
  interrupted: Interrupted;
  stop_wanted: StopWanted;
  closing: SessionClosing;
  closed: SessionClosed;
  pinned: ToolPinned;
  state_keys: StateKeysDeclared;
  deleted: SessionDeleted;
  key_added: KeyAdded;
  key_used: KeyUsed;
  key_revoked: KeyRevoked;
  account_connected: AccountConnected;
  account_renewed: AccountRenewed;
  account_disconnected: AccountDisconnected;
  account_requested: AccountRequested;
  account_registered: AccountRegistered;
  source_added: SourceAdded;
  source_switched: SourceSwitched;
  source_removed: SourceRemoved;
  message: MessageAdded;
  message_queued: MessageQueued;
  run_started: RunStarted;
  turn_started: TurnStarted;
  text: TextStreamed;
  reasoning: ReasoningStreamed;
  turn_finished: TurnFinished;
  handover: HandedOver;
  compacted: Compacted;
  run_waiting: RunWaiting;
  run_resumed: RunResumed;
  run_finished: RunFinished;
}
