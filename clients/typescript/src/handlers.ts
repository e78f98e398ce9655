/** Handlers: the functions that run jobs, each with a schema of what it takes; machines have one for each step. */

import { z } from "zod";
import type { Context } from "./context.js";
import { Fatal, Finished, StepOutcome } from "./outcomes.js";

type Awaitable<T> = T | Promise<T>;

/** Runs jobs of a kind; made by `handler` or `machine`. */
export interface Handler {
  /** What runs this step (null: of a plain job); undefined: nothing does. */
  runnerOf(step: string | null): Runner | undefined;
}

/** Checks what the job says, and runs it. */
export type Runner = (given: unknown, ctx: Context) => Promise<unknown>;

/** One step of a machine; `To` is the names of the steps that it may go on with. */
export interface Step<To extends string = string> {
  readonly run: Runner;
  readonly to?: To;
}

/** Runs jobs of a kind: `handler(z.object({ user_id: z.number() }), ({ user_id }, ctx) => …)`; gives the result. */
export function handler<T>(schema: z.ZodType<T>, run: (payload: T, ctx: Context) => unknown): Handler {
  const runner = checked(schema, async (payload, ctx) => {
    const value = await run(payload, ctx);
    return value instanceof StepOutcome && "done" in value.said ? new Finished(value.said.done) : value;
  });
  return { runnerOf: (step) => (step === null || step === START ? runner : undefined) };
}

/** A step of a machine: its state is what the schema says, its outcome is made by `outcome`. */
export function step<T, To extends string>(
  schema: z.ZodType<T>,
  run: (state: T, ctx: Context) => Awaitable<StepOutcome<To>>,
): Step<To> {
  return { run: checked(schema, run) };
}

type Steps = Record<string, Step> & { start: Step };

/** The same steps, if each goes on with steps that there are. */
type Closed<S> = {
  [Name in keyof S]: S[Name] extends Step<infer To>
    ? [To] extends [keyof S]
      ? unknown
      : Step<keyof S & string>
    : never;
};

/** Runs machines of a kind, from its step `start` on. Going on with a step that is not there does not compile. */
export function machine<const S extends Steps>(steps: S & Closed<S>): Handler {
  const runners = new Map(Object.entries<Step>(steps).map(([name, each]) => [name, each.run]));
  return { runnerOf: (name) => runners.get(name ?? START) };
}

const START = "start";

function checked<T>(schema: z.ZodType<T>, run: (given: T, ctx: Context) => unknown): Runner {
  return async (given, ctx) => {
    const found = await schema.safeParseAsync(given);
    if (!found.success) throw new Fatal(`the payload does not fit the handler: ${z.prettifyError(found.error)}`);
    return await run(found.data, ctx);
  };
}
