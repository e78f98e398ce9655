/** What a machine's step may return: which step is next, with which state, and after what. */

import type { Duration } from "./settings.js";
import type { ChildIn, OutcomeIn } from "./wire.js";

/** A job to spawn. */
export type Child = ChildIn;

/** The outcome of a step; `To` is the names of the steps that it may go on with. */
export class StepOutcome<To extends string = string> {
  declare readonly to: To;

  constructor(readonly said: OutcomeIn) {}
}

/** What a plain handler gives that returned `outcome.done`: it has finished, although its worker stops. */
export class Finished {
  constructor(readonly result: unknown) {}
}

interface State {
  /** Committed with the outcome; left out: it stays as it is. */
  state?: unknown;
}

interface Then<To extends string> extends State {
  /** The step that goes on; left out: this one again. */
  then?: To;
}

export interface AwaitOptions<To extends string> extends Then<To> {
  timeout?: Duration;
  /** One signal of these names (the default), or one of each. */
  match?: "any" | "all";
}

export interface SpawnOptions<To extends string> extends Then<To> {
  on_failure?: "continue" | "stop";
  /** How many have to succeed; left out: all of them come to an end. */
  until?: "first" | number;
}

/** Makes outcomes: `return outcome.next("ship", { order: 7 })`. */
export const outcome = {
  /** Commit the state and go on with another step. */
  next: <const To extends string>(step: To, state?: unknown) =>
    new StepOutcome<To>(state === undefined ? { next: step } : { next: step, state }),

  /** Commit the state and run this step again, after `delay`. */
  replay: (options: State & { delay?: Duration } = {}) => new StepOutcome<never>({ replay: true, ...options }),

  /** Park until signals of these names are there; `then` finds them in `ctx.signals`. */
  await: <const To extends string = never>(names: string | readonly string[], options: AwaitOptions<To> = {}) =>
    new StepOutcome<To>({ await: names, ...options }),

  /** Enqueue these jobs and park until they are over; `then` finds them in `ctx.children`. */
  spawn: <const To extends string = never>(children: readonly Child[], options: SpawnOptions<To> = {}) =>
    new StepOutcome<To>({ spawn: children, ...options }),

  /** Run `then`, or this step again, after `delay`. */
  sleep: <const To extends string = never>(delay: Duration, options: Then<To> = {}) =>
    new StepOutcome<To>({ sleep: delay, ...options }),

  /** The machine has succeeded, with this result. */
  done: (result?: unknown) => new StepOutcome<never>({ done: result ?? null }),

  /** The machine has failed, for this reason. */
  stop: (reason?: string) => new StepOutcome<never>({ stop: reason ?? null }),
};

/** Thrown by a handler: fail this execution and try again, after `delay` or the usual backoff. */
export class Retry extends Error {
  override readonly name = "Retry";

  constructor(
    readonly delay?: Duration,
    reason = "the handler asked for a retry",
  ) {
    super(reason);
  }
}

/** Thrown by a handler: end the job canceled, without another try. */
export class Cancel extends Error {
  override readonly name = "Cancel";
}

/** Thrown by a handler: another try could not help, the job is dead. */
export class Fatal extends Error {
  override readonly name = "Fatal";
}
