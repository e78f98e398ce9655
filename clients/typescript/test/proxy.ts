/** A proxy in front of the server that loses answers, cuts connections or answers by itself, and keeps what it saw. */

import { once } from "node:events";
import { createServer, type IncomingMessage, request, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { ADDRESS } from "./served.js";

export interface Seen {
  path: string;
  headers: IncomingMessage["headers"];
  body: string;
}

/** What to do with a request: hand it on, lose its answer, answer by itself, or cut the answer after its first part. */
type Fate = "forward" | "lose" | "hang" | "cut" | { status: number; headers?: Record<string, string>; body?: string };

export class Proxy {
  readonly seen: Seen[] = [];
  /** Decides about each request; `turn` counts those of the same path. */
  fate: (seen: Seen, turn: number) => Fate = () => "forward";
  readonly #server = createServer((asked, answer) => void this.#serve(asked, answer));

  async start(): Promise<this> {
    this.#server.listen(0, "127.0.0.1");
    await once(this.#server, "listening");
    return this;
  }

  get address(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  of(path: string): Seen[] {
    return this.seen.filter((each) => each.path.includes(path));
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  async #serve(asked: IncomingMessage, answer: ServerResponse): Promise<void> {
    const parts: Buffer[] = [];
    for await (const part of asked) parts.push(part as Buffer);
    const path = (asked.url ?? "").replace("/api/v1", "");
    const seen = { path, headers: asked.headers, body: Buffer.concat(parts).toString() };
    const turn = this.of(path).length + 1;
    this.seen.push(seen);
    const fate = this.fate(seen, turn);
    if (fate === "hang") return;
    if (typeof fate === "object") {
      const type = fate.status < 300 ? "application/json" : "application/problem+json";
      answer.writeHead(fate.status, { "Content-Type": type, ...fate.headers }).end(fate.body ?? "{}");
      return;
    }
    const on = request(`${ADDRESS}${asked.url}`, { method: asked.method ?? "GET", headers: asked.headers }, (given) => {
      if (fate === "lose") return void given.on("end", () => answer.destroy()).resume();
      answer.writeHead(given.statusCode ?? 500, given.headers);
      given.on("data", (part) => (answer.write(part), fate === "cut" && setImmediate(() => answer.destroy())));
      given.on("end", () => answer.end()).on("error", () => answer.destroy());
    });
    answer.on("close", () => on.destroy());
    on.on("error", () => answer.destroy());
    on.end(Buffer.concat(parts));
  }
}
