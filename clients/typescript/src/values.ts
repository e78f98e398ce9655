/** What the verbs give beside the plain answers: results that can be unwrapped, and lists page by page. */

import type { z } from "zod";
import { JobFailed, NotFinished } from "./errors.js";
import type { Job, JobList } from "./wire.js";

export const FINISHED: ReadonlySet<Job["status"]> = new Set(["succeeded", "failed", "dead", "canceled"] as const);

/** A job's end, or where it is now. */
export class JobResult {
  constructor(
    readonly status: Job["status"],
    readonly value: unknown,
    readonly error: string | null,
  ) {}

  get finished(): boolean {
    return FINISHED.has(this.status);
  }

  /** What the job returned, as the schema has it; throws `JobFailed` if it ended otherwise, `NotFinished` before. */
  unwrap(): unknown;
  unwrap<T>(schema: z.ZodType<T>): T;
  unwrap<T>(schema?: z.ZodType<T>): unknown {
    if (this.status === "succeeded") return schema === undefined ? this.value : schema.parse(this.value);
    if (!this.finished)
      throw new NotFinished(`the job is ${this.status}, not over yet: wait longer, client.result(id, { wait })`);
    throw new JobFailed(`the job ended ${this.status}: ${this.error ?? "no reason given"}`, this.status, this.error);
  }
}

const LONGEST_PAGE = 200;

/** How many jobs to ask for at once; undefined: as many as the server likes. */
function sizeOf(left: number | undefined): number | undefined {
  return left === undefined ? undefined : Math.min(left, LONGEST_PAGE);
}

/** A list: `await` it for its first page, iterate over it for every job, over `pages()` for every page. */
export class JobPages implements PromiseLike<JobList>, AsyncIterable<Job> {
  readonly #limit: number | undefined;
  readonly #page: (cursor?: string, limit?: number) => Promise<JobList>;

  constructor(limit: number | undefined, page: (cursor?: string, limit?: number) => Promise<JobList>) {
    this.#limit = limit;
    this.#page = page;
  }

  then<A = JobList, B = never>(
    resolved?: ((page: JobList) => A | PromiseLike<A>) | null,
    rejected?: ((reason: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    return this.#page(undefined, sizeOf(this.#limit)).then(resolved, rejected);
  }

  async *pages(): AsyncGenerator<JobList> {
    let cursor: string | undefined;
    let left = this.#limit;
    do {
      const page = await this.#page(cursor, sizeOf(left));
      yield page;
      cursor = page.next_cursor ?? undefined;
      if (left !== undefined) left -= page.items.length;
    } while (cursor !== undefined && left !== 0);
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Job> {
    for await (const page of this.pages()) yield* page.items;
  }
}
