/** Context: what a handler may know of its job, and say of it while it runs. */

import type { Logger } from "./logs.js";
import type { Bytes } from "./requests.js";
import type { Artifact, ClaimedJob } from "./wire.js";

/** Stores a file with a running attempt. */
export type Upload = (ctx: Context, name: string, bytes: Bytes, contentType: string | undefined) => Promise<Artifact>;

/** What the next heartbeat says of a job. */
export interface Said {
  progress?: number;
  note?: string;
  log?: string;
  /** How many characters came before it. */
  log_at?: number;
}

/** Why `ctx.signal` was aborted. */
export class Stopped extends Error {
  override readonly name = "AbortError";

  constructor(
    readonly why: "canceled" | "timeout" | "lost" | "stopping",
    message: string,
  ) {
    super(message);
  }
}

const LONGEST_LOG = 65_536; // the server keeps no more of it

/** One execution of a job. */
export class Context {
  readonly jobId: string;
  readonly fence: number;
  readonly kind: string;
  readonly queue: string;
  readonly tenantId: string;
  /** Executions that failed before this one. */
  readonly tries: number;
  /** Executions that were lost with their worker. */
  readonly losses: number;
  readonly traceId: string;
  /** The W3C header that takes the trace on. */
  readonly traceparent: string;
  /** The W3C header that goes with it. */
  readonly tracestate: string | null;
  /** The step of a machine. */
  readonly step: string | null;
  /** The signals of the await that woke this step; its outcome consumes them. */
  readonly signals: ClaimedJob["signals"];
  /** Every signal that is not consumed yet. */
  readonly inbox: ClaimedJob["signals"];
  /** The jobs that the step before has spawned. */
  readonly children: ClaimedJob["children"];
  /** Whether the await ended without its signals. */
  readonly timedOut: boolean;
  /** Everything that the server says of the job. */
  readonly job: ClaimedJob;
  readonly logger: Logger;
  readonly #stopping: AbortSignal;
  #looked = false;
  #listened = false;
  readonly #upload: Upload;
  readonly #abort = new AbortController();
  #said: Said = {};
  #logged = 0; // characters, in all

  /** Made by the worker. @internal */
  constructor(job: ClaimedJob, logger: Logger, stopping: AbortSignal, upload: Upload) {
    this.#upload = upload;
    this.job = job;
    this.jobId = job.id;
    this.fence = job.fence;
    this.kind = job.kind;
    this.queue = job.queue;
    this.tenantId = job.tenant_id;
    this.tries = job.tries;
    this.losses = job.losses;
    this.traceId = job.trace_id;
    this.traceparent = job.traceparent;
    this.tracestate = job.tracestate;
    this.step = job.step;
    this.inbox = job.signals;
    this.signals = job.signals.filter((each) => job.awaiting.includes(each.name));
    this.children = job.children;
    this.timedOut = job.timed_out;
    this.logger = logger;
    this.#stopping = stopping;
  }

  /**
   * Aborts when the job was canceled, is over its timeout, is not this worker's any more, or the grace is over.
   *
   * The canceled job of a handler that has looked at this, and returns after it aborted, ends canceled, whatever it
   * returns; if it did finish, it returns `outcome.done(result)`. The outcome of a machine's step counts as always.
   */
  get signal(): AbortSignal {
    this.#listened = true;
    return this.#abort.signal;
  }

  /**
   * Aborts when the worker begins to stop: save what is done and return before the grace period is over.
   *
   * The job of a handler that has looked at this, and returns after it aborted, is given back and runs again elsewhere,
   * whatever it returns; if it did finish, it returns `outcome.done(result)`. So is one that throws this signal's
   * reason. The outcome of a machine's step counts as always.
   */
  get stopping(): AbortSignal {
    this.#looked = true;
    return this.#stopping;
  }

  /** Show how much is done, from 0 to 1, with the next heartbeat, or when it ends. */
  progress(part: number, note?: string): void {
    this.#said.progress = Math.min(Math.max(Number.isFinite(part) ? part : 0, 0), 1);
    if (note !== undefined) this.#said.note = note.toWellFormed();
  }

  /** Add a line to the job's log, with the next heartbeat, or when it ends. */
  log(line: string): void {
    const text = `${line.toWellFormed()}\n`;
    this.#logged += lengthOf(text);
    this.#said.log = (this.#said.log ?? "") + text;
    this.#said.log = this.#said.log.slice(-LONGEST_LOG).toWellFormed();
  }

  /** Store a file with this attempt: a text, bytes, or a stream of them. A lost job stores nothing. */
  artifact(name: string, bytes: Bytes, { contentType }: { contentType?: string } = {}): Promise<Artifact> {
    return this.#upload(this, name, bytes, contentType);
  }

  /** Whether the worker stops. @internal */
  get workerStops(): boolean {
    return this.#stopping.aborted;
  }

  /** Whether the handler may have ended because its worker stops. @internal */
  get gaveWay(): boolean {
    return this.#looked && this.#stopping.aborted;
  }

  /** Whether this is what `stopping` was aborted with. @internal */
  isStopping(error: unknown): boolean {
    return this.#stopping.aborted && error === this.#stopping.reason;
  }

  /** What `signal` gives, for the worker. @internal */
  get end(): AbortSignal {
    return this.#abort.signal;
  }

  /** Whether the handler may have ended because its job was canceled. @internal */
  get sawCanceled(): boolean {
    const reason: unknown = this.end.reason;
    return this.#listened && reason instanceof Stopped && reason.why === "canceled";
  }

  /** @internal */
  abort(reason: Stopped): void {
    this.#abort.abort(reason);
  }

  /** Whether there is something that no heartbeat has told. @internal */
  get hasSaid(): boolean {
    return Object.keys(this.#said).length > 0;
  }

  /** What to report now. @internal */
  takeSaid(): Said {
    const said = this.#said;
    this.#said = {};
    // the server knows by it what it has already
    if (said.log !== undefined && this.job.log_at !== null) said.log_at = this.#logged - lengthOf(said.log);
    return said;
  }

  /** A heartbeat was lost. @internal */
  sayAgain(said: Said): void {
    const log = `${said.log ?? ""}${this.#said.log ?? ""}`.slice(-LONGEST_LOG).toWellFormed();
    this.#said = { ...said, ...this.#said, ...(log === "" ? {} : { log }) };
  }
}

/** In characters, as the server counts them: a JavaScript string may have two units for one. */
function lengthOf(text: string): number {
  let length = 0;
  for (const _ of text) length += 1;
  return length;
}
