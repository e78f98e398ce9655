/** What needs no server: settings, events, values, types. */

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { createPublicKey, verify } from "node:crypto";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer as createHttpServer } from "node:http";
import { type AddressInfo, createServer } from "node:net";
import { describe, it } from "node:test";
import {
  Client,
  ConfigError,
  handler,
  JobFailed,
  JobResult,
  machine,
  NotFinished,
  outcome,
  step,
  Unavailable,
  Worker,
} from "@headway/client";
import { Webhook } from "standardwebhooks";
import { z } from "zod";
import { readSettings, seconds } from "../dist/settings.js";
import { beatAfter } from "../dist/lease.js";
import { encode, Transport } from "../dist/requests.js";
import { Context } from "../dist/context.js";
import { Logger } from "../dist/logs.js";
import { Running } from "../dist/running.js";
import { sentEvents } from "../dist/sse.js";
import { streamOf } from "../dist/stream.js";

// made by the worker alone
const MadeContext = Context as unknown as new (job: object, logger: Logger, stopping: AbortSignal) => Context;

interface Signed {
  secrets: string[];
  public_keys: string[];
  headers: Record<string, string>;
  body: string;
}

describe("units", () => {
  it("a webhook holds by the specification's own library, and by ed25519 as Node.js has it", (t) => {
    const text = readFileSync(new URL("../../webhooks.json", import.meta.url), "utf8");
    const { secrets, public_keys, headers, body } = JSON.parse(text) as Signed;
    const stamp = headers["webhook-timestamp"] ?? "";
    t.mock.method(Date, "now", () => Number(stamp) * 1000);
    for (const secret of secrets) {
      assert.deepEqual(new Webhook(secret).verify(body, headers), JSON.parse(body));
      assert.throws(() => new Webhook(secret).verify(body.replace("7", "8"), headers), /No matching signature/);
    }
    const signed = Buffer.from(`${headers["webhook-id"]}.${stamp}.${body}`);
    const signatures = (headers["webhook-signature"] ?? "").split(" ").filter((each) => each.startsWith("v1a,"));
    assert.equal(signatures.length, public_keys.length);
    for (const [place, key] of public_keys.entries()) {
      const x = Buffer.from(key.replace("whpk_", ""), "base64").toString("base64url");
      const publicKey = createPublicKey({ key: { kty: "OKP", crv: "Ed25519", x }, format: "jwk" });
      const holds = signatures.map((each) => verify(null, signed, publicKey, Buffer.from(each.slice(4), "base64")));
      assert.deepEqual(holds, [place === 0, place === 1]);
    }
  });

  it("settings are read strictly", () => {
    const found = readSettings(
      {},
      { HEADWAY_API: "https://x/", HEADWAY_KEY: "hw_a", HEADWAY_GRACE: "2m", HEADWAY_URL: "x" },
    );
    assert.deepEqual([found.url, found.key, found.grace], ["https://x", "hw_a", 120]);
    assert.equal(readSettings({ url: "http://y", key: "hw_b" }, { HEADWAY_KEY: "hw_a" }).key, "hw_b");
    assert.deepEqual(
      [seconds("250ms"), seconds("1m 30s"), seconds("2d"), seconds(1e-7), seconds("5")],
      [0.25, 90, 172_800, 1e-7, 5],
    );
    // of the engine, and of services in Kubernetes
    const others = "APP METRICS OTEL URL PORT API_PORT API_SERVICE_HOST SERVER_PORT LEASE HEARTBEAT".split(" ");
    const environ = Object.fromEntries(others.map((name) => [`HEADWAY_${name}`, "x"]));
    assert.equal(readSettings({}, { ...environ, HEADWAY_KEY: "hw_a" }).key, "hw_a");
    for (const [url, used] of [
      ["https://host/api/v1", "https://host"],
      ["https://host/below//api/v1/", "https://host/below"],
      ["https://host/below/", "https://host/below"],
      ["http://api/v1", "http://api/v1"],
      ["http://[::1]:8420", "http://[::1]:8420"],
    ] as const)
      assert.equal(readSettings({ url, key: "hw_a" }, {}).url, used);
    const key = { HEADWAY_KEY: "hw_a" };
    const wrong: [NodeJS.ProcessEnv, string][] = [
      [{}, "HEADWAY_KEY"],
      [{ HEADWAY_KEY: "abc" }, "HEADWAY_KEY"],
      [{ ...key, HEADWAY_TIMEOUT: "soon" }, "HEADWAY_TIMEOUT='soon'"],
      [{ ...key, HEADWAY_RETRIES: "-1" }, "HEADWAY_RETRIES"],
      [{ ...key, HEADWAY_API: "localhost" }, "HEADWAY_API"],
      [{ ...key, HEADWAY_LOG_FORMAT: "xml" }, "HEADWAY_LOG_FORMAT"],
      [{ ...key, HEADWAY_LOG_LEVEL: "loud" }, "HEADWAY_LOG_LEVEL"],
      [{ ...key, HEADWAY_TENANT: " " }, "HEADWAY_TENANT"],
      [{ ...key, HEADWAY_TIMEOUTS: "1" }, "HEADWAY_TIMEOUT?"],
      [{ HEADWAY_KEY: "hw_a\n" }, "HEADWAY_KEY"],
      [{ ...key, HEADWAY_TENANT: "\xe4" }, "HEADWAY_TENANT"],
      [{ ...key, HEADWAY_TIMEOUT: "0s" }, "HEADWAY_TIMEOUT"],
      [{ ...key, HEADWAY_API: "http://x:y" }, "HEADWAY_API='http://x:y'"],
      [{ ...key, HEADWAY_API: "http://x:70000" }, "HEADWAY_API"],
      [{ ...key, HEADWAY_API: "http://x:0" }, "HEADWAY_API"],
      [{ ...key, HEADWAY_API: "http://[::1" }, "HEADWAY_API"],
      [{ ...key, HEADWAY_API: "http://x/?y=1" }, "HEADWAY_API"],
      [{ ...key, HEADWAY_API: "https://user:abc@host" }, "set HEADWAY_KEY"],
      [{ ...key, HEADWAY_API: "ftp://user:abc@host" }, "HEADWAY_API=…"],
      [{ ...key, HEADWAY_KYE: "x" }, "HEADWAY_KYE is not a setting: do you mean HEADWAY_KEY?"],
      [{ ...key, HEADWAY_API_KEY: "x" }, "do you mean HEADWAY_KEY?"],
      [{ ...key, HEADWAY_API_URL: "x" }, "do you mean HEADWAY_API?"],
      [{ ...key, HEADWAY_APi: "x" }, "do you mean HEADWAY_API?"],
      [{ ...key, headway_api: "x" }, "do you mean HEADWAY_API?"],
      [{ ...key, HEADWAY_AIP: "x" }, "do you mean HEADWAY_API?"],
      [{ ...key, HEADWAY_RETRYS: "x" }, "do you mean HEADWAY_RETRIES?"],
      [{ ...key, HEADWAY_LOG_FROMAT: "x" }, "do you mean HEADWAY_LOG_FORMAT?"],
    ];
    for (const [environ, named] of wrong) {
      assert.throws(
        () => readSettings({}, environ),
        (error) => {
          assert.ok(
            error instanceof ConfigError && error.message.includes(named) && !error.message.includes("abc"),
            `${error}`,
          );
          return true;
        },
      );
    }
    assert.throws(
      () => readSettings({ timeout: "soon" }, key),
      /timeout: "soon" \(HEADWAY_TIMEOUT\) is not a duration/,
    );
    assert.throws(() => readSettings({ keys: "hw_b" } as object, key), /keys is not an option/);
  });

  it("its types need none of Node.js's own, which a program may not have", () => {
    const dist = new URL("../dist/", import.meta.url);
    const seen = new Set(["index.d.ts"]);
    for (const name of seen) {
      const text = readFileSync(new URL(name, dist), "utf8");
      assert.doesNotMatch(text, /NodeJS\.|"node:/, name);
      for (const [, found] of text.matchAll(/from "\.\/(\w+)\.js"/g)) seen.add(`${found}.d.ts`);
    }
    assert.ok(seen.has("settings.d.ts"));
  });

  it("it refuses to run in a browser, or on an edge runtime", () => {
    const scope = globalThis as { window?: unknown; process?: unknown };
    const node = process;
    scope.window = { document: {} };
    try {
      assert.throws(() => new Client({ key: "hw_a" }), /this is a browser/);
      delete scope.window;
      scope.process = {};
      assert.throws(() => new Client({ key: "hw_a" }), /export const runtime = "nodejs"/);
    } finally {
      delete scope.window;
      scope.process = node;
    }
    // and a bundler for browsers does not find it
    const script = "await import('@headway/client').then(() => process.exit(9), (error) => console.log(error.code))";
    const done = spawnSync(process.execPath, ["--conditions=browser", "--input-type=module", "-e", script], {
      encoding: "utf8",
    });
    assert.equal(done.stdout.trim(), "ERR_PACKAGE_PATH_NOT_EXPORTED", done.stderr);
  });

  it("server-sent events are parsed however they are cut", async () => {
    const text =
      ': hi\r\nevent: job\r\nid: 1-2\r\ndata: {"a":\r\ndata: "ü€😀"}\r\n\r\ndata:plain\n\nid\ndata: x\r\rdata: cut';
    const bytes = new TextEncoder().encode(text);
    for (const size of [1, 2, 3, 7, bytes.length]) {
      const found = [];
      for await (const each of sentEvents(cut(bytes, size))) found.push(each);
      assert.deepEqual(found, [
        { event: "job", data: '{"a":\n"ü€😀"}', id: "1-2" },
        { event: "message", data: "plain", id: "1-2" },
        { event: "message", data: "x", id: "" },
      ]);
    }
  });

  it("what has no JSON is refused, not changed", () => {
    assert.equal(encode({ at: new Date(0), none: undefined }), '{"at":"1970-01-01T00:00:00.000Z"}');
    for (const value of [
      { n: NaN },
      { n: -Infinity },
      { m: new Map() },
      { s: new Set() },
      { b: 1n },
      { f: () => 1 },
      [Symbol("s")],
      undefined,
      () => 1,
    ]) {
      assert.throws(() => encode(value), TypeError);
    }
  });

  it("heartbeats follow the server's clock, not ours", () => {
    const date = new Date("2001-02-03T04:05:06Z").toUTCString(); // a server whose clock is decades behind
    assert.equal(beatAfter("2001-02-03T04:06:07Z", date, 20), 20);
    assert.equal(beatAfter("2001-02-03T04:05:16Z", date, 20), 3);
    assert.equal(beatAfter("2001-02-03T04:05:16Z", date, 1), 1);
    assert.equal(beatAfter("2001-02-03T04:05:01Z", date, 20), 0.1);
    assert.equal(beatAfter(new Date(Date.now() + 3_600_000).toISOString(), null, 20), 20);
  });

  it("a result is unwrapped", () => {
    assert.equal(new JobResult("succeeded", 7, null).unwrap(z.number()), 7);
    assert.throws(() => new JobResult("succeeded", "7", null).unwrap(z.number()), z.ZodError);
    assert.throws(() => new JobResult("running", null, null).unwrap(), NotFinished);
    assert.throws(
      () => new JobResult("dead", null, "boom").unwrap(),
      (error) => error instanceof JobFailed && error.error === "boom" && error.status === "dead",
    );
  });

  it("a server that is away is named", async () => {
    const listener = createServer().listen(0, "127.0.0.1");
    await once(listener, "listening");
    const { port } = listener.address() as AddressInfo;
    await new Promise((resolve) => listener.close(resolve));
    const client = new Client({ url: `http://127.0.0.1:${port}`, key: "hw_x", retries: 1 });
    await assert.rejects(client.get("x"), (error) => {
      assert.ok(error instanceof Unavailable);
      assert.match(error.message, /127\.0\.0\.1:\d+ could not be reached, 2 times: .*ECONNREFUSED/);
      return true;
    });
  });

  it("a stream notices a server that falls silent, before its first word or after, and goes on", async (t) => {
    const asked: (string | undefined)[] = [];
    const said = JSON.stringify({ fence: 1, from: 0, to: 2, text: "hi" });
    const server = createHttpServer((request, answer) => {
      asked.push(request.headers["last-event-id"] as string | undefined);
      if (asked.length === 1) return; // not even a status
      answer.writeHead(200, { "Content-Type": "text/event-stream" });
      if (asked.at(-1) === "7-1") return void answer.end("event: gone\ndata: {}\n\n");
      answer.write(`event: log\nid: 7-1\ndata: ${said}\n\n`); // and says no more
    }).listen(0, "127.0.0.1");
    t.after(() => (server.closeAllConnections(), server.close()));
    await once(server, "listening");
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const transport = (retries: number) => new Transport(readSettings({ url, key: "hw_x", retries }, {}));
    const found = [];
    for await (const each of streamOf(transport(9), "/jobs/x/stream", false, {}, 0.1)) found.push(each.event);
    assert.deepEqual(found, ["log", "gone"]);
    assert.deepEqual([asked[0], asked[1], asked.at(-1)], [undefined, undefined, "7-1"]);
    // and says so, if it stays silent
    asked.length = 0;
    await assert.rejects(
      streamOf(transport(0), "/jobs/x/stream", false, {}, 0.05).next(),
      (error) => error instanceof Unavailable && error.message.endsWith("the server said nothing for 0.05 s"),
    );
  });

  it("whatever a handler throws becomes the error of its job", async () => {
    const thrown = [
      undefined,
      "",
      Object.create(null),
      { toString: () => ({}) },
      Object.assign(new Error("why"), { stack: 7 }),
      Object.defineProperty(new Error("why"), "stack", { get: () => assert.fail() }),
    ];
    for (const each of thrown) {
      const logger = new Logger("error", () => undefined);
      const ctx = new MadeContext({ signals: [], step: null, timeout_ms: null }, logger, new AbortController().signal);
      const end = await new Running(ctx).run(handler(z.unknown(), () => Promise.reject(each)));
      assert.ok(typeof end.error === "string" && end.error !== "");
    }
  });

  it("what cannot be a worker is refused", async () => {
    const client = new Client({ key: "hw_x" });
    const handlers = { welcome: handler(z.unknown(), () => 1) };
    for (const queues of [{}, { mail: 0 }, { mail: 1.5 }])
      assert.throws(() => new Worker(client, { queues, handlers }), /queues: /);
    assert.throws(() => new Worker(client, { queues: { mail: 1 }, handlers: {} }), /no handlers/);
    for (const wrong of [{ grace: "soon" }, { heartbeat: -1 }, { grace: NaN }])
      assert.throws(
        () => new Worker(client, { queues: { mail: 1 }, handlers, ...wrong }),
        (error) => error instanceof ConfigError && /^(grace|heartbeat): .* is not a duration/.test(error.message),
      );
  });

  it("a machine's steps go on with steps that there are", () => {
    const any = z.object({ n: z.number() });
    machine({
      start: step(any, ({ n }) => outcome.next("pay", { n: n + 1 })),
      pay: step(any, async (_, ctx) =>
        ctx.timedOut ? outcome.stop("late") : outcome.await("paid", { then: "ship", timeout: "3d" }),
      ),
      ship: step(any, () => outcome.done()),
    });
    // @ts-expect-error there is no step "shpi"
    machine({ start: step(any, () => outcome.next("shpi")), ship: step(any, () => outcome.done()) });
    // @ts-expect-error nor is it found after an await
    machine({ start: step(any, () => outcome.await("go", { then: "shpi" })), ship: step(any, () => outcome.done()) });
    // @ts-expect-error there is no first step
    machine({ ship: step(any, () => outcome.done()) });
    // @ts-expect-error a step gives an outcome
    step(any, () => 7);
    // @ts-expect-error its schema has no m
    handler(any, ({ m }) => m);
  });
});

async function* cut(bytes: Uint8Array, size: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}
