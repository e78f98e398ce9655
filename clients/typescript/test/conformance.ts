/** Runs the scenarios of clients/conformance.json with this client. */

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import {
  ApiError,
  Cancel,
  type Context,
  Fatal,
  handler,
  type Handler,
  type LogLine,
  machine,
  outcome,
  Retry,
  step,
  type StepOutcome,
  type StreamEvent,
  type When,
  Worker,
} from "@headway/client";
import { z } from "zod";
import { declareDead, newClient, until, workerClient } from "./served.js";

interface Call {
  call: string;
  args?: Record<string, unknown>;
  gives?: unknown;
  raises?: unknown;
  save?: string;
}

interface Said {
  workers: { queues: Record<string, number> }[];
  scenarios: { name: string; calls: Call[] }[];
}

export const SAID = JSON.parse(readFileSync(new URL("../../conformance.json", import.meta.url), "utf8")) as Said;
const NAME = `typescript-${randomUUID()}`;
const HANDLERS_OWN = ["$signals", "$children", "$timed_out"];

const client = newClient();
/** What the workers have logged. */
export const LINES: LogLine[] = [];
const stopped = new Set<string>();

/** The workers that the scenarios need. */
export function conformanceWorkers(): Worker[] {
  return SAID.workers.map(
    ({ queues }) =>
      new Worker(workerClient(), {
        queues,
        handlers: HANDLERS,
        heartbeat: 0.3,
        grace: 5,
        log: (line) => LINES.push(line),
      }),
  );
}

export async function runScenario({ name, calls }: Said["scenarios"][number]): Promise<void> {
  const saved: Record<string, unknown> = {};
  for (const [place, each] of calls.entries()) {
    const where = `${name}, call ${place + 1} (${each.call})`;
    const expected = filled(each.raises ?? each.gives, saved);
    let answer: unknown;
    try {
      answer = await perform(each.call, filled(each.args ?? {}, saved) as Record<string, any>);
      assert.ok(!("raises" in each), `${where} gave ${JSON.stringify(answer)}`);
    } catch (error) {
      if (!(error instanceof ApiError) || !("raises" in each)) throw new Error(where, { cause: error });
      answer = { type: error.name, status: error.status, code: error.code, job_id: error.jobId };
    }
    if ("gives" in each || "raises" in each) check(answer, expected, where);
    if (each.save !== undefined) saved[each.save] = answer;
  }
}

async function perform(call: string, args: Record<string, any>): Promise<unknown> {
  const { id, ...rest } = args;
  switch (call) {
    case "enqueue":
      return client.enqueue(rest["kind"], rest["payload"], rest["options"]);
    case "enqueue_many":
      return client.enqueueMany(rest["jobs"]);
    case "list":
      return collected(client.list(rest));
    case "get":
      return client.get(id);
    case "result": {
      const { status, value, error } = await client.result(id, rest);
      return { status, value, error };
    }
    case "attempts":
      return client.attempts(id);
    case "journal":
      return client.journal(id, rest);
    case "why":
      return client.why(id);
    case "cancel":
      return client.cancel(id, rest);
    case "retry":
      return client.retry(id, rest);
    case "change":
      return client.change(id, rest["changes"]);
    case "run":
      return client.run(id);
    case "reschedule":
      return client.reschedule(id, rest as When);
    case "move":
      return client.move(id, rest);
    case "stream":
      return streamed(id, rest["run"] === true);
    case "signal": {
      const { name, payload, ...options } = rest;
      return client.signal(id, name, payload, options);
    }
    case "emit":
      return client.emit(rest["name"], rest["payload"]);
    case "until":
      return until<Record<string, unknown>>(
        () => client.get(id),
        (job) => Object.entries(rest).every(([name, value]) => job[name] === value),
        `${id} ${JSON.stringify(rest)}`,
      );
    case "until_stopped":
      return until(
        () => stopped.has(`${id}/${rest["fence"]}`),
        (found) => found,
        `${id} stopped`,
      );
    case "declare_dead":
      return declareDead((await client.get(id)).worker_id ?? "");
    default:
      throw new Error(`no call ${call}`);
  }
}

/** What a stream told. */
async function streamed(id: string, run: boolean): Promise<unknown> {
  const events: StreamEvent[] = [];
  for await (const each of client.stream(id)) if (events.push(each) === 1 && run) await client.run(id);
  const statuses = events.flatMap((each) => (each.event === "job" ? [each.job.status] : []));
  const attempts = events.flatMap((each) => (each.event === "attempt" ? [each.attempt.status] : []));
  const gone = events.some((each) => each.event === "gone");
  return { first: statuses[0], last: statuses.at(-1), attempts, gone };
}

async function collected<T>(items: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const each of items) found.push(each);
  return found;
}

// handlers

const Entry = z.object({
  return: z.unknown().optional(),
  return_text: z.number().optional(),
  fail: z.string().optional(),
  retry: z.number().optional(),
  reason: z.string().optional(),
  cancel: z.string().optional(),
  fatal: z.string().optional(),
  report: z.string().optional(),
  hold: z.boolean().optional(),
  done: z.unknown().optional(),
});

const play = handler(z.object({ does: z.array(Entry).min(1) }), async ({ does }, ctx) => {
  const said = does[Math.min(ctx.fence, does.length) - 1] ?? {};
  if (said.report !== undefined) {
    ctx.progress(0.5, "half");
    ctx.log(said.report);
  }
  if (said.fail !== undefined) throw new Error(said.fail);
  if (said.retry !== undefined) throw new Retry(said.retry, said.reason);
  if (said.cancel !== undefined) throw new Cancel(said.cancel);
  if (said.fatal !== undefined) throw new Fatal(said.fatal);
  if (said.hold) {
    const goesOn = said.return !== undefined || said.done !== undefined;
    await new Promise<void>((resolve, reject) =>
      ctx.signal.addEventListener("abort", () => (goesOn ? resolve() : reject(ctx.signal.reason))),
    );
  }
  if (said.done !== undefined) return outcome.done(said.done);
  return said.return_text === undefined ? said.return : "x".repeat(said.return_text);
});

/** Notes which executions were told to stop. */
function noting(inner: Handler): Handler {
  return {
    runnerOf: (name) => (given, ctx) => {
      ctx.signal.addEventListener("abort", () => stopped.add(`${ctx.jobId}/${ctx.fence}`));
      return inner.runnerOf(name)?.(given, ctx) ?? Promise.reject(new Error("no step"));
    },
  };
}

type Names = "one" | "two" | "three" | "four" | "end";

const playStep = step(
  z.object({ does: z.array(z.record(z.string(), z.any())) }),
  ({ does: [said = {}, ...rest] }, ctx): StepOutcome<Names> => {
    const options = { ...said, state: { does: rest } };
    if ("next" in said) return outcome.next(said["next"] as Names, options.state);
    if ("replay" in said) return outcome.replay({ state: options.state, delay: said["delay"] });
    for (const name of ["await", "spawn", "sleep"] as const) {
      if (name in said) {
        const { [name]: first, ...others } = said;
        return outcome[name]<Names>(first, { ...others, state: options.state });
      }
    }
    if ("done" in said) return outcome.done(doneWith(said["done"], ctx));
    return outcome.stop(said["stop"]);
  },
);

function doneWith(said: unknown, ctx: Context): unknown {
  if (said === "$signals") return ctx.signals.map((each) => each.payload);
  if (said === "$children") return ctx.children.map((each) => each.result);
  return said === "$timed_out" ? ctx.timedOut : said;
}

const HANDLERS = new Map<string, Handler>([
  ["play", noting(play)],
  ["play_briefly", noting(play)],
  ["play_apart", noting(play)],
  [
    "play_steps",
    machine({ start: playStep, one: playStep, two: playStep, three: playStep, four: playStep, end: playStep }),
  ],
]);

// texts

function filled(value: unknown, saved: Record<string, unknown>): unknown {
  if (typeof value === "string") {
    if (!value.startsWith("$") || HANDLERS_OWN.includes(value)) return value.replaceAll("{client}", NAME);
    const [name = "", ...path] = value.slice(1).split(".");
    return path.reduce((found: any, part) => found[part], saved[name]);
  }
  if (Array.isArray(value)) return value.map((each) => filled(each, saved));
  if (typeof value !== "object" || value === null) return value;
  if ("$text" in value) return "x".repeat(value.$text as number);
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, filled(each, saved)]));
}

function check(found: any, expected: any, where: string): void {
  if (Array.isArray(expected)) {
    assert.equal(found.length, expected.length, `${where}: ${JSON.stringify(found)}`);
    expected.forEach((each, place) => check(found[place], each, where));
  } else if (typeof expected === "object" && expected !== null) {
    if ("$matches" in expected) return assert.match(found, new RegExp(expected.$matches), where);
    for (const [key, each] of Object.entries(expected)) check(found[key], each, `${where}: ${key}`);
  } else {
    assert.equal(found, expected, where);
  }
}
