/** Every error that the client throws on purpose, under one base class. */

import { Problem, type Fault } from "./wire.js";

/** The base of all errors of this package. */
export class HeadwayError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** A setting cannot be used; the message names it. */
export class ConfigError extends HeadwayError {}

type SomeOfProblem = { [Name in keyof Problem]?: Problem[Name] | undefined };

/** The server refused a request. `code` is the name of the error, `fix` says what to do, `errors` where. */
export class ApiError extends HeadwayError {
  readonly status: number;
  readonly code: string;
  readonly detail: string;
  readonly fix: string;
  readonly errors: readonly Fault[];
  readonly requestId: string;
  /** Of a conflict: the job that is there already. */
  readonly jobId: string | undefined;

  constructor(status: number, problem: SomeOfProblem) {
    const detail = problem.detail || `the server answered ${status}`;
    super(problem.fix ? `${detail}; ${problem.fix}` : detail);
    this.status = status;
    this.code = problem.code ?? "";
    this.detail = detail;
    this.fix = problem.fix ?? "";
    this.errors = problem.errors ?? [];
    this.requestId = problem.request_id ?? "";
    this.jobId = problem.job_id || undefined;
  }
}

/** 401: the key is missing, unknown, revoked or expired. */
export class Unauthorized extends ApiError {}

/** 403: the key's role, tenant, queues or kinds do not allow it; 409: the job's status does not. */
export class NotAllowed extends ApiError {}

/** 404: there is no such thing, or it is another tenant's. */
export class NotFound extends ApiError {}

/** 409: a unique key is taken; `jobId` is the job that has it. */
export class Duplicate extends ApiError {}

/** 409: a worker does not have its claim any more. */
export class LeaseLost extends ApiError {}

/** 400, 413, 415, 422: the request is not valid. */
export class Invalid extends ApiError {}

/** 429: too many requests, or too many jobs wait. */
export class TooMany extends ApiError {}

/** The server or its database could not be reached, even after several tries. */
export class Unavailable extends HeadwayError {
  /** An `UnavailableAnswer` is one, too: a class has one base alone, and that is an `ApiError`. */
  static override [Symbol.hasInstance](value: unknown): boolean {
    if (this === Unavailable && value instanceof UnavailableAnswer) return true;
    return Function.prototype[Symbol.hasInstance].call(this, value);
  }
}

/** 502, 503, 504: the server, or a proxy before it, said so itself. It is an `ApiError` and `Unavailable`. */
export class UnavailableAnswer extends ApiError {}

/** The server's answer is not what its API promises: it may be another program, a proxy, or a much newer server. */
export class UnexpectedAnswer extends HeadwayError {
  /** Of an answer that is no success. */
  readonly status: number | undefined;

  constructor(message: string, { status, ...options }: ErrorOptions & { status?: number } = {}) {
    super(message, options);
    this.status = status;
  }
}

/** The job whose result was asked for did not succeed. */
export class JobFailed extends HeadwayError {
  constructor(
    message: string,
    readonly status: string,
    readonly error: string | null,
  ) {
    super(message);
  }
}

/** The job whose result was asked for has not ended yet. */
export class NotFinished extends HeadwayError {}

const BY_CODE: Record<string, typeof ApiError> = { Duplicate, LeaseLost, NotAllowed };
const BY_STATUS: Record<number, typeof ApiError> = {
  400: Invalid,
  401: Unauthorized,
  403: NotAllowed,
  404: NotFound,
  413: Invalid,
  415: Invalid,
  422: Invalid,
  429: TooMany,
  502: UnavailableAnswer,
  503: UnavailableAnswer,
  504: UnavailableAnswer,
};
const AWAY: readonly number[] = [502, 503, 504]; // what a proxy answers while the server is away
const PROBLEM = "application/problem+json";

/** An answer of 300 and above. */
interface Refusal {
  status: number;
  headers: Headers;
  text: string;
}

/**
 * The error that an answer means. Only a problem document with a code is the API's: another program's 404 does not say
 * that there is no such job.
 */
export function errorOf(asked: string, { status, headers, text }: Refusal): ApiError | UnexpectedAnswer {
  const mediaType = (headers.get("Content-Type") ?? "").split(";", 1)[0]?.trim().toLowerCase();
  const problem = mediaType === PROBLEM ? problemIn(text) : undefined;
  if (problem?.code) return new (BY_CODE[problem.code] ?? BY_STATUS[status] ?? ApiError)(status, problem);
  if (AWAY.includes(status)) return new UnavailableAnswer(status, {});
  const reason = `${status} with ${mediaType || "no content type"}, but no ${PROBLEM} with a code`;
  const fix = "check that HEADWAY_API is the address of headway serve";
  return new UnexpectedAnswer(`the answer to ${asked} is not as promised: ${reason}; ${fix}`, { status });
}

function problemIn(text: string): SomeOfProblem | undefined {
  try {
    return Problem.partial().safeParse(JSON.parse(text)).data;
  } catch {
    return undefined;
  }
}
