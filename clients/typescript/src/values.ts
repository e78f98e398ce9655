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

/** A list: `await` it for its first page, iterate over it for every job, over `pages()` for every page. */
export class JobPages implements PromiseLike<JobList>, AsyncIterable<Job> {
  readonly #page: (cursor?: string) => Promise<JobList>;

  constructor(page: (cursor?: string) => Promise<JobList>) {
    this.#page = page;
  }

  then<A = JobList, B = never>(
    resolved?: ((page: JobList) => A | PromiseLike<A>) | null,
    rejected?: ((reason: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    return this.#page().then(resolved, rejected);
  }

  async *pages(): AsyncGenerator<JobList> {
    let cursor: string | undefined;
    do {
      const page = await this.#page(cursor);
      yield page;
      cursor = page.next_cursor ?? undefined;
    } while (cursor !== undefined);
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Job> {
    for await (const page of this.pages()) yield* page.items;
  }
}
