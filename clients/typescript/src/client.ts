/** Client: Headway's verbs over HTTP. */

import { z } from "zod";
import { ConfigError, NotAllowed } from "./errors.js";
import { JobPages, JobResult } from "./values.js";
import { type CallOptions, type Request, Transport } from "./requests.js";
import { type ClientOptions, type Duration, readSettings, type Settings } from "./settings.js";
import { type StreamEvent, streamOf } from "./stream.js";
import {
  Attempt,
  AttemptList,
  BatchMade,
  Changed,
  Emitted,
  type Fork,
  Job,
  type JobChange,
  type JobIn,
  JobList,
  JobMade,
  JournalList,
  type JournalRow,
  type ListJobsQuery,
  type Move,
  ResultView,
  type Retry,
  SignalMade,
  WhyView,
} from "./wire.js";

/** The options of a job to enqueue, as `POST /jobs` takes them. */
export type EnqueueOptions = Omit<JobIn, "kind" | "payload" | "definition_key" | "dedupe_key">;
export type NewJob = EnqueueOptions & { kind: string; payload?: object };
export type ListFilters = Omit<ListJobsQuery, "definition_key" | "dedupe_key">;
/** When a job is to run: at a time, or after a while. */
export type When = { scheduled_for: string | Date } | { delay: Duration };

const LONGEST_WAIT_S = 30;
const LONGEST_PAGE = 200;

/**
 * Asks one server, with one key. What is not given comes from HEADWAY_API, HEADWAY_KEY and the other settings. Requests
 * that may be repeated are tried again when the server is away; those that create something carry an Idempotency-Key,
 * so it is created once. For servers only: a key must not reach a browser.
 */
export class Client {
  readonly settings: Settings;
  /** For the worker. @internal */
  readonly transport: Transport;

  constructor(options: ClientOptions = {}) {
    refuseOtherRuntimes();
    this.settings = readSettings(options);
    this.transport = new Transport(this.settings);
  }

  // jobs

  /** Enqueue a job: `client.enqueue("welcome", { user_id: 7 }, { delay: "5m" })`. */
  enqueue(kind: string, payload: object = {}, options: EnqueueOptions = {}, call?: CallOptions): Promise<JobMade> {
    return this.#send(
      { method: "POST", path: "/jobs", answer: JobMade, body: { kind, payload, ...options }, creates: true },
      call,
    );
  }

  /** Enqueue up to 1,000 jobs, all or none. */
  async enqueueMany(jobs: readonly NewJob[], call?: CallOptions): Promise<JobMade[]> {
    const body = { jobs };
    const made = await this.#send(
      { method: "POST", path: "/jobs/batch", answer: BatchMade, body, creates: true },
      call,
    );
    return made.jobs;
  }

  get(id: string, call?: CallOptions): Promise<Job> {
    return this.#send({ method: "GET", path: jobPath(id), answer: Job }, call);
  }

  /**
   * The jobs that match, newest first, at most `limit`: `await` it for a page, or iterate over all of them with
   * `for await`, which asks for page after page.
   */
  list(filters: ListFilters = {}, call?: CallOptions): JobPages {
    return new JobPages(filters.limit, (cursor, limit) => {
      const query = { ...filters, ...(cursor === undefined ? {} : { cursor, offset: undefined }), limit };
      return this.#send({ method: "GET", path: "/jobs", answer: JobList, query }, call);
    });
  }

  /** How the job ended, or where it is after so many seconds. */
  async result(id: string, { wait = 0 }: { wait?: number } = {}, call?: CallOptions): Promise<JobResult> {
    const end = performance.now() + wait * 1000;
    for (;;) {
      const left = Math.min(Math.max((end - performance.now()) / 1000, 0), LONGEST_WAIT_S);
      const path = jobPath(id, "/result");
      const said = await this.#send(
        { method: "GET", path, answer: ResultView, query: { wait: left }, wait: left },
        call,
      );
      let value = said.result;
      if (said.artifact !== null) {
        // too large for its row: a file has it
        const file = `/artifacts/${encodeURIComponent(said.artifact.id)}/content`;
        value = await this.#send({ method: "GET", path: file, answer: z.unknown() }, call);
      }
      const found = new JobResult(said.status, value, said.error);
      if (found.finished || performance.now() >= end) return found;
    }
  }

  async attempts(id: string, call?: CallOptions): Promise<Attempt[]> {
    return (await this.#send({ method: "GET", path: jobPath(id, "/attempts"), answer: AttemptList }, call)).items;
  }

  /** Why the job is not running, or what it is doing. */
  async why(id: string, call?: CallOptions): Promise<string[]> {
    return (await this.#send({ method: "GET", path: jobPath(id, "/why"), answer: WhyView }, call)).reasons;
  }

  /** What a flow has recorded, in order; with `everything` also what does not count any more. */
  async journal(id: string, { everything = false }: { everything?: boolean } = {}, call?: CallOptions) {
    const rows: JournalRow[] = [];
    let cursor: string | undefined;
    do {
      const query = { everything: everything || undefined, limit: LONGEST_PAGE, cursor };
      const page: JournalList = await this.#send(
        { method: "GET", path: jobPath(id, "/journal"), answer: JournalList, query },
        call,
      );
      rows.push(...page.items);
      cursor = page.next_cursor ?? undefined;
    } while (cursor !== undefined);
    return rows;
  }

  /**
   * What happens to a job as it happens: the job whenever it changes, its executions as they end, its log. A broken
   * connection is made again and resumes. It ends once the job has ended or was deleted; with `follow`, only once it
   * was deleted.
   */
  stream(id: string, { follow = false }: { follow?: boolean } = {}, call?: CallOptions): AsyncGenerator<StreamEvent> {
    return streamOf(this.transport, jobPath(id, "/stream"), follow, call);
  }

  /** Cancel a job, or ask it to stop; gives its status. */
  async cancel(id: string, body: { reason?: string } = {}, call?: CallOptions): Promise<Job["status"]> {
    return (await this.#send({ method: "POST", path: jobPath(id, "/cancel"), answer: Changed, body }, call)).status;
  }

  /** Run a finished job again; gives the job that runs. */
  retry(id: string, changes: Retry = {}, call?: CallOptions): Promise<Job> {
    const path = jobPath(id, "/retry");
    return this.#send({ method: "POST", path, answer: Job, body: changes, creates: true }, call);
  }

  /** Give a waiting job another time, or run a finished one again at that time. */
  async reschedule(id: string, when: When, call?: CallOptions): Promise<Job> {
    try {
      return await this.change(id, when, call);
    } catch (error) {
      if (error instanceof NotAllowed && error.status === 409) return await this.retry(id, when, call);
      throw error;
    }
  }

  /** Make a scheduled job due now; gives its status. */
  async run(id: string, call?: CallOptions): Promise<Job["status"]> {
    return (await this.#send({ method: "POST", path: jobPath(id, "/run"), answer: Changed }, call)).status;
  }

  /** Change a job that waits: priority, scheduled_for, queue, max_attempts, payload and so on. */
  change(id: string, changes: JobChange, call?: CallOptions): Promise<Job> {
    return this.#send({ method: "PATCH", path: jobPath(id), answer: Job, body: changes }, call);
  }

  /** Move a waiting job in its train or queue: `before` or `after` another one, or `first` or `last`. */
  move(id: string, where: Move, call?: CallOptions): Promise<Job> {
    return this.#send({ method: "POST", path: jobPath(id, "/move"), answer: Job, body: where }, call);
  }

  /** Delete a job that does not run, for good; one that waits is canceled first. */
  async delete(id: string, call?: CallOptions): Promise<void> {
    await this.#send({ method: "DELETE", path: jobPath(id), answer: z.undefined(), repeatable: false }, call);
  }

  // machines and events

  /** Start a new machine from a step of another. */
  fork(id: string, from: Fork = {}, call?: CallOptions): Promise<Job> {
    return this.#send({ method: "POST", path: jobPath(id, "/fork"), answer: Job, body: from, creates: true }, call);
  }

  /** Send a signal to a machine; gives the signal's id. */
  async signal(
    id: string,
    name: string,
    payload?: unknown,
    options: { dedup_key?: string } = {},
    call?: CallOptions,
  ): Promise<string> {
    const body = { name, payload, ...options };
    const path = jobPath(id, "/signal");
    return (await this.#send({ method: "POST", path, answer: SignalMade, body, creates: true }, call)).id;
  }

  /** Store an event, of which triggers make jobs; gives its id. */
  async emit(
    name: string,
    payload: unknown = {},
    options: { correlation_id?: string } = {},
    call?: CallOptions,
  ): Promise<string> {
    const body = { name, payload, ...options };
    return (await this.#send({ method: "POST", path: "/events", answer: Emitted, body, creates: true }, call)).id;
  }

  #send<T>(request: Request<T>, call?: CallOptions): Promise<T> {
    return this.transport.send(request, call);
  }
}

function jobPath(id: string, rest = ""): string {
  return `/jobs/${encodeURIComponent(id)}${rest}`;
}

function refuseOtherRuntimes(): void {
  const scope = globalThis as { window?: { document?: unknown }; process?: { versions?: { node?: string } } };
  if (scope.window?.document !== undefined) {
    throw new ConfigError(
      "this is a browser, where a key is everybody's: use the client on your server, and call that",
    );
  }
  if (scope.process?.versions?.node === undefined) {
    throw new ConfigError(
      "this is not Node.js: in a route or middleware that runs on an edge runtime, choose Node.js, as by " +
        'export const runtime = "nodejs" in Next.js',
    );
  }
}
