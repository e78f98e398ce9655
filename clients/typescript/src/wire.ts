/** What is said over the wire. Made from the OpenAPI document by tools/typescript_wire.py: do not edit. */

import { z } from "zod";

/** One of several faults of a request. */
export const Fault = z.object({
  detail: z.string(),
  pointer: z.string().default(""),
});
export type Fault = z.infer<typeof Fault>;

/** The body of an answer of 400 and above. */
export const Problem = z.object({
  type: z.string(),
  title: z.string(),
  status: z.number(),
  detail: z.string(),
  code: z.string(),
  request_id: z.string().default(""),
  errors: z.array(Fault).default([]),
  fix: z.string().default(""),
  job_id: z.string().default(""),
});
export type Problem = z.infer<typeof Problem>;

/** An enqueued job; `created` is false for one that was there already. */
export const JobMade = z.object({
  id: z.string(),
  tenant_id: z.string(),
  status: z.enum(["canceled", "dead", "failed", "held", "queued", "running", "scheduled", "succeeded", "waiting"]),
  kind: z.string(),
  definition_key: z.string(),
  queue: z.string(),
  queued_at: z.string().nullable(),
  scheduled_for: z.string().nullable(),
  created: z.boolean(),
});
export type JobMade = z.infer<typeof JobMade>;

export const BatchMade = z.object({
  jobs: z.array(JobMade),
});
export type BatchMade = z.infer<typeof BatchMade>;

/** One job as it is stored. */
export const Job = z.object({
  id: z.string(),
  tenant_id: z.string(),
  tenant: z.string(),
  kind: z.string(),
  queue: z.string(),
  status: z.enum(["canceled", "dead", "failed", "held", "queued", "running", "scheduled", "succeeded", "waiting"]),
  priority: z.number(),
  position: z.number().nullable(),
  payload: z.unknown(),
  fence: z.number(),
  tries: z.number(),
  losses: z.number(),
  max_attempts: z.number(),
  max_losses: z.number(),
  backoff_base_ms: z.number(),
  backoff_cap_ms: z.number(),
  timeout_ms: z.number().nullable(),
  delivery: z.enum(["at_least_once", "at_most_once"]),
  idempotency_key: z.string().nullable(),
  unique_key: z.string().nullable(),
  unique_scope: z.array(z.enum(["canceled", "dead", "failed", "held", "queued", "running", "scheduled", "succeeded", "waiting"])),
  scheduled_for: z.string().nullable(),
  expires_at: z.string().nullable(),
  created_at: z.string(),
  queued_at: z.string().nullable(),
  started_at: z.string().nullable(),
  finished_at: z.string().nullable(),
  worker_id: z.string().nullable(),
  attempt_started_at: z.string().nullable(),
  cancel_requested_at: z.string().nullable(),
  progress: z.number().nullable(),
  progress_note: z.string().nullable(),
  log_tail: z.string().nullable(),
  result: z.unknown(),
  error: z.string().nullable(),
  correlation_id: z.string().nullable(),
  trace_id: z.string().nullable(),
  source: z.enum(["event", "manual", "schedule", "system"]),
  source_ref: z.string().nullable(),
  created_by: z.string().nullable(),
  retry_of: z.string().nullable(),
  meta: z.unknown(),
  train: z.string().nullable(),
  on_canceled: z.enum(["advance", "hold"]),
  on_dead: z.enum(["advance", "hold"]),
  partition: z.string().nullable(),
  concurrency: z.number().nullable(),
  concurrency_key: z.string().nullable(),
  rate_count: z.number().nullable(),
  rate_period_ms: z.number().nullable(),
  rate_burst: z.number().nullable(),
  rate_key: z.string().nullable(),
  limited_by: z.string().nullable(),
  group_id: z.string().nullable(),
  pending: z.boolean(),
  version: z.number().nullable(),
  step: z.string().nullable(),
  state: z.unknown(),
  awaiting: z.array(z.string()),
  match: z.enum(["all", "any"]),
  deadline_at: z.string().nullable(),
  joining: z.number().nullable(),
  woken: z.enum(["children", "signal", "timeout"]).nullable(),
  home_queue: z.string().nullable(),
  home_partition: z.string().nullable(),
  forked_from: z.string().nullable(),
  parent_id: z.string().nullable(),
  log_end: z.number().nullable(),
  template_id: z.string().nullable(),
  template_revision: z.number().nullable(),
  trigger_id: z.string().nullable(),
  tags: z.array(z.string()),
  unique_group: z.string().nullable(),
  definition_key: z.string(),
  dedupe_key: z.string().nullable(),
  attempt_count: z.number(),
  last_error: z.string().nullable(),
  claimed_by_worker: z.string().nullable(),
  trace: z.string(),
});
export type Job = z.infer<typeof Job>;

export const JobList = z.object({
  items: z.array(Job),
  next_cursor: z.string().nullable(),
});
export type JobList = z.infer<typeof JobList>;

/** A file that an attempt stored. */
export const Artifact = z.object({
  id: z.string(),
  tenant_id: z.string(),
  job_id: z.string(),
  fence: z.number(),
  name: z.string(),
  content_type: z.string(),
  size: z.number(),
  sha256: z.string(),
  created_at: z.string(),
});
export type Artifact = z.infer<typeof Artifact>;

/** One execution of a job: open while it runs, immutable once it ended. */
export const Attempt = z.object({
  job_id: z.string(),
  fence: z.number(),
  status: z.enum(["canceled", "failed", "lost", "released", "running", "skipped", "snoozed", "succeeded", "timeout"]),
  started_at: z.string(),
  finished_at: z.string().nullable(),
  worker_id: z.string().nullable(),
  error: z.string().nullable(),
  step: z.string().nullable(),
  state: z.unknown(),
  exit_code: z.number().nullable(),
  stdout_tail: z.string().nullable(),
  stderr_tail: z.string().nullable(),
  pid: z.number().nullable(),
  version: z.number().nullable(),
  outcome: z.enum(["await", "done", "next", "park", "replay", "sleep", "spawn", "stop"]).nullable(),
  note: z.string().nullable(),
  woken: z.enum(["children", "signal", "timeout"]).nullable(),
  artifacts: z.array(Artifact),
  attempt_no: z.number(),
  error_text: z.string().nullable(),
});
export type Attempt = z.infer<typeof Attempt>;

export const AttemptList = z.object({
  items: z.array(Attempt),
  next_cursor: z.string().nullable(),
});
export type AttemptList = z.infer<typeof AttemptList>;

/** How a job ended, or its status now. The content of `artifact`, if there is one, is the result. */
export const ResultView = z.object({
  id: z.string(),
  status: z.enum(["canceled", "dead", "failed", "held", "queued", "running", "scheduled", "succeeded", "waiting"]),
  result: z.unknown().default(null),
  error: z.string().nullable().default(null),
  artifact: Artifact.nullable().default(null),
});
export type ResultView = z.infer<typeof ResultView>;

export const Changed = z.object({
  id: z.string(),
  status: z.enum(["canceled", "dead", "failed", "held", "queued", "running", "scheduled", "succeeded", "waiting"]),
});
export type Changed = z.infer<typeof Changed>;

export const SignalMade = z.object({
  id: z.string(),
  created: z.boolean(),
});
export type SignalMade = z.infer<typeof SignalMade>;

export const WhyView = z.object({
  id: z.string(),
  status: z.enum(["canceled", "dead", "failed", "held", "queued", "running", "scheduled", "succeeded", "waiting"]),
  reasons: z.array(z.string()),
});
export type WhyView = z.infer<typeof WhyView>;

/** What a flow has recorded of an operation: its answer, or a note about it. Answers are `done`, `failed`, `signal`, `ended` (a called job is over), `timer` and `cancel`; notes are `called`, `due`, `begun`, `tried` (a failed try), `settled`, `cut` and `forgotten`. */
export const JournalRow = z.object({
  seq: z.number(),
  kind: z.union([z.enum(["cancel", "done", "ended", "failed", "signal", "timer"]), z.enum(["begun", "called", "cut", "due", "forgotten", "settled", "tried"])]),
  place: z.string(),
  value: z.unknown().default(null),
  error: z.string().nullable().default(null),
  tries: z.number().nullable().default(null),
  signal: z.string().nullable().default(null),
  job_id: z.string().nullable().default(null),
  status: z.enum(["canceled", "dead", "failed", "held", "queued", "running", "scheduled", "succeeded", "waiting"]).nullable().default(null),
  due_at: z.string().nullable().default(null),
  at: z.string(),
  took_ms: z.number().nullable().default(null),
  fence: z.number(),
  counts: z.boolean().default(true),
});
export type JournalRow = z.infer<typeof JournalRow>;

export const JournalList = z.object({
  items: z.array(JournalRow),
  next_cursor: z.string().nullable(),
});
export type JournalList = z.infer<typeof JournalList>;

export const Emitted = z.object({
  id: z.string(),
});
export type Emitted = z.infer<typeof Emitted>;

export const SignalReceived = z.object({
  id: z.string(),
  name: z.string(),
  payload: z.unknown(),
  sent_at: z.string(),
  traceparent: z.string().nullable().default(null),
  tracestate: z.string().nullable().default(null),
});
export type SignalReceived = z.infer<typeof SignalReceived>;

/** A job that a machine spawned, as its next step sees it. */
export const Child = z.object({
  id: z.string(),
  kind: z.string(),
  status: z.enum(["canceled", "dead", "failed", "held", "queued", "running", "scheduled", "succeeded", "waiting"]),
  result: z.unknown(),
  error: z.string().nullable(),
});
export type Child = z.infer<typeof Child>;

/** A job to run now. Send (id, fence) with everything you report about it; `attempt_no` is `fence`, `definition_key` is `kind`. A machine has `step`, `state` (null: the payload is its state), `signals` and `children`. */
export const ClaimedJob = z.object({
  id: z.string(),
  fence: z.number(),
  attempt_no: z.number(),
  tenant_id: z.string(),
  kind: z.string(),
  definition_key: z.string(),
  queue: z.string(),
  payload: z.unknown(),
  tries: z.number(),
  losses: z.number(),
  max_attempts: z.number(),
  timeout_ms: z.number().nullable(),
  delivery: z.enum(["at_least_once", "at_most_once"]),
  correlation_id: z.string().nullable(),
  trace_id: z.string(),
  traceparent: z.string(),
  tracestate: z.string().nullable(),
  meta: z.unknown(),
  state: z.unknown(),
  version: z.number().nullable().default(null),
  step: z.string().nullable().default(null),
  signals: z.array(SignalReceived).default([]),
  children: z.array(Child).default([]),
  timed_out: z.boolean().default(false),
  awaiting: z.array(z.string()).default([]),
  log_at: z.number().nullable().default(0),
});
export type ClaimedJob = z.infer<typeof ClaimedJob>;

export const Claimed = z.object({
  jobs: z.array(ClaimedJob),
  lease_expires_at: z.string(),
});
export type Claimed = z.infer<typeof Claimed>;

/** A claim: the job and the number of its execution. */
export const Key = z.object({
  id: z.string(),
  fence: z.number(),
});
export type Key = z.infer<typeof Key>;

export const HeartbeatsAnswer = z.object({
  lease_expires_at: z.string(),
  cancel_requested: z.array(Key),
  lost: z.array(Key),
  released: z.array(Key),
});
export type HeartbeatsAnswer = z.infer<typeof HeartbeatsAnswer>;

export const SettledJob = z.object({
  id: z.string(),
  fence: z.number(),
  status: z.enum(["canceled", "dead", "failed", "held", "queued", "running", "scheduled", "succeeded", "waiting"]),
});
export type SettledJob = z.infer<typeof SettledJob>;

export const SettledJobs = z.object({
  settled: z.array(SettledJob),
  lost: z.array(Key),
  continued: z.array(ClaimedJob),
});
export type SettledJobs = z.infer<typeof SettledJobs>;

export const Released = z.object({
  released: z.array(Key),
  lost: z.array(Key),
});
export type Released = z.infer<typeof Released>;

/** A job to enqueue: a kind or a template, a payload, and options. `definition_key` is `kind`, `dedupe_key` is `unique_key`; durations are texts such as "30s", or seconds. */
export interface JobIn {
  kind?: string | null | undefined;
  definition_key?: string | null | undefined;
  template?: string | null | undefined;
  payload?: object | undefined;
  queue?: string | null | undefined;
  priority?: number | undefined;
  scheduled_for?: string | Date | null | undefined;
  delay?: string | number | null | undefined;
  expires_at?: string | Date | null | undefined;
  max_attempts?: number | undefined;
  max_losses?: number | undefined;
  timeout?: string | number | null | undefined;
  delivery?: "at_least_once" | "at_most_once" | undefined;
  idempotency_key?: string | null | undefined;
  unique_key?: string | null | undefined;
  dedupe_key?: string | null | undefined;
  unique_by?: readonly string[] | null | undefined;
  unique_scope?: readonly string[] | null | undefined;
  unique_group?: string | null | undefined;
  unique_for?: string | Date | number | null | undefined;
  on_conflict?: "raise" | "replace" | "replace_or_follow" | "return" | undefined;
  replace?: readonly ("backoff" | "concurrency" | "expires_at" | "max_attempts" | "max_losses" | "meta" | "partition" | "payload" | "priority" | "queue" | "rate" | "scheduled_for" | "tags" | "timeout")[] | null | undefined;
  debounce?: string | number | null | undefined;
  debounce_max?: string | number | null | undefined;
  train?: string | null | undefined;
  on_canceled?: "advance" | "hold" | undefined;
  on_dead?: "advance" | "hold" | undefined;
  partition?: string | null | undefined;
  concurrency?: number | null | undefined;
  concurrency_key?: string | null | undefined;
  rate?: string | null | undefined;
  burst?: number | null | undefined;
  rate_key?: string | null | undefined;
  group?: string | null | undefined;
  after?: readonly string[] | string | null | undefined;
  on_failure?: "continue" | "stop" | undefined;
  correlation_id?: string | null | undefined;
  tags?: readonly string[] | null | undefined;
  meta?: object | null | undefined;
}

export interface BatchIn {
  jobs: readonly JobIn[];
}

/** What to change; null takes a time, a timeout or meta away. */
export interface JobChange {
  priority?: number | undefined;
  queue?: string | undefined;
  scheduled_for?: string | Date | null | undefined;
  delay?: string | number | null | undefined;
  expires_at?: string | Date | null | undefined;
  max_attempts?: number | undefined;
  max_losses?: number | undefined;
  timeout?: string | number | null | undefined;
  payload?: object | undefined;
  meta?: object | null | undefined;
  tags?: readonly string[] | null | undefined;
}

export interface Cancel {
  reason?: string | null | undefined;
  at_once?: boolean | undefined;
}

/** What to set before the job runs; a machine that ran keeps its payload. */
export interface Retry {
  scheduled_for?: string | Date | null | undefined;
  delay?: string | number | null | undefined;
  max_attempts?: number | undefined;
  payload?: object | undefined;
  keep_place?: boolean | undefined;
}

export interface Move {
  before?: string | null | undefined;
  after?: string | null | undefined;
  first?: boolean | undefined;
  last?: boolean | undefined;
}

export interface SignalIn {
  name: string;
  payload?: unknown | undefined;
  dedup_key?: string | null | undefined;
}

export interface Fork {
  at?: number | null | undefined;
  state?: unknown | undefined;
  step?: string | null | undefined;
  before?: string | number | null | undefined;
  results?: object | null | undefined;
}

export interface EventIn {
  name: string;
  payload?: unknown | undefined;
  correlation_id?: string | null | undefined;
}

/** What a worker can run. `worker_id` is a UUID, new at each start; `claim_id` names this claim. */
export interface ClaimIn {
  worker_id: string;
  claim_id?: string | null | undefined;
  queues?: readonly string[] | undefined;
  kinds?: readonly string[] | undefined;
  limit?: number | undefined;
  wait?: number | string | undefined;
  hostname?: string | undefined;
  version?: string | undefined;
}

/** A claim that a worker holds, and what to show of it. */
export interface HeldIn {
  id: string;
  fence?: number | null | undefined;
  attempt_no?: number | null | undefined;
  progress?: number | null | undefined;
  note?: string | null | undefined;
  log?: string | null | undefined;
  log_at?: number | null | undefined;
}

/** Every claim that the worker holds. */
export interface HeartbeatsIn {
  worker_id: string;
  jobs: readonly HeldIn[];
}

/** A job to spawn; its options are those of its kind's definition. */
export interface ChildIn {
  kind: string;
  payload?: object | undefined;
  queue?: string | undefined;
  priority?: number | undefined;
  delay?: string | number | undefined;
  max_attempts?: number | undefined;
  timeout?: string | number | undefined;
}

/** What a step decided: exactly one of next, replay, await, spawn, sleep, done and stop. */
export interface OutcomeIn {
  next?: string | undefined;
  replay?: true | undefined;
  await?: string | readonly string[] | undefined;
  spawn?: readonly ChildIn[] | undefined;
  sleep?: string | number | undefined;
  done?: unknown | undefined;
  stop?: string | null | undefined;
  then?: string | null | undefined;
  state?: unknown | undefined;
  delay?: string | number | undefined;
  timeout?: string | number | null | undefined;
  match?: "all" | "any" | undefined;
  on_failure?: "continue" | "stop" | undefined;
  until?: "first" | number | null | undefined;
  signals?: readonly string[] | undefined;
  step?: string | null | undefined;
  version?: number | undefined;
}

/** How one execution ended: with an `error` it failed, with an `outcome` a machine's step is over, else it succeeded with `result`. A `status` says more of a bad end: it was over its time, or it stopped because the job was canceled, which needs no error. `attempt_no` is `fence`, `error_text` is `error`. */
export interface EndIn {
  id: string;
  fence?: number | null | undefined;
  attempt_no?: number | null | undefined;
  result?: unknown | undefined;
  outcome?: OutcomeIn | null | undefined;
  continue?: boolean | undefined;
  error?: string | null | undefined;
  error_text?: string | null | undefined;
  status?: "canceled" | "failed" | "timeout" | null | undefined;
  retry?: boolean | undefined;
  delay?: string | number | null | undefined;
  exit_code?: number | null | undefined;
  stdout_tail?: string | null | undefined;
  stderr_tail?: string | null | undefined;
}

export interface SettleIn {
  worker_id: string;
  jobs: readonly EndIn[];
}

export interface HeldKey {
  id: string;
  fence?: number | null | undefined;
  attempt_no?: number | null | undefined;
}

/** Claims to give back that were not begun. With `leave` the worker ends: it gives back all that it still has, uncharged, its claims that wait end, and its id is not used again. */
export interface ReleaseIn {
  worker_id: string;
  jobs?: readonly HeldKey[] | undefined;
  delay?: string | number | undefined;
  leave?: boolean | undefined;
}

export interface ListJobsQuery {
  status?: string | readonly (string)[] | undefined;
  kind?: string | readonly (string)[] | undefined;
  definition_key?: string | readonly (string)[] | undefined;
  queue?: string | readonly (string)[] | undefined;
  source?: "event" | "manual" | "schedule" | "system" | readonly ("event" | "manual" | "schedule" | "system")[] | undefined;
  tag?: string | readonly (string)[] | undefined;
  train?: string | readonly (string)[] | undefined;
  group?: string | readonly (string)[] | undefined;
  correlation_id?: string | undefined;
  unique_key?: string | undefined;
  dedupe_key?: string | undefined;
  created_after?: string | Date | undefined;
  created_before?: string | Date | undefined;
  error?: string | undefined;
  q?: string | undefined;
  order?: "newest" | "oldest" | "priority" | "run" | undefined;
  limit?: number | undefined;
  offset?: number | undefined;
  cursor?: string | undefined;
}

export interface ListAttemptsQuery {
  limit?: number | undefined;
  cursor?: string | undefined;
  offset?: number | undefined;
}

export interface GetResultQuery {
  wait?: number | undefined;
}

export interface ListJournalQuery {
  everything?: boolean | undefined;
  limit?: number | undefined;
  cursor?: string | undefined;
  offset?: number | undefined;
}

export interface UploadArtifactQuery {
  worker_id?: string | undefined;
  fence?: number | undefined;
  attempt_no?: number | undefined;
  name?: string | undefined;
  content_type?: string | undefined;
}
