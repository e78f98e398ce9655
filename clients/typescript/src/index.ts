/** Headway over HTTP: a client and a worker for Node.js. */

export * from "./client.js";
export * from "./errors.js";
export * from "./values.js";
export type { Bytes, CallOptions } from "./requests.js";
export type { ClientOptions, Duration, LogLevel, Settings } from "./settings.js";
export type { StreamEvent } from "./stream.js";
export type { Artifact, Attempt, Fault, Job, JobChange, JobIn, JobList, JobMade, JournalRow, Problem } from "./wire.js";
export { VERSION } from "./version.js";
export { Context, Stopped } from "./context.js";
export { handler, machine, step, type Handler, type Step } from "./handlers.js";
export { Logger, type LogFields, type LogLine, type LogSink } from "./logs.js";
export { Cancel, Fatal, outcome, Retry, StepOutcome, type Child } from "./outcomes.js";
export { Worker, type WorkerOptions } from "./worker.js";
