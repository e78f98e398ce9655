/** One execution of a job: calls its handler, and turns what that gave or threw into what the server is told. */

import { type Context, Stopped } from "./context.js";
import type { Handler } from "./handlers.js";
import { Cancel, Fatal, Finished, Retry, StepOutcome } from "./outcomes.js";
import { encode } from "./requests.js";
import { running } from "./traces.js";
import type { EndIn } from "./wire.js";

/** What is said of an end, beside the job's id and fence. */
export type End = Omit<EndIn, "id" | "fence">;

const LONGEST_ERROR = 16_000;

export class Running {
  readonly key: string;
  readonly began = performance.now();
  /** Nothing is said about it any more. */
  dropped = false;
  /** Its end is known, and about to be written. */
  ended = false;
  /** Its handler has not come to an end. */
  runsOn = true;
  /** Settles when the handler has really come to an end, which may be after a timeout was reported. */
  handled: Promise<unknown> = Promise.resolve();

  constructor(readonly ctx: Context) {
    this.key = keyOf({ id: ctx.jobId, fence: ctx.fence });
  }

  get name(): { id: string; fence: number } {
    return { id: this.ctx.jobId, fence: this.ctx.fence };
  }

  /** Run it; gives its end, and never throws. */
  async run(handler: Handler | undefined): Promise<End> {
    const { ctx } = this;
    const runner = handler?.runnerOf(ctx.step);
    if (runner === undefined) {
      this.ended = true;
      this.runsOn = false;
      return { error: `no handler here for ${ctx.kind}, step ${ctx.step}`, delay: "30s" };
    }
    const given = ctx.job.state ?? ctx.job.payload;
    const handled = running.run(ctx.job, async () => runner(given, ctx)); // a plain function may throw at once
    this.handled = handled.catch(() => undefined).finally(() => (this.runsOn = false));
    const late = timeoutOf(ctx);
    try {
      return this.#endOf(await Promise.race([handled, late.promise]));
    } catch (error) {
      return this.#endOfError(error);
    } finally {
      this.ended = true;
      late.clear();
    }
  }

  drop(reason: Stopped): void {
    this.dropped = true;
    this.ctx.abort(reason);
  }

  #endOf(value: unknown): End {
    const { ctx } = this;
    let end: End;
    if (value instanceof Finished) {
      end = { result: value.result };
    } else if (value instanceof StepOutcome) {
      const read = ctx.signals.map((each) => each.id);
      const outcome = read.length === 0 ? value.said : { ...value.said, signals: read };
      end = { outcome, continue: !ctx.workerStops && !ctx.end.aborted };
    } else if (ctx.sawCanceled) {
      end = { status: "canceled", error: null };
    } else {
      if (ctx.gaveWay) this.#giveBack();
      end = { result: value ?? null };
    }
    encode(end); // what has no JSON is the handler's fault, and is said to be
    return end;
  }

  #giveBack(): void {
    this.ctx.logger.info("it returned early, because the worker stops: it is given back");
    this.dropped = true;
  }

  #endOfError(error: unknown): End {
    const { ctx } = this;
    if (ctx.isStopping(error) && !ctx.end.aborted) this.#giveBack();
    const stopped: unknown = ctx.end.reason;
    if (stopped instanceof Stopped) {
      if (stopped.why === "timeout") {
        ctx.logger.warning(stopped.message);
        return { status: "timeout", error: stopped.message };
      }
      // it was asked to stop, and that is why it ended, whatever the handler threw then
      if (stopped.why === "canceled") return { status: "canceled", error: isAbort(error) ? null : textOf(error) };
      return { error: stopped.message, delay: 0 };
    }
    if (error instanceof Cancel) {
      ctx.logger.info("the handler canceled its job", { error: error.message });
      return { status: "canceled", error: error.message.toWellFormed() || "the handler canceled its job" };
    }
    if (error instanceof Retry) {
      ctx.logger.info("the handler asked for a retry", { error: error.message });
      return { error: error.message.toWellFormed(), delay: error.delay };
    }
    if (error instanceof Fatal) {
      ctx.logger.error("the job is dead: another try could not help", { error: error.message });
      return { error: error.message.toWellFormed() || "the handler gave up", retry: false };
    }
    const text = textOf(error);
    ctx.logger.warning("attempt failed", { error: text });
    return { error: text };
  }
}

export function keyOf({ id, fence }: { id: string; fence: number }): string {
  return `${id}/${fence}`;
}

/** Aborts and rejects when the job is over its timeout. */
function timeoutOf(ctx: Context): { promise: Promise<never>; clear: () => void } {
  const ms = ctx.job.timeout_ms;
  let timer: NodeJS.Timeout | undefined;
  const promise = new Promise<never>((_, reject) => {
    if (ms === null) return;
    const late = () => {
      const stopped = new Stopped("timeout", `timed out after ${ms / 1000} s`);
      ctx.abort(stopped);
      reject(stopped);
    };
    timer = setTimeout(late, Math.min(ms, 2 ** 31 - 1)); // a longer one would fire at once
  });
  return { promise, clear: () => clearTimeout(timer) };
}

/** Whether it only says that a signal aborted: a `Stopped`, or what `fetch` and others throw. */
function isAbort(error: unknown): boolean {
  return error instanceof Error && error.name === "AbortError";
}

/** The stack, and those of its causes; anything may have been thrown, and it must not break the worker. */
function textOf(error: unknown): string {
  const parts: string[] = [];
  for (let each: unknown = error, depth = 0; each !== undefined && depth < 5; depth++) {
    try {
      parts.push(each instanceof Error ? String(each.stack ?? each) : String(each));
      each = each instanceof Error ? each.cause : undefined;
    } catch {
      parts.push("something that has no text");
      break;
    }
  }
  const text = parts.join("\ncaused by: ").slice(0, LONGEST_ERROR).toWellFormed();
  return text.trim() === "" ? "the handler threw nothing that says why" : text;
}
