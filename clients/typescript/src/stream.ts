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
      let failure: unknown = new Error("the server ended the stream");
      try {
        const headers = transport.headers({ Accept: "text/event-stream", "Last-Event-ID": lastId });
        const init = { headers, signal: connection.signal, redirect: "manual" } as const;
        answer = await fetch(transport.address({ path }), init);
        if (answer.ok && answer.body !== null) {
          const bytes = listening(answer.body, transport.settings.timeout + SILENT_S, connection);
          for await (const sent of sentEvents(bytes)) {
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
        closing.signal.removeEventListener("abort", end);
      }
      failures += 1;
      const refused = answer?.ok === false ? answer : undefined;
      const pause = transport.pause({}, failures, refused);
      if (pause === undefined) {
        if (refused === undefined) throw transport.unreachable(failure, failures);
        throw errorOf(refused.status, await refused.json().catch(() => undefined));
      }
      await sleep(pause, call.signal);
    }
  } finally {
    closing.abort();
    call.signal?.removeEventListener("abort", close);
  }
}

/** The bytes as they come; a connection that is silent for so many seconds is broken, whatever the network says. */
async function* listening(
  bytes: AsyncIterable<Uint8Array>,
  seconds: number,
  connection: AbortController,
): AsyncGenerator<Uint8Array> {
  const silent = () => connection.abort(new Error(`the server said nothing for ${seconds} s`));
  let timer = setTimeout(silent, seconds * 1000);
  try {
    for await (const chunk of bytes) {
      clearTimeout(timer);
      yield chunk;
      timer = setTimeout(silent, seconds * 1000);
    }
  } finally {
    clearTimeout(timer);
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
