/** Logs: one JSON object a line on standard error, with the job that a line is about. */

import { LEVELS, type LogLevel, type Settings } from "./settings.js";

export type LogFields = Record<string, unknown>;

/** A line; of a job it also has job_id, job_type, attempt_no, tenant_id, trace_id and worker_id. */
export interface LogLine extends LogFields {
  timestamp: string;
  level: LogLevel;
  message: string;
}

/** Where lines go; by default to standard error. */
export type LogSink = (line: LogLine) => void;

export class Logger {
  readonly #least: number;

  constructor(
    private readonly level: LogLevel,
    private readonly sink: LogSink,
    private readonly fields: LogFields = {},
  ) {
    this.#least = LEVELS.indexOf(level);
  }

  /** The same with more fields in every line. */
  with(fields: LogFields): Logger {
    return new Logger(this.level, this.sink, { ...this.fields, ...fields });
  }

  debug(message: string, fields?: LogFields): void {
    this.#write("debug", message, fields);
  }

  info(message: string, fields?: LogFields): void {
    this.#write("info", message, fields);
  }

  warning(message: string, fields?: LogFields): void {
    this.#write("warning", message, fields);
  }

  error(message: string, fields?: LogFields): void {
    this.#write("error", message, fields);
  }

  #write(level: LogLevel, message: string, fields: LogFields = {}): void {
    if (LEVELS.indexOf(level) < this.#least) return;
    this.sink({ timestamp: new Date().toISOString(), level, ...this.fields, message, ...fields });
  }
}

/** Writes lines to standard error, as the settings say. */
export function toStandardError({ logFormat }: Settings): LogSink {
  return (line) => {
    const { timestamp, level, message, ...rest } = line;
    const text =
      logFormat === "json" ? JSON.stringify(line) : `${timestamp} ${level} ${message} ${JSON.stringify(rest)}`;
    process.stderr.write(`${text}\n`);
  };
}
