/** Requests as values, and how they are sent: what is repeated, how long it may take, what an answer means. */

import { randomUUID } from "node:crypto";
import type { z } from "zod";
import { errorOf, Unavailable, UnexpectedAnswer } from "./errors.js";
import type { Settings } from "./settings.js";
import { traceHeaders } from "./traces.js";
import { VERSION } from "./version.js";

/** The last parameter of every verb. */
export interface CallOptions {
  /** Ends the call; it throws the signal's reason. */
  signal?: AbortSignal | undefined;
}

/** What can be uploaded. */
export type Bytes = string | Uint8Array | AsyncIterable<string | Uint8Array>;

type Query = Readonly<Record<string, unknown>>;

/** One request; `answer` says what its answer looks like. */
export interface Request<T> {
  method: "GET" | "POST" | "PATCH" | "DELETE";
  path: string;
  answer: z.ZodType<T>;
  body?: unknown;
  /** Bytes instead of a body; a stream is sent once. */
  upload?: Bytes;
  query?: Query;
  /** It carries an Idempotency-Key: the server does it once, however often it is sent. */
  creates?: boolean;
  /** False: sent once, as a second time might do it twice. */
  repeatable?: boolean;
  /** How long it asks the server to wait, in seconds. */
  wait?: number;
}

/** What came back, read to its end. */
export interface Answer {
  status: number;
  headers: Headers;
  text: string;
}

const AGAIN = new Set([429, 502, 503, 504]);
const LONGEST_PAUSE_S = 10;

export class Transport {
  constructor(readonly settings: Settings) {}

  /** Send a request, and try again where that is safe; throws an error of errors.ts. */
  async send<T>(request: Request<T>, { signal }: CallOptions = {}): Promise<T> {
    return readAnswer(request, await this.exchange(request, { signal }));
  }

  /** The same, for who needs the headers of the answer. */
  async exchange(request: Request<unknown>, { signal }: CallOptions = {}): Promise<Answer> {
    const type = request.body !== undefined ? "application/json" : request.upload && "application/octet-stream";
    const headers = this.headers({ "Content-Type": type, ...(request.creates ? traceHeaders() : {}) });
    if (request.creates) headers.set("Idempotency-Key", randomUUID());
    const body = request.body === undefined ? sendable(request.upload) : encode(request.body);
    const seconds = this.settings.timeout + (request.wait ?? 0);
    for (let tries = 1; ; tries++) {
      let answer: Answer | undefined;
      let failure: unknown;
      try {
        answer = await withDeadline(seconds, signal, async (end) => {
          const init = {
            method: request.method,
            headers,
            body,
            signal: end,
            redirect: "manual",
            duplex: "half",
          } as const;
          const response = await fetch(this.address(request), init);
          return { status: response.status, headers: response.headers, text: await response.text() };
        });
      } catch (error) {
        signal?.throwIfAborted();
        failure = error;
      }
      const pause = this.pause(request, tries, answer);
      if (pause === undefined) {
        if (answer === undefined) throw this.unreachable(failure, tries);
        return answer;
      }
      await sleep(pause, signal);
    }
  }

  headers(more: Record<string, string | undefined> = {}): Headers {
    const headers = new Headers({
      Authorization: `Bearer ${this.settings.key}`,
      "User-Agent": `headway-client-typescript/${VERSION}`,
    });
    if (this.settings.tenant !== undefined) headers.set("Headway-Tenant", this.settings.tenant);
    for (const [name, value] of Object.entries(more)) if (value !== undefined) headers.set(name, value);
    return headers;
  }

  address({ path, query }: { path: string; query?: Query }): string {
    const found = new URLSearchParams();
    for (const [name, value] of Object.entries(query ?? {})) {
      for (const each of Array.isArray(value) ? value : [value]) {
        if (each !== undefined && each !== null)
          found.append(name, each instanceof Date ? each.toISOString() : String(each));
      }
    }
    return `${this.settings.url}/api/v1${path}${found.size === 0 ? "" : `?${found}`}`;
  }

  /** Seconds until the next try; undefined: there is no other. */
  pause(
    request: { repeatable?: boolean },
    tries: number,
    answer?: { status: number; headers: Headers },
  ): number | undefined {
    if (answer !== undefined && !AGAIN.has(answer.status)) return undefined;
    if (request.repeatable === false || tries > this.settings.retries) return undefined;
    const said = answer?.headers.get("Retry-After") ?? "";
    return /^\d+$/.test(said) ? Math.min(Number(said), LONGEST_PAUSE_S) : backoff(tries - 1, 0.1);
  }

  unreachable(error: unknown, tries: number): Unavailable {
    const times = tries === 1 ? "" : `, ${tries} times`;
    return new Unavailable(`${this.settings.url} could not be reached${times}: ${reasonOf(error)}`, { cause: error });
  }
}

/** Throws the error that the answer means. */
export function readAnswer<T>(request: Request<T>, answer: Answer): T {
  if (answer.status >= 300) throw errorOf(`${request.method} ${request.path}`, answer);
  let body: unknown;
  try {
    body = answer.text === "" ? undefined : JSON.parse(answer.text);
  } catch (error) {
    throw unexpected(request, "it is not JSON", error);
  }
  const found = request.answer.safeParse(body);
  if (!found.success) throw unexpected(request, found.error.message, found.error);
  return found.data;
}

/** JSON as it goes over the wire; what JSON has no words for is refused rather than changed. */
export function encode(value: unknown): string {
  const text = JSON.stringify(value, (name: string, each: unknown) => {
    if (typeof each === "number" && !Number.isFinite(each)) throw new TypeError(`${name}: ${each} has no JSON`);
    if (typeof each === "function" || typeof each === "symbol")
      throw new TypeError(`${name}: a ${typeof each} has no JSON`);
    if (each instanceof Map || each instanceof Set) throw new TypeError(`${name}: a Map or Set has no JSON`);
    return each;
  }) as string | undefined;
  if (text === undefined) throw new TypeError(`a ${typeof value} has no JSON`);
  return text;
}

/** Sleep for so many seconds, unless the signal aborts, whose reason it throws. */
export async function sleep(seconds: number, signal?: AbortSignal): Promise<void> {
  await withDeadline(Infinity, signal, (end) => {
    return new Promise<void>((resolve, reject) => {
      const timer = setTimeout(resolve, seconds * 1000);
      end.addEventListener("abort", () => (clearTimeout(timer), reject(end.reason)), { once: true });
    });
  });
}

/** Growing pauses in seconds, none of them twice the same. */
export function backoff(failures: number, first: number, longest = LONGEST_PAUSE_S): number {
  return Math.min(first * 2 ** Math.min(failures, 10), longest) * (0.75 + Math.random() / 2);
}

/** Calls it with a signal that aborts after so many seconds, or with the given one; leaves no timer or listener. */
async function withDeadline<T>(
  seconds: number,
  signal: AbortSignal | undefined,
  call: (end: AbortSignal) => Promise<T>,
): Promise<T> {
  signal?.throwIfAborted();
  const end = new AbortController();
  const abort = () => end.abort(signal?.reason);
  signal?.addEventListener("abort", abort, { once: true });
  const late = () => end.abort(new Error(`no answer within ${seconds} s`));
  const timer = Number.isFinite(seconds) ? setTimeout(late, seconds * 1000) : undefined;
  try {
    return await call(end.signal);
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", abort);
  }
}

/** fetch says "fetch failed" and has the reason as its cause. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const inner = error.cause instanceof Error ? error.cause : error;
  return inner.message || (inner as NodeJS.ErrnoException).code || inner.name;
}

function unexpected(request: Request<unknown>, reason: string, cause: unknown): UnexpectedAnswer {
  return new UnexpectedAnswer(`the answer to ${request.method} ${request.path} is not as promised: ${reason}`, {
    cause,
  });
}

/** Fetch takes no texts from an iterable. */
function sendable(upload: Bytes | undefined): string | Uint8Array | AsyncIterable<Uint8Array> | null {
  if (upload === undefined || typeof upload === "string" || upload instanceof Uint8Array) return upload ?? null;
  return pieces(upload);
}

async function* pieces(upload: AsyncIterable<string | Uint8Array>): AsyncGenerator<Uint8Array> {
  const encoder = new TextEncoder();
  for await (const piece of upload) yield typeof piece === "string" ? encoder.encode(piece) : piece;
}
