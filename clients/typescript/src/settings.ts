/** Settings, read strictly from HEADWAY_* of the environment: a wrong one is named. */

import { ConfigError } from "./errors.js";

/** "30s", "5m", "250ms", or seconds. */
export type Duration = string | number;
export type LogLevel = "debug" | "info" | "warning" | "error";

/** Where the server is, who asks, and how patient a client is. */
export interface Settings {
  readonly url: string;
  readonly key: string;
  /** For a super admin's key. */
  readonly tenant: string | undefined;
  /** Seconds for one request, beside what it asks to wait. */
  readonly timeout: number;
  /** Of requests that may be repeated. */
  readonly retries: number;
  /** Seconds that a stopping worker lets its jobs run. */
  readonly grace: number;
  readonly logLevel: LogLevel;
  readonly logFormat: "json" | "text";
}

/** What is not given comes from HEADWAY_API, HEADWAY_KEY, HEADWAY_TENANT and so on. */
export interface ClientOptions {
  url?: string | undefined;
  key?: string | undefined;
  tenant?: string | undefined;
  timeout?: Duration | undefined;
  retries?: number | undefined;
  grace?: Duration | undefined;
  logLevel?: LogLevel | undefined;
  logFormat?: "json" | "text" | undefined;
}

export const LEVELS: readonly LogLevel[] = ["debug", "info", "warning", "error"];

type Reader = (value: string) => unknown;
/** Not Node.js's own type: whoever uses the package may not have its types. */
type Environment = Readonly<Record<string, string | undefined>>;

/** The variable of each setting, and how it is read; a reader throws what is wrong with the text. */
const READERS: Record<string, [keyof Settings, Reader]> = {
  API: ["url", address],
  KEY: ["key", key],
  TENANT: ["tenant", (text) => nonEmpty(text)],
  TIMEOUT: ["timeout", seconds],
  RETRIES: ["retries", count],
  GRACE: ["grace", seconds],
  LOG_LEVEL: ["logLevel", (text) => oneOf(text.toLowerCase(), LEVELS)],
  LOG_FORMAT: ["logFormat", (text) => oneOf(text, ["json", "text"])],
};

const DEFAULTS = {
  url: "http://127.0.0.1:8420",
  key: "",
  tenant: undefined,
  timeout: 10,
  retries: 4,
  grace: 30,
  logLevel: "info",
  logFormat: "json",
} as const satisfies Settings;

/** From the environment, under what is given; throws `ConfigError`, which names the variable or option. */
export function readSettings(given: ClientOptions = {}, environ: Environment = process.env): Settings {
  const values: Record<string, unknown> = {};
  for (const [name, text] of Object.entries(environ)) {
    if (!name.startsWith("HEADWAY_") || text === undefined) continue;
    const found = READERS[name.slice("HEADWAY_".length)];
    if (found === undefined) checkSpelling(name);
    else values[found[0]] = read(found, text, `${name}=${found[0] === "key" ? "…" : `'${text}'`}`);
  }
  for (const [variable, found] of Object.entries(READERS)) {
    const name = found[0];
    const value = (given as Record<string, unknown>)[name];
    if (value === undefined) continue;
    const shown = name === "key" ? "…" : JSON.stringify(value);
    values[name] = read(found, String(value), `${name}: ${shown} (HEADWAY_${variable})`);
  }
  const unknown = Object.keys(given).find((name) => !(name in DEFAULTS));
  if (unknown !== undefined) throw new ConfigError(`${unknown} is not an option of the client`);
  if (!values["key"]) throw new ConfigError("no key: set HEADWAY_KEY, or give key; headway keys create makes one");
  return { ...DEFAULTS, ...values } as Settings;
}

/** `seconds("250ms")` is 0.25; so is `seconds(0.25)`. */
export function seconds(value: Duration): number {
  const found = /^(\d+(?:\.\d+)?)(ms|s|m|h)?$/.exec(String(value).trim());
  if (found === null) throw new RangeError("is not a duration such as 30s, 5m or 250ms");
  const unit = { ms: 0.001, s: 1, m: 60, h: 3600 }[found[2] ?? "s"] ?? 1;
  return Number(found[1]) * unit;
}

function read([, reader]: [keyof Settings, Reader], text: string, shown: string): unknown {
  try {
    return reader(text);
  } catch (error) {
    throw new ConfigError(`${shown} ${(error as Error).message}`);
  }
}

function address(text: string): string {
  if (!/^https?:\/\/[^/\s]+/.test(text)) throw new RangeError("is not an address such as https://jobs.example.com");
  return text.replace(/\/+$/, "");
}

function key(text: string): string {
  if (!/^hw_[!-~]*$/.test(text)) throw new RangeError("is not a key: keys begin with hw_");
  return text;
}

function count(text: string): number {
  if (!/^\d+$/.test(text)) throw new RangeError("is not a whole number from 0");
  return Number(text);
}

function nonEmpty(text: string): string {
  if (text.trim() === "") throw new RangeError("is empty");
  return text;
}

function oneOf(text: string, allowed: readonly string[]): string {
  if (!allowed.includes(text)) throw new RangeError(`is none of ${allowed.join(", ")}`);
  return text;
}

/** Other programs of Headway read other variables; one that is nearly ours is a typing error. */
function checkSpelling(name: string): void {
  const field = name.slice("HEADWAY_".length);
  const near = Object.keys(READERS).find((each) => likeness(field, each) >= 0.8);
  if (near !== undefined) throw new ConfigError(`${name} is not a setting: do you mean HEADWAY_${near}?`);
}

/** How much of two texts is their longest common subsequence, from 0 to 1. */
function likeness(left: string, right: string): number {
  let row = new Array<number>(right.length + 1).fill(0);
  for (const letter of left) {
    const next = [0];
    for (let at = 0; at < right.length; at++) {
      next.push(letter === right[at] ? (row[at] ?? 0) + 1 : Math.max(row[at + 1] ?? 0, next[at] ?? 0));
    }
    row = next;
  }
  return (2 * (row[right.length] ?? 0)) / (left.length + right.length);
}
