/** Settings, read strictly from HEADWAY_* of the environment: a wrong one is named. */

import { ConfigError } from "./errors.js";

/** "30s", "5m", "1h30m", "250ms", or seconds. */
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
  TENANT: ["tenant", tenant],
  TIMEOUT: ["timeout", someSeconds],
  RETRIES: ["retries", count],
  GRACE: ["grace", seconds],
  LOG_LEVEL: ["logLevel", (text) => oneOf(text.toLowerCase(), LEVELS)],
  LOG_FORMAT: ["logFormat", (text) => oneOf(text, ["json", "text"])],
};

const OTHERS = ["APP", "METRICS", "OTEL"]; // of the engine and the Python client
const SYNONYMS: Record<string, string> = { API_URL: "API", API_KEY: "KEY" };

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
    if (!name.toUpperCase().startsWith("HEADWAY_") || text === undefined) continue;
    const found = name === name.toUpperCase() ? READERS[name.slice("HEADWAY_".length)] : undefined;
    if (found === undefined) checkSpelling(name);
    else values[found[0]] = read(found, text, `${name}=${isSecret(found[0], text) ? "…" : `'${text}'`}`);
  }
  for (const [variable, found] of Object.entries(READERS)) {
    const name = found[0];
    const value = (given as Record<string, unknown>)[name];
    if (value === undefined) continue;
    const shown = isSecret(name, String(value)) ? "…" : JSON.stringify(value);
    values[name] = read(found, String(value), `${name}: ${shown} (HEADWAY_${variable})`);
  }
  const unknown = Object.keys(given).find((name) => !(name in DEFAULTS));
  if (unknown !== undefined) throw new ConfigError(`${unknown} is not an option of the client`);
  if (!values["key"]) throw new ConfigError("no key: set HEADWAY_KEY, or give key; headway keys create makes one");
  return { ...DEFAULTS, ...values } as Settings;
}

const UNITS: Record<string, number> = { ms: 0.001, s: 1, m: 60, h: 3600, d: 86_400, w: 604_800 };
const PART = /(\d+(?:\.\d+)?)\s*(ms|[smhdw])\s*/g;

/** `seconds("1m30s")` is 90; so is `seconds(90)`. */
export function seconds(value: Duration): number {
  if (typeof value === "number" && value >= 0 && value < Infinity) return value;
  const text = typeof value === "string" ? value.trim() : "";
  if (/^\d+(\.\d+)?$/.test(text)) return Number(text);
  if (text === "" || text.replace(PART, "") !== "")
    throw new RangeError("is not a duration such as 30s, 5m or 1h30m");
  return [...text.matchAll(PART)].reduce((sum, [, count, unit]) => sum + Number(count) * (UNITS[unit ?? ""] ?? 1), 0);
}

/** The duration of a worker's option; throws `ConfigError`, which names it. */
export function secondsOf(name: string, value: Duration): number {
  try {
    return seconds(value);
  } catch (error) {
    throw new ConfigError(`${name}: ${JSON.stringify(value)} ${(error as Error).message}`);
  }
}

function someSeconds(text: string): number {
  const found = seconds(text);
  if (found === 0) throw new RangeError("leaves no time for a request: give some seconds");
  return found;
}

/** Whether a message must not show it: an address with an @ may have a password. */
function isSecret(name: keyof Settings, text: string): boolean {
  return name === "key" || text.includes("@");
}

function read([, reader]: [keyof Settings, Reader], text: string, shown: string): unknown {
  try {
    return reader(text);
  } catch (error) {
    throw new ConfigError(`${shown} ${(error as Error).message}`);
  }
}

/** Without the path of the API, which requests add. */
function address(text: string): string {
  const found = /^https?:\/\/[^/?#\s]+/.exec(text)?.[0];
  if (found?.includes("@"))
    throw new RangeError("has a user or password, which the API does not read: leave it out, and set HEADWAY_KEY");
  if (found === undefined || !URL.canParse(found) || new URL(found).port === "0")
    throw new RangeError("is not an address such as https://jobs.example.com");
  const path = text.slice(found.length);
  if (/[?#\s]/.test(path))
    throw new RangeError("has more than a host and a path: leave out what follows ? or #, and spaces");
  return found + path.replace(/\/+$/, "").replace(/\/api\/v1$/, "").replace(/\/+$/, "");
}

function key(text: string): string {
  if (!/^hw_[!-~]*$/.test(text)) throw new RangeError("is not a key: keys begin with hw_");
  return text;
}

function count(text: string): number {
  if (!/^\d+$/.test(text)) throw new RangeError("is not a whole number from 0");
  return Number(text);
}

function tenant(text: string): string {
  if (text.trim() === "") throw new RangeError("is empty");
  if (!/^[ -~]+$/.test(text)) throw new RangeError("is no tenant's name or id: those are ASCII");
  return text;
}

function oneOf(text: string, allowed: readonly string[]): string {
  if (!allowed.includes(text)) throw new RangeError(`is none of ${allowed.join(", ")}`);
  return text;
}

/** Other programs of Headway read other variables; one that is nearly ours is a typo. */
function checkSpelling(name: string): void {
  const field = name.slice("HEADWAY_".length).toUpperCase();
  if (OTHERS.includes(field)) return;
  const near =
    SYNONYMS[field] ?? Object.keys(READERS).find((each) => typos(field, each) <= (each.length < 7 ? 1 : 2));
  if (near !== undefined) throw new ConfigError(`${name} is not a setting: do you mean HEADWAY_${near}?`);
}

/** How many letters are missing, extra, wrong or swapped with the next. */
function typos(said: string, meant: string): number {
  let before: number[] = [];
  let row = Array.from({ length: meant.length + 1 }, (_, place) => place);
  for (let i = 0; i < said.length; i++) {
    const last = before;
    [before, row] = [row, [i + 1]];
    for (let j = 0; j < meant.length; j++) {
      const replaced = (before[j] ?? 0) + (said[i] === meant[j] ? 0 : 1);
      let best = Math.min((before[j + 1] ?? 0) + 1, (row[j] ?? 0) + 1, replaced);
      if (i > 0 && j > 0 && said[i] === meant[j - 1] && said[i - 1] === meant[j])
        best = Math.min(best, (last[j - 1] ?? 0) + 1);
      row.push(best);
    }
  }
  return row.at(-1) ?? 0;
}
