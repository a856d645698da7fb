// Generated from the routes of toolcrib.serve.api by `make generate`.

import type { SessionDeleted } from "./events";

/** That a message was taken: by which run, unless it waits in the queue. Follow the events past `seq`. */
export interface AcceptedMessage {
  key: string;
  seq: number;
  run?: string | null;
}

/** An account; without an owner, one that could be connected. `expired_at` and `reason` say that it was connected and its server gave no new token. `connect_url` is where whoever asks connects it. */
export interface AccountForm {
  name: string;
  grant: string;
  owner?: string | null;
  by?: string | null;
  scopes?: string[];
  connected_at?: number | null;
  renewed_at?: number | null;
  expires_at?: number | null;
  expired_at?: number | null;
  reason?: string | null;
  connect_url?: string | null;
}

/** A key of an owner, for an account that takes one. */
export interface AccountKey {
  key: string;
}

/** Connected accounts, then those that could be. */
export interface AccountList {
  items: AccountForm[];
}

/** An agent; `definition` is its file, with its instructions, for who looks after the server. */
export interface AgentDetail {
  name: string;
  description: string;
  tools: string[];
  max_turns: number;
  model?: string | null;
  exclude?: string[];
  default?: boolean;
  definition?: Record<string, unknown>;
}

/** An agent; `model` is the name of what it speaks with. */
export interface AgentForm {
  name: string;
  description: string;
  tools: string[];
  max_turns: number;
  model?: string | null;
  exclude?: string[];
  default?: boolean;
}

/** All agents, and who may reach whom. */
export interface AgentsForm {
  items: AgentForm[];
  edges: Edge[];
}

/** Which calls, of whom, by which agent, of which source, how they ended, and when they were accepted. An empty `agent` stands for calls that no agent made, an empty `source` for tools that no source has now. `ok` leaves those that succeeded, or that did not; `rule` those that a rule of the policy decided, and `waited` those that waited for somebody. With `over=ended` calls are listed as they ended, each once, with `until` no more in it: these are the calls behind the numbers of `/v1/stats`. */
export interface AllCalls {
  state?: "cancelled" | "failed" | "queued" | "running" | "streaming" | "succeeded" | "timed_out" | "unknown" | "waiting" | null;
  tool?: string | null;
  after?: string | null;
  limit?: number;
  owner?: string | null;
  agent?: string | null;
  source?: string | null;
  code?: string | null;
  ok?: boolean | null;
  rule?: string | null;
  waited?: boolean | null;
  over?: "accepted" | "ended";
  since?: number;
  until?: number | null;
}

/** What came back to a question. */
export interface AnswerForm {
  question: string;
  action: "accept" | "cancel" | "decline" | "fail";
  actor: string;
  key: string;
  at: number;
  scope: "once" | "session";
  value?: unknown;
  arguments?: Record<string, unknown> | null;
  reason?: string | null;
}

/** A page of the audit, the newest first; where there is more, all that ended since `reached` was looked at. */
export interface AuditForm {
  items: (Record<string, unknown>)[];
  next?: string | null;
  reached?: number | null;
}

/** Which entries: `who` asked or approved, `q` is a part of the arguments or the message. Of lines, `past` is a cursor `SESSION:SEQ`, or several with commas: only what is past it in its session. */
export interface AuditQuery {
  who?: string | null;
  tool?: string | null;
  outcome?: string | null;
  session?: string | null;
  owner?: string | null;
  since?: number | null;
  until?: number | null;
  q?: string | null;
  after?: string | null;
  past?: string | null;
  limit?: number;
}

/** Which bytes. */
export interface ByteRange {
  offset?: number;
  limit?: number;
}

/** A call with all that its log says of it. */
export interface CallDetail {
  id: string;
  tool: string;
  label: string;
  status: "cancelled" | "failed" | "queued" | "running" | "streaming" | "succeeded" | "timed_out" | "unknown" | "waiting";
  background: boolean;
  accepted_at: number;
  seq: number;
  provider_id?: string | null;
  started_at?: number | null;
  done_at?: number | null;
  session?: string | null;
  owner?: string | null;
  by?: Record<string, string> | null;
  parent?: string | null;
  result?: unknown | ResultForm | null;
  large?: Record<string, number> | null;
  args?: unknown;
  digest?: string;
  run?: string | null;
  agent?: string | null;
  verdict?: Record<string, unknown> | null;
  question?: QuestionForm | null;
  edited?: Record<string, unknown> | null;
}

/** A call that was accepted. */
export interface CallForm {
  id: string;
  session: string;
  tool: string;
  args: unknown;
  by: Record<string, string>;
  label: string;
  digest: string;
  status?: "cancelled" | "failed" | "queued" | "running" | "streaming" | "succeeded" | "timed_out" | "unknown" | "waiting" | null;
  provider_id?: string | null;
  run?: string | null;
  parent?: string | null;
  background?: boolean;
}

/** What ended in some time: calls, waits for answers, turns of models; and how many sessions were made. Times are those within which so many of 100 calls or waits took, exact to 5 in 100; None where there was none. */
export interface CallNumbers {
  calls: number;
  failures: Record<string, number>;
  p50_ms: number | null;
  p95_ms: number | null;
  p99_ms: number | null;
  waits: number;
  waited_p50_ms: number | null;
  waited_p95_ms: number | null;
  turns: number;
  input_tokens: number;
  output_tokens: number;
  cost: number;
  sessions: number;
}

/** What the server of an account sends back. */
export interface CallbackQuery {
  state: string;
  code?: string | null;
  iss?: string | null;
  error?: string | null;
}

/** Which calls. */
export interface CallsQuery {
  state?: "cancelled" | "failed" | "queued" | "running" | "streaming" | "succeeded" | "timed_out" | "unknown" | "waiting" | null;
  tool?: string | null;
  after?: string | null;
  limit?: number;
}

/** Whether there was something to stop. */
export interface Cancelled {
  cancelled: boolean;
}

/** What a page sends: the chat, all its messages, and why. */
export interface ChatRequest {
  id: string;
  messages: UiMessage[];
  trigger?: string | null;
}

/** A tool that the client runs: its id is `client.` and its name, which no other tool of the session has. A call of it is checked against `input_schema` and the policy, then waits with a question of the kind `client` for 15 minutes. Whoever runs it answers: `accept` with a value, which has to fit `output_schema`, or `fail` with a reason. `input_schema` describes an object; both are JSON Schemas of draft 2020-12. */
export interface ClientTool {
  name: string;
  description: string;
  namespace?: string;
  title?: string | null;
  category?: string | null;
  tags?: string[];
  input_schema?: Record<string, unknown> | null;
  output_schema?: Record<string, unknown> | null;
  capabilities?: string[];
  effect?: "idempotent" | "once" | "read" | null;
  annotations?: ClientToolAnnotations | null;
  limits?: ClientToolLimits | null;
  metadata?: Record<string, unknown>;
}

/** What a tool says of itself; each is false unless said. */
export interface ClientToolAnnotations {
  read_only?: boolean;
  destructive?: boolean;
  idempotent?: boolean;
  open_world?: boolean;
  requires_confirmation?: boolean;
}

/** Bounds of a tool; without one that of the server holds. `wait_s` is how long a call waits for its client. After `repeat` failures of the same call in a row the next is refused, with null none is. */
export interface ClientToolLimits {
  timeout_s?: number | null;
  output_bytes?: number | null;
  concurrency?: number | null;
  wait_s?: number | null;
  repeat?: "default" | number | null;
  idle_timeout?: number | null;
  rate?: string | null;
}

/** All tools that the client runs; those that it offered before are replaced. */
export interface ClientToolsForm {
  tools: ClientTool[];
}

/** How long what runs may take. */
export interface Close {
  timeout?: number;
}

/** What a logout found. */
export interface ClosedForm {
  finished: number;
  timed_out: number;
  waiting: number;
  undelivered: number;
}

/** The nodes and what they have to do; both are empty where one process does all. */
export interface Cluster {
  nodes: NodeForm[];
  lanes: LaneForm[];
}

/** Rights to ask for beside the usual ones. */
export interface ConnectQuery {
  scope?: string | null;
}

/** With `force` what runs in it is stopped first. */
export interface DeleteQuery {
  force?: boolean;
}

/** That one agent may reach another, and how. `count` says how often it did in the last week. */
export interface Edge {
  source: string;
  target: string;
  via: "call" | "transfer";
  returns?: boolean;
  count?: number;
}

/**  */
export interface Entries {
  items: EntryForm[];
  next?: string | null;
  hint?: string | null;
}

/** A call as lists show it. */
export interface EntryForm {
  id: string;
  tool: string;
  label: string;
  status: "cancelled" | "failed" | "queued" | "running" | "streaming" | "succeeded" | "timed_out" | "unknown" | "waiting";
  background: boolean;
  accepted_at: number;
  seq: number;
  provider_id?: string | null;
  started_at?: number | null;
  done_at?: number | null;
  session?: string | null;
  owner?: string | null;
  by?: Record<string, string> | null;
  parent?: string | null;
  result?: unknown | ResultForm | null;
  large?: Record<string, number> | null;
}

/** Why something was not done: `code` is stable, `message` is for people, `hint` says what to do next. */
export interface ErrorDetail {
  code: string;
  message: string;
  hint?: string | null;
  retry_after?: number | null;
  trace?: string | null;
}

/** The body of every answer that is no success. */
export interface ErrorForm {
  error: ErrorDetail;
}

/** One line of a session's log. Where values of its data are large, `large` has their bytes by name, and what stands in their place says where the whole event is read: `{"$large": {"bytes": 912345, "href": "/v1/sessions/s/events/7"}}`. */
export interface EventForm {
  session: string;
  seq: number;
  time: number;
  call: string | null;
  kind: string;
  data: Record<string, unknown>;
  large?: Record<string, number>;
}

/**  */
export interface Events {
  items: EventForm[];
  next?: string | null;
}

/** From where on, of which call; `follow` asks for a stream, as the header `Accept: text/event-stream` does. */
export interface EventsQuery {
  after?: number;
  call?: string | null;
  follow?: boolean;
  limit?: number;
}

/** Why a call did not succeed. */
export interface FailureForm {
  code: string;
  message: string;
  retryable: boolean;
  hint?: string | null;
  reason?: string | null;
}

/** Something that was written and does nothing, or not what it looks like. */
export interface FindingForm {
  code: string;
  severity: "error" | "info" | "warning";
  message: string;
  about: string;
  file?: string | null;
  line?: number | null;
  nearest?: string | null;
}

/** All findings: errors first, then by file and line. */
export interface FindingList {
  items: FindingForm[];
}

/** A tool that the front end runs. */
export interface FrontTool {
  name: string;
  description?: string;
  parameters?: Record<string, unknown> | null;
}

/** Under which id and for whom, where not as it was exported. */
export interface ImportQuery {
  id?: string | null;
  owner?: string | null;
}

/** Whether calls in the background stop too. */
export interface Interrupt {
  background?: boolean;
}

/** A key; `key` is there only right after it was made. */
export interface KeyForm {
  id: string;
  name: string;
  owner: string;
  created_at: number;
  by: string;
  scopes?: string[];
  namespaces?: string[] | null;
  expires_at?: number | null;
  last_used?: number | null;
  revoked_at?: number | null;
  active: boolean;
  key?: string | null;
}

/** All keys. */
export interface KeyList {
  items: KeyForm[];
}

/** The queue of a tool, or of all that have none of their own. */
export interface LaneForm {
  lane: string;
  tool: string;
  queued: number;
  running: number;
  waiting: number;
}

/** A call that ended lately. */
export interface LastCall {
  session: string;
  call: string;
  tool: string;
  at: number;
  outcome: string;
  duration_ms: number;
}

/** The three lists: each accepted call is in exactly one. Past 1 MB results are left out, those of the oldest calls. Of such a call `large` has the bytes, and `/v1/sessions/{session}/calls/{call}` the result. */
export interface ListsForm {
  unresolved: EntryForm[];
  ongoing: EntryForm[];
  completed: EntryForm[];
}

/** As of which event; now, unless said. Of what is done the newest, at most `limit`. */
export interface ListsQuery {
  at?: number | null;
  limit?: number;
}

/** The end of what the processes of a server wrote to their standard error, one text for each. */
export interface McpLogForm {
  name: string;
  lines: string[];
}

/** An MCP server: how it is, how many processes or connections of it there are, and how many tools it has. */
export interface McpServerForm {
  name: string;
  status: string;
  reason: string;
  connections: number;
  tools: number;
}

/** Who you are here, and what this server can do. Administrators see what commands are held by, too. `trace_url` is where the trace of a call is looked at; `{trace}`, `{span}`, `{call}` and `{session}` are its ids. */
export interface Me {
  name: string;
  roles: string[];
  scopes: string[];
  namespaces: string[];
  auth: "jwt" | "key" | "off";
  admin: boolean;
  version: string;
  features: Record<string, boolean>;
  protections?: Record<string, boolean>;
  trace_url?: string | null;
}

/** What the turns of one model took and cost, in US dollars as far as it is known. */
export interface ModelNumbers {
  model: string;
  turns: number;
  input_tokens: number;
  output_tokens: number;
  cost: number;
}

/** What stays open. */
export interface Narrower {
  namespaces?: string[] | null;
  grants?: Record<string, string[]> | string[] | null;
}

/** An answer. `args` are the arguments as the approver wants them. `actor` names who answers on a server that asks nobody who they are. With keys it is whoever holds the key. */
export interface NewAnswer {
  question: string;
  action: "accept" | "cancel" | "decline" | "fail";
  value?: unknown;
  args?: Record<string, unknown> | null;
  reason?: string | null;
  key?: string | null;
  scope?: "once" | "session";
  actor?: string | null;
}

/** A call to make. `wait` is whether the answer is the result, however long that takes; with a number of seconds the call itself comes back where it takes longer. A caller who leaves changes nothing, unless the call was made `cancel_on_disconnect`. */
export interface NewCall {
  tool: string;
  args?: unknown;
  label?: string | null;
  key?: string | null;
  background?: boolean | null;
  wake?: "next_turn" | "silent" | "wake" | null;
  timeout_s?: number | null;
  provider_id?: string | null;
  wait?: boolean | number;
  cancel_on_disconnect?: boolean;
}

/** A key to make. Without scopes it may read, call and answer; `expires` is in seconds since 1970. */
export interface NewKey {
  owner: string;
  name?: string;
  scopes?: string[];
  namespaces?: string[] | null;
  expires?: number | null;
}

/** A message to the agent of a session, or to another from now on. With `wait` the answer is how its run ended. It has a `text`, or `parts`: texts, and blocks such as `{"type": "image", "data": ..., "mime_type": "image/png"}`. */
export interface NewMessage {
  text?: string;
  parts?: (string | Record<string, unknown>)[];
  agent?: string | null;
  mode?: "collect" | "followup" | "interrupt" | "steer" | null;
  key?: string | null;
  wait?: boolean | number;
}

/** A call to make later in a session: `after` so many seconds, `at` a time, `when` a call has ended, or by `cron`. Times are in seconds since 1970. `missed` says what becomes of runs that nothing was there to make. */
export interface NewSchedule {
  session: string;
  tool: string;
  args?: unknown;
  after?: number | null;
  at?: number | null;
  when?: string | null;
  cron?: string | null;
  timezone?: string;
  missed?: "all" | "once" | "skip";
  limit?: number;
  label?: string;
  key?: string | null;
}

/** A session to open: one of that id is restored, or made. `grants` narrow what it may do. */
export interface NewSession {
  id?: string | null;
  namespaces?: string[] | null;
  grants?: Record<string, string[]> | string[] | null;
}

/** A source to add; with `check: false` it is not tested before. */
export interface NewSource {
  name: string;
  mcp?: string | string[] | null;
  openapi?: string | null;
  trusted?: boolean;
  env?: Record<string, string>;
  headers?: Record<string, string>;
  timeout?: number | null;
  share?: "all" | "owner" | "session" | null;
  connections?: number | null;
  start_s?: number | null;
  idle_s?: number | null;
  revision?: "auto" | "older" | null;
  tasks?: boolean | null;
  prefix?: string | null;
  account?: boolean | string;
  limits?: SourceLimits | null;
  breaker?: number | null;
  check?: boolean;
}

/** A process of the cluster, as its last heartbeat told it. */
export interface NodeForm {
  name: string;
  state: "alive" | "dead";
  age: number;
  started_at: number;
  facts: Record<string, unknown>;
}

/** The numbers of one step. */
export interface NumbersAt {
  calls: number;
  failures: Record<string, number>;
  p50_ms: number | null;
  p95_ms: number | null;
  p99_ms: number | null;
  waits: number;
  waited_p50_ms: number | null;
  waited_p95_ms: number | null;
  turns: number;
  input_tokens: number;
  output_tokens: number;
  cost: number;
  sessions: number;
  at: number;
}

/** The numbers of one tool, agent, owner, source, code or rule, with its calls and failures step by step. Of a rule it is the calls that it decided. */
export interface NumbersOf {
  calls: number;
  failures: Record<string, number>;
  p50_ms: number | null;
  p95_ms: number | null;
  p99_ms: number | null;
  waits: number;
  waited_p50_ms: number | null;
  waited_p95_ms: number | null;
  turns: number;
  input_tokens: number;
  output_tokens: number;
  cost: number;
  sessions: number;
  name: string;
  points: number[];
  failed: number[];
}

/** What is open now: calls by their state, and sessions and streams of this server. */
export interface OpenNow {
  waiting: number;
  queued: number;
  running: number;
  sessions: number;
  streams: number;
}

/** How a run ended, or what it waits for. */
export interface OutcomeForm {
  status: string;
  run?: string | null;
  reason?: string | null;
  answer?: unknown;
  code?: string | null;
  detail?: string | null;
  turns?: number;
  usage?: Record<string, unknown> | null;
  questions?: QuestionForm[];
}

/** A piece of an output; `next` is where it goes on. */
export interface OutputForm {
  id: string;
  offset: number;
  total: number;
  text: string;
  next?: number | null;
}

/** Whose account; without it that of whoever asks. */
export interface OwnerQuery {
  owner?: string | null;
}

/** A call that is not done. */
export interface PendingCall {
  call: string;
  state: "cancelled" | "failed" | "queued" | "running" | "streaming" | "succeeded" | "timed_out" | "unknown" | "waiting";
}

/** The policy in force: its rules in order, and what becomes of calls that no rule speaks of. `others` are rules that decided about calls lately and are not in force, such as those of agents, of sessions and of an earlier policy. `custom` says that it is a policy of a program's own making, which has no rules to show. */
export interface PolicyForm {
  default: string;
  since: number;
  step_s: number;
  rules: RuleForm[];
  others: Record<string, number>;
  preset?: string | null;
  file?: string | null;
  custom?: boolean;
}

/** A call that a model made in its message: its id there, the name of the tool, and the text of the arguments. */
export interface PromptCallForm {
  id: string;
  name: string;
  args: string;
}

/** A file that the model was sent, under `output` where it is kept beside the log. */
export interface PromptFileForm {
  mime_type: string;
  size: number;
  name?: string | null;
  output?: string | null;
}

/** A request to a model as the model saw it. `seq` is the event that has the reply, `purpose` `turn` or `summary`. `messages` begin with number `first` of `total`, and go on with number `next`. `exact` says that the log vouches for all of it; where it does not, `notes` say why. `previous` is the request before of the same agent in the same conversation: the first `same` messages were in it, and `dropped` of its messages are not here any more. `instructions_before` and `tools_before`, by name, are there where they were others. */
export interface PromptForm {
  seq: number;
  run: string;
  agent: string;
  turn: number | null;
  at: number;
  purpose: string;
  exact: boolean;
  notes: string[];
  instructions: string | null;
  tools: PromptToolForm[] | null;
  messages: PromptMessageForm[];
  first: number;
  total: number;
  next?: number | null;
  previous?: number | null;
  same?: number;
  dropped?: number;
  instructions_before?: string | null;
  tools_before?: string[] | null;
}

/** One message as the model read it; `cut` is the length of a text of which only the beginning is told. */
export interface PromptMessageForm {
  role: string;
  text: string;
  calls?: PromptCallForm[] | null;
  call?: string | null;
  files?: PromptFileForm[] | null;
  cut?: number | null;
}

/** From which message on; the first is 0. */
export interface PromptQuery {
  first?: number;
}

/** A tool as the model saw it. */
export interface PromptToolForm {
  name: string;
  description: string;
  schema: Record<string, unknown>;
}

/** What a call waits for. `shown` is the text to show to people: the arguments as JSON, with whole integers, and with escapes for all that cannot be seen, breaks lines or turns the direction of writing. */
export interface QuestionForm {
  id: string;
  call: string;
  tool: string;
  kind: "client" | "confirm" | "external" | "input";
  prompt: string;
  key: string;
  arguments: Record<string, unknown>;
  resume: "pass" | "pass_any" | "run" | "use";
  digest: string;
  asked_at: number;
  expires_at: number;
  session: string;
  schema?: Record<string, unknown> | null;
  path?: string[];
  offer?: string | null;
  data?: unknown;
  demands?: (Record<string, unknown>)[];
  approved_by?: string[];
  escalated?: boolean;
  owner?: string | null;
  shown?: string;
}

/**  */
export interface Questions {
  items: QuestionForm[];
  next?: string | null;
}

/** Whose; of other owners only what is put to you, unless you look after all. */
export interface QuestionsQuery {
  owner?: string | null;
  after?: string | null;
  limit?: number;
}

/** What was removed. */
export interface RemovedAccount {
  name: string;
  owner: string;
  removed?: boolean;
}

/** The name of a source that is not there any more. */
export interface RemovedSource {
  name: string;
}

/** What came out of a call. A call that failed is `ok: false`, and no error of HTTP. */
export interface ResultForm {
  call: string;
  ok: boolean;
  data?: unknown;
  failure?: FailureForm | null;
  content?: unknown[];
  changes?: unknown[];
  handover?: Record<string, unknown> | null;
  metadata?: Record<string, unknown> | null;
  message?: string | null;
}

/** The answer to an interrupt. */
export interface Resume {
  interruptId: string;
  status?: string;
  payload?: unknown;
}

/** A rule in force. `name` is how verdicts name it, `decided` how many calls of the last week it decided. `points` are those step by step; `pattern`, `excepts` and `when` say which calls it speaks of, `approvers` who has to agree where it asks, `line` where it stands in the file. */
export interface RuleForm {
  name: string;
  effect: "allow" | "ask" | "deny";
  pattern: string;
  decided: number;
  points: number[];
  reason?: string;
  excepts?: string[];
  when?: Record<string, string[]>;
  approvers?: string | null;
  line?: number | null;
}

/** A run of an agent. `parent` is the call that made it. */
export interface RunForm {
  run: string;
  agent: string;
  status: "created" | "done" | "running" | "waiting";
  origin: string;
  started_at: number;
  turns: number;
  usage: Record<string, unknown>;
  parent?: string | null;
  reason?: string | null;
  answer?: unknown;
  code?: string | null;
}

/** What a front end sends to have an agent run. */
export interface RunInput {
  threadId: string;
  runId: string;
  messages?: (Record<string, unknown>)[];
  tools?: FrontTool[];
  context?: (Record<string, unknown>)[];
  resume?: Resume[];
}

/** The runs of a session, the first first. */
export interface Runs {
  items: RunForm[];
}

/** Whether there was something to cancel. */
export interface ScheduleCancelled {
  id: string;
  cancelled: boolean;
}

/** A call that waits for its time. `call` comes next; `due` is absent where it waits for another call. */
export interface ScheduleForm {
  id: string;
  call: string;
  session: string;
  tool: string;
  args: unknown;
  due?: number | null;
  when?: string | null;
  cron?: string | null;
  timezone?: string;
  missed?: "all" | "once" | "skip";
  limit?: number;
  label?: string;
}

/** All that wait, the first due first. */
export interface ScheduleList {
  items: ScheduleForm[];
}

/** Of which session, or of whom; those of others are for who looks after all. */
export interface SchedulesQuery {
  session?: string | null;
  owner?: string | null;
}

/** A session. `open` says that this server has it in memory; `waiting` and `running` count its calls. `findings` says which of its `grants` match nothing. */
export interface SessionForm {
  id: string;
  owner: string;
  created: number;
  touched: number;
  seq: number;
  open: boolean;
  waiting: number;
  running: number;
  namespaces?: string[] | null;
  grants?: unknown[] | null;
  findings?: string[] | null;
  agent?: string | null;
}

/**  */
export interface Sessions {
  items: SessionForm[];
  next?: string | null;
}

/** Which sessions: `q` is a part of their id; of other owners only for who looks after all. */
export interface SessionsQuery {
  owner?: string | null;
  q?: string | null;
  state?: "idle" | "running" | "waiting" | null;
  after?: string | null;
  limit?: number;
}

/** What came of a call that ended `unknown`: whether it happened, and with which result. */
export interface SettleRequest {
  outcome: "happened" | "not";
  data?: unknown;
  reason?: string | null;
}

/** A key, or a token of the provider. */
export interface SignIn {
  key: string;
}

/** That nobody is signed in any more. */
export interface SignedOut {
  ok?: boolean;
}

/** Calls of tools of a source that ended lately: how many, how long they took, and the last that failed. */
export interface SourceCalls {
  calls: number;
  failures: number;
  p50_ms?: number | null;
  p95_ms?: number | null;
  last_failure?: LastCall | null;
}

/** A source: how it is here, and for one that was added its settings, by whom and when. */
export interface SourceDetails {
  name: string;
  kind: string;
  origin: "added" | "configured";
  enabled: boolean;
  status: string;
  tools: number;
  reason?: string;
  entry?: Record<string, unknown> | null;
  added_at?: number | null;
  by?: string | null;
  recent?: SourceCalls | null;
}

/** A source to add: an MCP server by its address or its command, or an OpenAPI document by its address. The values of `env` and `headers` are references to secrets, such as `env:NAME`. The other settings are those of an entry in `crib.yaml`. */
export interface SourceEntry {
  name: string;
  mcp?: string | string[] | null;
  openapi?: string | null;
  trusted?: boolean;
  env?: Record<string, string>;
  headers?: Record<string, string>;
  timeout?: number | null;
  share?: "all" | "owner" | "session" | null;
  connections?: number | null;
  start_s?: number | null;
  idle_s?: number | null;
  revision?: "auto" | "older" | null;
  tasks?: boolean | null;
  prefix?: string | null;
  account?: boolean | string;
  limits?: SourceLimits | null;
  breaker?: number | null;
}

/** A source that is not well; of one that is unavailable there may be no tools. */
export interface SourceForm {
  name: string;
  health: "degraded" | "ok" | "unavailable";
  reason: string;
}

/** Bounds of each tool of a source, as `limits` of an entry in `crib.yaml` has them. */
export interface SourceLimits {
  timeout_s?: number | null;
  output_bytes?: number | null;
  concurrency?: number | null;
  wait_s?: number | null;
  idle_timeout?: number | null;
  rate?: string | null;
}

/** All sources: what is configured first, then what was added. */
export interface SourceList {
  items: SourceDetails[];
}

/** What came of a test, with the ids of the tools that the source has. */
export interface SourceTestForm {
  ok: boolean;
  problem: string;
  tools: string[];
}

/** With `seconds`, the calls that ended within them are counted for each source. */
export interface SourcesQuery {
  seconds?: number | null;
}

/** What tools keep in a session, the agent that a message goes to, and what the client said of its user. */
export interface StateForm {
  state: Record<string, unknown>;
  revision: number;
  user: Record<string, unknown>;
  agent?: string | null;
}

/** As of which event; now, unless said. */
export interface StateQuery {
  at?: number | null;
}

/** What happened lately, and what is open now. */
export interface Stats {
  since: number;
  until: number;
  step_s: number;
  by: "agent" | "code" | "owner" | "rule" | "source" | "tool";
  total: CallNumbers;
  points: NumbersAt[];
  groups: NumbersOf[];
  models: ModelNumbers[];
  uncounted: number;
  now: OpenNow;
}

/** Of the last hour, day or week, or of the `seconds` before now, or of a time; by what, and of what alone. An empty `agent` stands for calls that no agent made, an empty `source` for tools that no source has now. Of a time that is longer than a year the last year is told, as `since` of the answer says. */
export interface StatsQuery {
  range?: "day" | "hour" | "week";
  seconds?: number | null;
  since?: number | null;
  until?: number | null;
  by?: "agent" | "code" | "owner" | "rule" | "source" | "tool";
  owner?: string | null;
  agent?: string | null;
  tool?: string | null;
  source?: string | null;
  code?: string | null;
}

/** How many calls were stopped. */
export interface StoppedForm {
  stopped: number;
}

/** What is left of deleted sessions. */
export interface Tombstones {
  items: SessionDeleted[];
}

/** All there is to know of a tool. */
export interface ToolDetail {
  id: string;
  name: string;
  namespace: string;
  description: string;
  effect: "idempotent" | "once" | "read";
  source: string;
  trusted: boolean;
  health: "degraded" | "ok" | "unavailable";
  reason?: string | null;
  title?: string | null;
  category?: string | null;
  tags?: string[];
  annotations?: Record<string, boolean> | null;
  capabilities?: string[];
  background?: boolean;
  run_by?: string | null;
  changed?: string[];
  model_name?: string | null;
  input_schema?: Record<string, unknown> | null;
  output_schema?: Record<string, unknown> | null;
  limits?: Record<string, unknown> | null;
  knowledge?: Record<string, unknown> | null;
  metadata?: Record<string, unknown> | null;
  fingerprint?: string | null;
  warnings?: string[];
}

/** A tool. `run_by` is `client` for one that whoever offered it runs; `changed` is what is new and not accepted. `health` is what its source and its last calls tell, and `reason` why it is so. */
export interface ToolForm {
  id: string;
  name: string;
  namespace: string;
  description: string;
  effect: "idempotent" | "once" | "read";
  source: string;
  trusted: boolean;
  health: "degraded" | "ok" | "unavailable";
  reason?: string | null;
  title?: string | null;
  category?: string | null;
  tags?: string[];
  annotations?: Record<string, boolean> | null;
  capabilities?: string[];
  background?: boolean;
  run_by?: string | null;
  changed?: string[];
  model_name?: string | null;
}

/** How a tool was used lately, with its last calls. */
export interface ToolStats {
  since: number;
  until: number;
  step_s: number;
  by: "agent" | "code" | "owner" | "rule" | "source" | "tool";
  total: CallNumbers;
  points: NumbersAt[];
  groups: NumbersOf[];
  models: ModelNumbers[];
  uncounted: number;
  last: LastCall[];
}

/** How a tool of an untrusted source looked since `at`; `by` accepted it. `changed` are the parts that are not as in the version before, `parts` what they were, where that was kept. `current` is how it looks now. */
export interface ToolVersion {
  at: number;
  parts: Record<string, unknown>;
  changed?: string[];
  by?: string | null;
  current?: boolean;
}

/** The versions of a tool, the first first; none of tools that nobody has to accept. */
export interface ToolVersions {
  items: ToolVersion[];
}

/** A page of tools; `total` are all that fit. The first page has `facets`: for each filter how many tools of each kind fit all the other filters. And it has the sources that are `unwell`. */
export interface Tools {
  items: ToolForm[];
  total: number;
  next?: string | null;
  facets?: Record<string, Record<string, number>> | null;
  unwell?: SourceForm[] | null;
}

/** Which tools: `q` are words that they mention, `changed` those that changed since they were accepted. */
export interface ToolsQuery {
  q?: string | null;
  namespace?: string | null;
  source?: string | null;
  effect?: "idempotent" | "once" | "read" | null;
  health?: "degraded" | "ok" | "unavailable" | null;
  changed?: boolean;
  after?: string | null;
  limit?: number;
}

/** A message as a page keeps it. */
export interface UiMessage {
  role: string;
  parts?: (Record<string, unknown>)[];
  id?: string | null;
}

/** What the client said of its user. */
export interface UserForm {
  user: Record<string, unknown>;
}

/** How many seconds to wait for it. */
export interface WaitQuery {
  wait?: number;
}

/** A verdict, and what led to it. */
export interface WhyForm {
  verdict: Record<string, unknown>;
  capabilities: (Record<string, unknown>)[];
  segments: string[];
  parts: (Record<string, unknown>)[];
  notes: string[];
  lines: string[];
}

/** A call that is not made. */
export interface WhyRequest {
  tool: string;
  args?: unknown;
  agent?: string | null;
}
