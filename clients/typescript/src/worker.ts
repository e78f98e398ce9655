/** Worker: claims jobs over HTTP, runs their handlers, and says how they ended. */

import { randomUUID } from "node:crypto";
import { setMaxListeners } from "node:events";
import { hostname } from "node:os";
import type { Client } from "./client.js";
import { Context, type Said, Stopped, type Upload } from "./context.js";
import { Ends, isRefusal, type Owner } from "./ends.js";
import { ApiError, ConfigError, HeadwayError, LeaseLost } from "./errors.js";
import type { Handler } from "./handlers.js";
import { beatAfter, leaseLeft } from "./lease.js";
import { Logger, type LogSink, toStandardError } from "./logs.js";
import { type Answer, backoff, readAnswer, type Request, sleep } from "./requests.js";
import { keyOf, Running } from "./running.js";
import { type Duration, secondsOf } from "./settings.js";
import { Slots } from "./slots.js";
import { VERSION } from "./version.js";
import { Artifact, Claimed, type ClaimedJob, HeartbeatsAnswer, Released } from "./wire.js";

export interface WorkerOptions {
  /** How many jobs of each queue may run at a time: `{ mail: 5 }`. */
  queues: Readonly<Record<string, number>>;
  /** What runs jobs of each kind. */
  handlers: ReadonlyMap<string, Handler> | Readonly<Record<string, Handler>>;
  /** How long a stopping worker lets its jobs run; by default HEADWAY_GRACE. */
  grace?: Duration | undefined;
  /** The longest time between two heartbeats, by default 20 s: that is how soon it learns of a cancel. */
  heartbeat?: Duration | undefined;
  /** Where log lines go; by default to standard error, as JSON. */
  log?: LogSink | undefined;
}

const WAIT_S = 20; // for work
const FIRST_BEAT_S = 5; // until the lease is known
const LONGEST_BEAT_S = 20;
const TOO_OFTEN_S = 0.2;
const MOST_GIVEN_BACK = 10_000;
const REFUSED = [401, 403, 422]; // the same claim would be refused again, until somebody changes the key or the worker
const LONGEST_PAUSE_S = 10;
const LONGEST_REFUSED_S = 60;
const SIGN_OFF_S = 10;
const LAST_MOMENT_S = 2; // for handlers that listen to `ctx.signal` when the grace period is over
const UPLOAD_S = 3600; // a large file may take long; the job's own timeout ends it

/**
 * Runs jobs of some queues. `run` works until `stop`, SIGTERM or SIGINT: then it claims no more, lets its jobs run for
 * the grace period, and gives back those that are left, uncharged. A second signal ends the grace period.
 *
 * A worker whose very first claims are refused, because of its key or its queues, ends: `run` throws that error. One
 * whose key is refused later asks again with growing pauses, up to a minute.
 */
export class Worker {
  /** New at each start. */
  readonly workerId = randomUUID();

  readonly #client: Client;
  readonly #queues: ReadonlyMap<string, number>;
  readonly #handlers: ReadonlyMap<string, Handler>;
  readonly #graceS: number;
  readonly #logger: Logger;
  readonly #stopping = new AbortController(); // claims no more
  readonly #graceOver = new AbortController();
  readonly #over = new AbortController(); // says nothing more
  readonly #running = new Map<string, Running>();
  readonly #givenBack = new Set<string>(); // what the server says it took back
  #beating: Promise<unknown> = Promise.resolve();
  #beatCount = 0; // how many heartbeats were sent
  readonly #slots = new Map<string, Slots>();
  readonly #ends: Ends;
  readonly #longestBeatS: number;
  #beatS: number;
  #sooner = new AbortController();
  #registered = false;
  /** Whether the server has ever taken a claim of this worker. */
  #accepted = false;
  #began = false;
  #leftRunning = false;

  constructor(client: Client, { queues, handlers, grace, heartbeat = LONGEST_BEAT_S, log }: WorkerOptions) {
    setMaxListeners(0, this.#stopping.signal, this.#over.signal); // any number of handlers may listen
    this.#client = client;
    this.#queues = new Map(Object.entries(queues));
    this.#handlers = handlers instanceof Map ? handlers : new Map(Object.entries(handlers));
    if (this.#queues.size === 0 || [...this.#queues.values()].some((n) => !Number.isInteger(n) || n < 1)) {
      throw new ConfigError(`queues: ${JSON.stringify(queues)} must name at least one queue, with its slots from 1`);
    }
    if (this.#handlers.size === 0) throw new ConfigError("no handlers: give some, by kind");
    this.#graceS = grace === undefined ? client.settings.grace : secondsOf("grace", grace);
    this.#longestBeatS = secondsOf("heartbeat", heartbeat);
    this.#beatS = Math.min(FIRST_BEAT_S, this.#longestBeatS);
    const sink = log ?? toStandardError(client.settings);
    this.#logger = new Logger(client.settings.logLevel, sink, { worker_id: this.workerId });
    const owner: Owner = {
      workerId: this.workerId,
      report: () => this.#sayHeld(this.#over.signal),
      forget: (run) => this.#forget(run),
      goOn: (run, job) => this.#goOn(run, job),
      lose: (reason) => this.#lose(reason),
    };
    this.#ends = new Ends(client.transport, owner, this.#logger, this.#over.signal);
  }

  /** Claim no more, finish, end; the second time: end the grace period. */
  stop(): void {
    if (this.#stopping.signal.aborted) this.#graceOver.abort();
    else this.#stopping.abort(new Stopped("stopping", "the worker stops"));
  }

  /** Work until `stop`, the signal, SIGTERM or SIGINT. A worker runs once. */
  async run({ signal, handleSignals = true }: { signal?: AbortSignal; handleSignals?: boolean } = {}): Promise<void> {
    if (this.#began) throw new ConfigError("a worker runs once: make another one");
    this.#began = true;
    let signaled = false;
    const stop = () => {
      signaled = true;
      this.stop();
    };
    const asked = () => this.stop();
    if (signal?.aborted) this.stop();
    signal?.addEventListener("abort", asked, { once: true });
    if (handleSignals) process.on("SIGTERM", stop).on("SIGINT", stop);
    this.#logger.info("worker started", { queues: Object.fromEntries(this.#queues), pid: process.pid });
    const beats = this.#beats();
    try {
      const claims = await Promise.allSettled(
        [...this.#queues].map(([queue, slots]) => this.#claimFrom(queue, slots)),
      );
      await this.#finish();
      // a worker that does not claim any more must not look alive
      for (const each of claims) if (each.status === "rejected") throw each.reason;
    } finally {
      this.#over.abort(new Stopped("stopping", "the worker has stopped"));
      this.#sooner.abort();
      await beats;
      signal?.removeEventListener("abort", asked);
      process.off("SIGTERM", stop).off("SIGINT", stop);
      this.#logger.info("worker stopped");
      // the process was told to end; what runs after `run` has a moment
      if (signaled && this.#leftRunning) setTimeout(() => process.exit(), LAST_MOMENT_S * 1000).unref();
    }
  }

  // claims

  async #claimFrom(queue: string, count: number): Promise<void> {
    const slots = new Slots(count, this.#stopping.signal);
    this.#slots.set(queue, slots);
    const { signal } = this.#stopping;
    try {
      while (!signal.aborted) {
        const taken = await slots.takeAll();
        const began = performance.now();
        let jobs: ClaimedJob[] = [];
        let started = 0;
        try {
          jobs = await this.#claim(queue, taken, signal);
          for (const job of jobs) if (this.#start(job)) started += 1;
        } finally {
          slots.release(taken - started);
        }
        // a server that does not wait must not be asked without a pause
        if (jobs.length === 0 && performance.now() - began < TOO_OFTEN_S * 1000) await sleep(TOO_OFTEN_S, signal);
      }
    } catch (error) {
      if (signal.aborted) return;
      this.stop();
      throw error;
    }
  }

  async #claim(queue: string, limit: number, signal: AbortSignal): Promise<ClaimedJob[]> {
    const body = {
      worker_id: this.workerId,
      claim_id: randomUUID(),
      queues: [queue],
      kinds: [...this.#handlers.keys()].sort(),
      limit: Math.min(limit, 1000),
      wait: WAIT_S,
      hostname: hostname(),
      version: VERSION,
    };
    const request: Request<Claimed> = {
      method: "POST",
      path: "/worker/jobs/claim",
      answer: Claimed,
      body,
      wait: WAIT_S,
      repeatable: false,
    };
    let refused = false;
    for (let failures = 0; ; failures++) {
      try {
        this.#registered = true;
        const [began, beats] = [performance.now(), this.#beatCount];
        const { said, answer } = await this.#ask(request, signal);
        this.#accepted = true;
        this.#lease(said.lease_expires_at, answer);
        const left = leaseLeft(said.lease_expires_at, answer.headers.get("Date"));
        const took = (performance.now() - began) / 1000;
        if (said.jobs.length === 0 || (took < left && this.#beatCount < beats + 2)) return said.jobs;
        // the answer may have been under way for so long that its jobs run elsewhere by now: the same claim again gives
        // those that are still this worker's
        body.wait = request.wait = 0;
      } catch (error) {
        signal.throwIfAborted();
        if (!(error instanceof HeadwayError)) throw error;
        if (error instanceof ApiError && REFUSED.includes(error.status)) {
          if (!refused) this.#sayRefused(queue, error);
          if (!this.#accepted) {
            this.#registered = false; // there is nothing to sign off
            throw error;
          }
          refused = true;
        } else if (failures === 0) {
          this.#logger.warning("a claim failed: it is repeated", { error: error.message });
        }
        // the same claim again: what it brought the first time is not lost
        await sleep(backoff(failures + 1, 0.2, refused ? LONGEST_REFUSED_S : LONGEST_PAUSE_S), signal);
      }
    }
  }

  #sayRefused(queue: string, error: ApiError): void {
    const does = this.#accepted ? `it asks again, about every ${LONGEST_REFUSED_S} s` : "it ends";
    const command = "headway keys create NAME --role worker";
    const fix = `give it a key of role worker that is for its queues and kinds (${command})`;
    this.#logger.error(`the server refuses this worker's claims, so ${does}: ${fix}`, { error: error.message, queue });
  }

  #lease(expiresAt: string, answer: Answer): void {
    const before = this.#beatS;
    this.#beatS = beatAfter(expiresAt, answer.headers.get("Date"), this.#longestBeatS);
    if (this.#beatS < before / 2) this.#sooner.abort();
  }

  // running

  /** False where the server has taken it back before its answer came here. */
  #start(job: ClaimedJob): boolean {
    const fields = {
      trace_id: job.trace_id,
      job_id: job.id,
      job_type: job.kind,
      tenant_id: job.tenant_id,
      attempt_no: job.fence,
    };
    const logger = this.#logger.with(fields);
    if (this.#givenBack.has(keyOf(job))) {
      logger.warning("the job came too late and is not run: it was given back");
      return false;
    }
    const run = new Running(new Context(job, logger, this.#stopping.signal, this.#upload));
    this.#running.set(run.key, run);
    void run.run(this.#handlers.get(job.kind)).then((end) => {
      if (run.dropped) this.#forget(run);
      else this.#ends.add(run, end);
    });
    return true;
  }

  /** Free its slot, once its handler has really ended. */
  #forget(run: Running): void {
    if (this.#running.delete(run.key)) void run.handled.then(() => this.#slots.get(run.ctx.queue)?.release());
  }

  #goOn(run: Running, job: ClaimedJob): void {
    // in the same slot, unless that was freed meanwhile
    if (this.#running.has(run.key) && this.#start(job)) this.#running.delete(run.key);
    else this.#forget(run);
  }

  #drop(run: Running, reason: Stopped): void {
    run.drop(reason);
    this.#forget(run);
  }

  /** Everything that ran is lost; the next claim starts over. */
  #lose(reason: string): void {
    this.#logger.warning(`the lease was lost: ${reason}`, { jobs: this.#running.size });
    for (const run of [...this.#running.values()]) this.#drop(run, new Stopped("lost", "the lease was lost"));
  }

  #upload: Upload = (ctx, name, upload, contentType) => {
    const query = { worker_id: this.workerId, fence: ctx.fence, name, content_type: contentType };
    const path = `/worker/jobs/${ctx.jobId}/artifacts`;
    const request = {
      method: "POST",
      path,
      answer: Artifact,
      query,
      upload,
      wait: UPLOAD_S,
      repeatable: false,
    } as const;
    return this.#client.transport.send(request, { signal: ctx.end });
  };

  // heartbeats

  async #beats(): Promise<void> {
    const over = this.#over.signal;
    while (!over.aborted) {
      this.#sooner = new AbortController();
      // a lease that turns out to be shorter brings the next heartbeat forward
      const slept = await sleep(this.#beatS, this.#sooner.signal).then(
        () => true,
        () => false,
      );
      if (slept && this.#running.size > 0) await this.#sayHeld(over);
    }
  }

  /** Name the jobs that the worker holds; what it claimed before and does not name is released, uncharged. */
  #sayHeld(signal: AbortSignal): Promise<void> {
    // what jobs log arrives in order; names those that run then: one that it leaves out is taken back
    const said = this.#beating.then(() => this.#say([...this.#running.values()], signal));
    this.#beating = said.catch(() => undefined);
    return said;
  }

  async #say(runs: readonly Running[], signal: AbortSignal): Promise<void> {
    const reports = newest(runs).map((run): [Running, Said] => [run, run.ctx.takeSaid()]);
    try {
      this.#heard(await this.#beat(reports, signal));
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof LeaseLost) return this.#lose(error.message);
      this.#logger.warning("a heartbeat failed", { error: String(error) });
      if (!isRefusal(error)) {
        for (const [run, said] of reports) run.ctx.sayAgain(said);
        return;
      }
      // what was said of the jobs is refused: the lease matters more
      await this.#beat(
        reports.map(([run]) => [run, {}]),
        signal,
      )
        .then((said) => this.#heard(said))
        .catch(() => undefined);
    }
  }

  async #beat(reports: readonly [Running, Said][], signal: AbortSignal): Promise<HeartbeatsAnswer> {
    const jobs = reports.map(([run, said]) => ({ ...run.name, ...said }));
    const body = { worker_id: this.workerId, jobs };
    this.#beatCount += 1;
    const { said, answer } = await this.#ask(
      { method: "POST", path: "/worker/heartbeat", answer: HeartbeatsAnswer, body },
      signal,
    );
    this.#lease(said.lease_expires_at, answer);
    return said;
  }

  #heard(said: HeartbeatsAnswer): void {
    for (const each of said.cancel_requested) {
      this.#running.get(keyOf(each))?.ctx.abort(new Stopped("canceled", "canceled"));
    }
    for (const each of said.released) {
      this.#givenBack.add(keyOf(each));
      const [first] = this.#givenBack;
      if (this.#givenBack.size > MOST_GIVEN_BACK && first !== undefined) this.#givenBack.delete(first);
    }
    for (const each of [...said.lost, ...said.released]) {
      const run = this.#running.get(keyOf(each));
      if (run === undefined || run.ended) continue;
      run.ctx.logger.warning("the job is not this worker's any more");
      this.#drop(run, new Stopped("lost", "the job is not this worker's any more"));
    }
  }

  // the end

  /** Let jobs end for the grace period; give back the others, uncharged, and sign off. */
  async #finish(): Promise<void> {
    const graceOver = this.#graceOver.signal;
    const jobs = [...this.#running.values()].map((run) => run.ctx.jobId);
    if (jobs.length === 0) this.#logger.info("stopping");
    else
      this.#logger.info("stopping: waits for running jobs; a second signal gives them back and ends at once", {
        jobs,
        at_most_s: this.#graceS,
      });
    const idle = (async () => {
      while (this.#running.size > 0 && !graceOver.aborted) {
        await Promise.all([...this.#running.values()].map((run) => run.handled));
        await this.#ends.written();
      }
    })();
    const waited = sleep(this.#graceS, graceOver).catch(() => undefined);
    await Promise.race([idle, waited]);
    this.#graceOver.abort();
    if (!this.#registered) return;
    const signOff = AbortSignal.any([this.#over.signal, AbortSignal.timeout(SIGN_OFF_S * 1000)]);
    try {
      this.#heard(
        await this.#beat(
          newest([...this.#running.values()]).map((run) => [run, run.ctx.takeSaid()]),
          signOff,
        ),
      );
      const left = [...this.#running.values()].filter((run) => !run.ended);
      for (const run of left) this.#drop(run, new Stopped("stopping", "the worker stopped before it ended"));
      await Promise.race([this.#ends.written(), sleep(SIGN_OFF_S, signOff)]);
      await this.#moment(left);
      await this.#beat([], signOff); // what it does not name any more is released, a claim whose answer got lost too
      const body = { worker_id: this.workerId, leave: true };
      await this.#client.transport.send(
        { method: "POST", path: "/worker/release", answer: Released, body },
        { signal: signOff },
      );
    } catch (error) {
      if (error instanceof LeaseLost) return; // it is not registered any more
      this.#logger.warning("the worker could not sign off: its lease runs out", { error: String(error) });
    }
  }

  /** Handlers that listen end now; the others are named: JavaScript cannot end a function. */
  async #moment(left: readonly Running[]): Promise<void> {
    const all = Promise.all(left.map((run) => run.handled));
    await Promise.race([all, sleep(left.length === 0 ? 0 : LAST_MOMENT_S, this.#over.signal)]).catch(() => undefined);
    for (const run of left.filter((each) => each.runsOn)) {
      this.#leftRunning = true;
      run.ctx.logger.warning("its handler runs on after its job was given back: let it listen to ctx.signal");
    }
  }

  async #ask<T>(request: Request<T>, signal: AbortSignal): Promise<{ said: T; answer: Answer }> {
    const answer = await this.#client.transport.exchange(request, { signal });
    return { said: readAnswer(request, answer), answer };
  }
}

/** Each job once, in its last execution: one before may still wait for the answer that it was settled. */
function newest(runs: readonly Running[]): Running[] {
  const found = new Map<string, Running>();
  for (const run of runs) {
    const other = found.get(run.ctx.jobId);
    if (other === undefined || other.ctx.fence < run.ctx.fence) found.set(run.ctx.jobId, run);
  }
  return [...found.values()];
}
