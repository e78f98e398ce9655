/** A job's stream: connects, resumes after a broken connection, ends with the job. */

import { z } from "zod";
import { errorOf, UnexpectedAnswer } from "./errors.js";
import { type CallOptions, sleep, type Transport } from "./requests.js";
import { sentEvents } from "./sse.js";
import { FINISHED } from "./values.js";
import { Attempt, Job } from "./wire.js";

const SILENT_S = 20; // the server says something every few seconds, if only that it is there

const Log = z.object({ fence: z.number(), from: z.number(), to: z.number(), text: z.string() });

/** What a stream tells: the job as it is now, an execution that ended, new text of its log, or that it was deleted. */
export type StreamEvent =
  | { event: "job"; job: Job }
  | { event: "attempt"; attempt: Attempt }
  | { event: "log"; log: z.infer<typeof Log> }
  | { event: "gone" };

export async function* streamOf(
  transport: Transport,
  path: string,
  follow: boolean,
  call: CallOptions = {},
  silentS = transport.settings.timeout + SILENT_S,
): AsyncGenerator<StreamEvent> {
  const closing = new AbortController();
  const close = () => closing.abort(call.signal?.reason);
  call.signal?.throwIfAborted();
  call.signal?.addEventListener("abort", close, { once: true });
  let lastId: string | undefined;
  let failures = 0;
  try {
    for (;;) {
      let answer: Response | undefined;
      const connection = new AbortController();
      const end = () => connection.abort(closing.signal.reason);
      closing.signal.addEventListener("abort", end, { once: true });
      const silence = new Silence(silentS, connection);
      let failure: unknown = new Error("the server ended the stream");
      try {
        const headers = transport.headers({ Accept: "text/event-stream", "Last-Event-ID": lastId });
        const init = { headers, signal: connection.signal, redirect: "manual" } as const;
        answer = await fetch(transport.address({ path }), init);
        if (answer.ok && answer.body !== null) {
          for await (const sent of sentEvents(silence.heardIn(answer.body))) {
            failures = 0;
            lastId = sent.id || lastId;
            const found = read(sent.event, sent.data);
            if (found === undefined) continue;
            yield found;
            if (found.event === "gone" || (found.event === "job" && !follow && FINISHED.has(found.job.status))) return;
          }
        }
      } catch (error) {
        call.signal?.throwIfAborted();
        if (error instanceof UnexpectedAnswer) throw error;
        failure = error;
      } finally {
        silence.end();
        closing.signal.removeEventListener("abort", end);
      }
      failures += 1;
      const refused = answer?.ok === false ? answer : undefined;
      const pause = transport.pause({}, failures, refused);
      if (pause === undefined) {
        if (refused === undefined) throw transport.unreachable(failure, failures);
        const { status, headers } = refused;
        throw errorOf(`GET ${path}`, { status, headers, text: await refused.text().catch(() => "") });
      }
      await sleep(pause, call.signal);
    }
  } finally {
    closing.abort();
    call.signal?.removeEventListener("abort", close);
  }
}

/** A connection that is silent for so many seconds, from its first request on, is broken, whatever the network says. */
class Silence {
  #timer: NodeJS.Timeout | undefined;

  constructor(
    private readonly seconds: number,
    private readonly connection: AbortController,
  ) {
    this.#begin();
  }

  /** The bytes as they come; the time that the caller takes for them does not count. */
  async *heardIn(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    for await (const chunk of bytes) {
      this.end();
      yield chunk;
      this.#begin();
    }
  }

  end(): void {
    clearTimeout(this.#timer);
  }

  #begin(): void {
    const late = () => this.connection.abort(new Error(`the server said nothing for ${this.seconds} s`));
    this.end();
    this.#timer = setTimeout(late, this.seconds * 1000);
  }
}

/** Undefined for an event of a newer server. */
function read(event: string, data: string): StreamEvent | undefined {
  try {
    const said: unknown = JSON.parse(data);
    if (event === "job") return { event, job: Job.parse(said) };
    if (event === "attempt") return { event, attempt: Attempt.parse(said) };
    if (event === "log") return { event, log: Log.parse(said) };
  } catch (error) {
    throw new UnexpectedAnswer(`an event "${event}" of the stream is not as promised`, { cause: error });
  }
  return event === "gone" ? { event } : undefined;
}
