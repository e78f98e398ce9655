/** The server that these tests are given: where it is, keys for it, and how to kill it. tests/clients starts it. */

import { readFileSync } from "node:fs";
import { Client, type ClientOptions } from "@headway/client";

function need(name: string): string {
  const value = process.env[name];
  if (value === undefined) throw new Error(`${name} is not set: run these tests by pytest tests/clients`);
  return value;
}

export const ADDRESS = need("HEADWAY_API");
export const WORKER_KEY = need("WORKER_KEY");
export const ADMIN_KEY = need("ADMIN_KEY");

export function newClient(options: ClientOptions = {}): Client {
  return new Client(options);
}

export function workerClient(options: ClientOptions = {}): Client {
  return new Client({ key: WORKER_KEY, ...options });
}

/** The server is gone at once; whoever started it starts it again. */
export function killServer(): void {
  process.kill(Number(readFileSync(need("SERVER_PID_FILE"), "utf8")), "SIGKILL");
}

export async function declareDead(workerId: string): Promise<void> {
  const init = { method: "POST", headers: { Authorization: `Bearer ${ADMIN_KEY}` } };
  const answer = await fetch(`${ADDRESS}/api/v1/workers/${workerId}/dead`, init);
  if (!answer.ok) throw new Error(await answer.text());
}

/** Asks until the answer is enough; the limit is only for a test that fails. */
export async function until<T>(ask: () => T | Promise<T>, enough: (found: T) => boolean, what: string): Promise<T> {
  const end = performance.now() + Number(process.env["PATIENCE_MS"] ?? 60_000);
  for (;;) {
    const found = await ask();
    if (enough(found)) return found;
    if (performance.now() > end) throw new Error(`it never came: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
