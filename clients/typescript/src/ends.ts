/** Ends: writes how jobs ended, many in one request, until it is written or the jobs are not this worker's any more. */

import { ApiError, HeadwayError, LeaseLost, UnexpectedAnswer } from "./errors.js";
import type { Logger } from "./logs.js";
import { backoff, encode, sleep, type Transport } from "./requests.js";
import { type End, keyOf, type Running } from "./running.js";
import { FINISHED } from "./values.js";
import { type ClaimedJob, SettledJobs } from "./wire.js";

const AT_ONCE = 500;
const MOST_CHARACTERS = 4 * 2 ** 20; // in one request, unless one end is larger
const LARGEST = 15 * 2 ** 20; // the server reads no request of more than 16 MiB

interface Ended {
  run: Running;
  end: End;
  /** How large it is on the wire. */
  size: number;
}

/** What the worker does about what was written. */
export interface Owner {
  readonly workerId: string;
  /** Send a heartbeat now, with what jobs have said. */
  report(): Promise<void>;
  /** The job is over for this worker. */
  forget(run: Running): void;
  /** The machine's next step is this worker's to run now, in the same slot. */
  goOn(run: Running, job: ClaimedJob): void;
  /** The server does not know this worker: everything that it ran is lost. */
  lose(reason: string): void;
}

export class Ends {
  readonly #waiting: Ended[] = [];
  #writing: Promise<void> | undefined;

  constructor(
    private readonly transport: Transport,
    private readonly owner: Owner,
    private readonly logger: Logger,
    private readonly over: AbortSignal,
  ) {}

  add(run: Running, end: End): void {
    this.#waiting.push(sized(run, end));
    // after this turn of the event loop: what ends together is written together
    this.#writing ??= new Promise((resolve) => setImmediate(resolve)).then(() => this.#writeAll());
  }

  /** Resolves when everything is written, or the worker is over. */
  async written(): Promise<void> {
    while (this.#writing !== undefined) await this.#writing;
  }

  async #writeAll(): Promise<void> {
    try {
      while (this.#waiting.length > 0) await this.#write(this.#next());
    } catch (error) {
      if (!this.over.aborted) throw error;
      this.#waiting.length = 0;
    } finally {
      this.#writing = undefined;
    }
  }

  #next(): Ended[] {
    let [count, size] = [0, 0];
    for (const each of this.#waiting) {
      size += each.size;
      if (count === AT_ONCE || (count > 0 && size > MOST_CHARACTERS)) break;
      count += 1;
    }
    return this.#waiting.splice(0, count);
  }

  async #write(batch: Ended[]): Promise<void> {
    if (batch.some(({ run }) => run.ctx.hasSaid)) await this.owner.report(); // no heartbeat names them afterwards
    for (let failures = 0; ; failures++) {
      batch = batch.filter(({ run }) => !run.dropped);
      if (batch.length === 0) return;
      const body = { worker_id: this.owner.workerId, jobs: batch.map(({ run, end }) => ({ ...run.name, ...end })) };
      try {
        const request = {
          method: "POST",
          path: "/worker/settle",
          answer: SettledJobs,
          body,
          repeatable: false,
        } as const;
        this.#done(batch, await this.transport.send(request, { signal: this.over }));
        return;
      } catch (error) {
        this.over.throwIfAborted();
        if (!(error instanceof HeadwayError)) throw error;
        if (error instanceof LeaseLost) return this.owner.lose("the server does not know this worker any more");
        if (!isRefusal(error)) {
          if (failures === 0)
            this.logger.warning("outcomes cannot be written: they are kept", { error: error.message });
        } else if (batch.length > 1) {
          for (const each of batch) await this.#write([each]); // one of them is refused: the others are written
          return;
        } else {
          const [refused] = batch;
          refused?.run.ctx.logger.error("the outcome of a job was refused", { error: error.message });
          if (refused === undefined || refused.end.retry === false)
            return batch.forEach(({ run }) => this.owner.forget(run));
          batch = [sized(refused.run, { error: `its outcome was refused: ${error.message}`, retry: false })];
          continue;
        }
      }
      await sleep(backoff(failures + 1, 0.2), this.over);
    }
  }

  #done(batch: Ended[], said: SettledJobs): void {
    const lost = new Set(said.lost.map(keyOf));
    const statuses = new Map(said.settled.map((each) => [keyOf(each), each.status]));
    const following = new Map(said.continued.map((each) => [each.id, each]));
    for (const { run } of batch) {
      const { logger } = run.ctx;
      const duration_ms = Math.round(performance.now() - run.began);
      const status = statuses.get(run.key);
      const message = status !== undefined && FINISHED.has(status) ? `job ${status}` : "attempt ended";
      if (!lost.has(run.key)) logger.info(message, { duration_ms, status });
      else logger.warning("the job is not this worker's any more: nothing of this was written");
      const next = following.get(run.ctx.jobId);
      if (next === undefined) this.owner.forget(run);
      else this.owner.goOn(run, next);
    }
  }
}

/**
 * Whether the same request would be refused again: by the API, or by a proxy that finds it too large. Any other answer
 * that is not the API's may come from a proxy whose server is being replaced.
 */
export function isRefusal(error: unknown): boolean {
  if (error instanceof UnexpectedAnswer) return error.status === 413;
  return error instanceof ApiError && error.status < 500 && error.status !== 429;
}

function sized(run: Running, end: End): Ended {
  const size = Buffer.byteLength(encode(end));
  if (size <= LARGEST) return { run, end, size };
  const error = `its outcome has ${size} bytes, more than a request may have: store it elsewhere, and give a reference`;
  return { run, end: { error, retry: false }, size: error.length };
}
