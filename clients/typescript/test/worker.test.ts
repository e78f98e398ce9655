/** The worker in bad weather: killed, stopped, with a server that dies, loses answers or refuses. */

import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { after, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import {
  type Context,
  handler,
  type LogLine,
  outcome,
  Unauthorized,
  Worker,
  type WorkerOptions,
} from "@headway/client";
import { z } from "zod";
import { Proxy } from "./proxy.js";
import { killServer, newClient, until, workerClient } from "./served.js";

const PROGRAM = fileURLToPath(new URL("worker_program.js", import.meta.url));
const client = newClient();

interface Held {
  ctx: Context;
  finish: (value: unknown) => void;
}

describe("worker", { concurrency: true }, () => {
  const children: ChildProcess[] = [];
  after(() => children.forEach((each) => each.kill("SIGKILL")));

  function program(...args: string[]): ChildProcess & { log: () => LogLine[] } {
    const child = spawn(process.execPath, [PROGRAM, ...args], { stdio: ["ignore", "inherit", "pipe"] });
    children.push(child);
    let text = "";
    child.stderr.on("data", (part) => (text += part));
    const log = () =>
      text
        .split("\n")
        .filter(Boolean)
        .map((line) => JSON.parse(line) as LogLine);
    return Object.assign(child, { log });
  }

  it("the job of a killed worker goes to another", async () => {
    const first = program("killed");
    const { id } = await client.enqueue("play_killed", { ms: 120_000 });
    await until(
      () => client.get(id),
      (job) => job.status === "running",
      "running",
    );
    first.kill("SIGKILL");
    const lines: LogLine[] = [];
    const second = working({
      queues: { killed: 1 },
      handlers: { play_killed: handler(z.unknown(), () => "again") },
      log: (line) => lines.push(line),
    });
    assert.equal((await client.result(id, { wait: 60 })).unwrap(), "again");
    assert.deepEqual(
      (await client.attempts(id)).map((each) => each.status),
      ["lost", "succeeded"],
    );
    await second.end();
    // its log has the fields that operators filter by
    const job = await client.get(id);
    const line = lines.find((each) => each.message === "job succeeded");
    assert.ok(line !== undefined);
    const { timestamp, duration_ms, ...rest } = line;
    assert.deepEqual(rest, {
      level: "info",
      worker_id: second.worker.workerId,
      trace_id: job.trace,
      job_id: id,
      job_type: "play_killed",
      tenant_id: job.tenant_id,
      attempt_no: 2,
      message: "job succeeded",
      status: "succeeded",
    });
    assert.ok(Number.isInteger(duration_ms) && !Number.isNaN(Date.parse(timestamp)));
  });

  it("a worker that is told to stop finishes its jobs, or gives them back uncharged", async () => {
    const [ends, left] = await client.enqueueMany([
      { kind: "play_stopped", payload: { ms: 700 } },
      { kind: "play_stopped", payload: { ms: 120_000 } },
    ]);
    assert.ok(ends !== undefined && left !== undefined);
    const child = program("stopped", "2s");
    await until(
      async () => [await client.get(ends.id), await client.get(left.id)],
      (jobs) => jobs.every((job) => job.status === "running"),
      "running",
    );
    child.kill("SIGTERM");
    const [code] = (await once(child, "exit")) as [number | null];
    assert.equal(code, 0, JSON.stringify(child.log()));
    assert.equal((await client.result(ends.id)).unwrap(), child.pid);
    const job = await client.get(left.id);
    assert.deepEqual([job.status, job.tries, job.losses], ["queued", 0, 0]);
    assert.equal(child.log().at(-1)?.message, "worker stopped");
    await client.cancel(left.id);
  });

  it("a handler that does not listen does not keep the worker, nor does it after a second signal", async () => {
    for (const [grace, signals] of [
      ["100ms", 1],
      ["10m", 2],
    ] as const) {
      const { id } = await client.enqueue("play_deaf");
      const child = program("deaf", grace);
      await until(
        () => client.get(id),
        (job) => job.status === "running",
        "running",
      );
      child.kill("SIGTERM");
      if (signals === 2) {
        const second = () => child.log().some((line) => /a second signal/.test(line.message));
        await until(second, Boolean, "it stops");
        child.kill("SIGTERM");
      }
      const [code] = (await once(child, "exit", { signal: AbortSignal.timeout(30_000) })) as [number | null];
      assert.equal(code, 0, JSON.stringify(child.log()));
      const job = await client.get(id);
      assert.deepEqual([job.status, job.tries, job.losses], ["queued", 0, 0]);
      const left = child.log().filter((line) => /runs on/.test(line.message));
      assert.deepEqual(
        left.map((line) => line["job_id"]),
        [id],
      );
      await client.cancel(id);
    }
  });

  it("a handler that gives way to a stopping worker runs again", async () => {
    const stopped = (ctx: Context) =>
      new Promise<void>((resolve) => ctx.stopping.addEventListener("abort", () => resolve(), { once: true }));
    const run = handler(z.object({ how: z.string() }), async ({ how }, ctx) => {
      if (how === "deaf") await new Promise((resolve) => setTimeout(resolve, 1_500));
      else await stopped(ctx);
      assert.ok(!ctx.signal.aborted); // the grace period is not over
      if (how === "throw") ctx.stopping.throwIfAborted();
      return how === "done" ? outcome.done("all of it") : "half of it";
    });
    const { end } = working({
      queues: { giving: 4 },
      handlers: { play_giving: run },
      log: () => undefined,
    });
    const ways = ["return", "throw", "done", "deaf"];
    const jobs = await client.enqueueMany(ways.map((how) => ({ kind: "play_giving", payload: { how } })));
    await until(
      () => Promise.all(jobs.map(({ id }) => client.get(id))),
      (found) => found.every((job) => job.status === "running"),
      "running",
    );
    await end();
    const found = await Promise.all(jobs.map(({ id }) => client.get(id)));
    assert.deepEqual(
      found.map((job) => [job.status, job.tries, job.result]),
      [
        ["queued", 0, null],
        ["queued", 0, null],
        ["succeeded", 0, "all of it"],
        ["succeeded", 0, "half of it"], // it never looked
      ],
    );
    await Promise.all(jobs.slice(0, 2).map(({ id }) => client.cancel(id)));
  });

  it("a claim whose answer got lost is made again under its own name", async (t) => {
    const proxy = await new Proxy().start();
    t.after(() => proxy.close());
    proxy.fate = ({ path }, turn) => (path.endsWith("/claim") && turn <= 2 ? "lose" : "forward");
    const { id } = await client.enqueue("play_again");
    const holding = held({ queues: { again: 1 }, kind: "play_again", url: proxy.address });
    try {
      const enough = (count: number) => count >= 3;
      await until(() => proxy.of("/claim").length, enough, "repeated claims");
      const names = proxy.of("/claim").map(({ body }) => (JSON.parse(body) as { claim_id: string }).claim_id);
      assert.equal(new Set(names.slice(0, 3)).size, 1);
      const job = await holding.next();
      assert.deepEqual([job.ctx.jobId, job.ctx.fence], [id, 1]);
      job.finish("done");
      assert.equal((await client.result(id, { wait: 30 })).unwrap(), "done");
    } finally {
      await holding.end();
    }
  });

  it("a worker outlasts answers of another program", async (t) => {
    const proxy = await new Proxy().start();
    t.after(() => proxy.close());
    const page = { headers: { "Content-Type": "text/html" }, body: "<html>" };
    const strange = { status: 200, body: '{"status": "maintenance"}' };
    proxy.fate = ({ path, body }, turn) => {
      if (body.length > 20_000) return { status: 413, ...page };
      if (!/claim|settle|heartbeat/.test(path)) return "forward";
      return turn === 1 ? strange : turn === 2 ? { status: 404, ...page } : "forward";
    };
    const holding = held({ queues: { strange: 2 }, kind: "play_strange", url: proxy.address });
    const [small, large] = await client.enqueueMany([{ kind: "play_strange" }, { kind: "play_strange" }]);
    assert.ok(small !== undefined && large !== undefined);
    const [first, second] = [await holding.next(), await holding.next()];
    second.ctx.log("y".repeat(30_000));
    await until(
      () => proxy.of("/worker/heartbeat").length,
      (count) => count > 5,
      "heartbeats",
    );
    first.finish("small");
    assert.equal((await client.result(small.id, { wait: 30 })).unwrap(), "small");
    second.finish("x".repeat(30_000));
    const ended = await client.result(large.id, { wait: 30 });
    assert.deepEqual([ended.status, /its outcome was refused/.test(ended.error ?? "")], ["dead", true]);
    assert.equal((await client.attempts(small.id)).length, 1);
    await holding.end();
  });

  it("a worker whose key is refused ends if it is from the start, and else asks again", async (t) => {
    const lines: LogLine[] = [];
    const log = (line: LogLine) => void lines.push(line);
    const options = { handlers: { play: handler(z.unknown(), () => 1) }, log };
    const refused = new Worker(newClient({ key: "hw_live_wrong" }), { queues: { a: 1, b: 1 }, ...options });
    await assert.rejects(refused.run({ handleSignals: false }), Unauthorized);
    assert.match(lines.find((line) => line.level === "error")?.message ?? "", /it ends: .*headway keys create/);
    lines.length = 0;
    const proxy = await new Proxy().start();
    t.after(() => proxy.close());
    const away = { status: 401, body: '{"code": "Unauthorized", "detail": "no such key"}' };
    const none = { status: 200, body: '{"jobs": [], "lease_expires_at": "2099-01-02T03:04:05Z"}' };
    proxy.fate = ({ path }, turn) => (path.endsWith("/claim") && turn === 1 ? none : away);
    const { end } = working({ queues: { a: 1 }, url: proxy.address, ...options });
    await until(
      () => proxy.of("/claim").length,
      (count) => count >= 4,
      "more claims",
    );
    await end();
    assert.equal(lines.filter((line) => line.level === "error").length, 1);
  });

  it("a handler stores files with its attempt", async () => {
    async function* parts() {
      yield "a,b\n";
      yield new TextEncoder().encode("1,2\n");
    }
    const filed = handler(z.unknown(), async (_, ctx) => [
      await ctx.artifact("note.txt", "grüße", { contentType: "text/plain" }),
      await ctx.artifact("report.csv", parts(), { contentType: "text/csv" }),
      { job_id: ctx.jobId, name: "x".repeat(1_100_000), size: 0, content_type: "too large for a row" },
    ]);
    const { end } = working({ queues: { filed: 1 }, handlers: { play_filed: filed }, log: () => undefined });
    const { id } = await client.enqueue("play_filed");
    const Kept = z.array(
      z.object({ job_id: z.string(), name: z.string(), size: z.number(), content_type: z.string() }),
    );
    assert.deepEqual((await client.result(id, { wait: 60 })).unwrap(Kept), [
      { job_id: id, name: "note.txt", size: 7, content_type: "text/plain" },
      { job_id: id, name: "report.csv", size: 8, content_type: "text/csv" },
      { job_id: id, name: "x".repeat(1_100_000), size: 0, content_type: "too large for a row" },
    ]);
    const [attempt] = await client.attempts(id);
    assert.deepEqual(
      attempt?.artifacts.map((each) => each.name),
      ["note.txt", "report.csv", ".result.json"],
    );
    await end();
  });

  it("what a handler creates belongs to the trace of its job, or of OpenTelemetry's current span", async () => {
    const registry = globalThis as { [name: symbol]: unknown };
    const OPEN_TELEMETRY = Symbol.for("opentelemetry.js.api.1");
    const later = async () => (await client.get((await client.enqueue("play_apart", {}, { delay: "1d" })).id)).trace;
    const traced = handler(z.unknown(), async (_, ctx) => {
      const own = [ctx.traceId, ctx.traceparent.split("-")[1], await later()];
      const inject = (span: string, carrier: object, setter: { set: (...args: unknown[]) => void }) =>
        setter.set(carrier, "traceparent", `00-${span}-b7ad6b7169203331-01`);
      const context = { active: () => "0af7651916cd43dd8448eb211c80319c" };
      registry[OPEN_TELEMETRY] = { context, propagation: { inject } };
      try {
        return [...own, await later()];
      } finally {
        delete registry[OPEN_TELEMETRY];
      }
    });
    const { end } = working({ queues: { traced: 1 }, handlers: { play_traced: traced }, log: () => undefined });
    const { id } = await client.enqueue("play_traced");
    const trace = id.replaceAll("-", "");
    const found = (await client.result(id, { wait: 60 })).unwrap(z.array(z.string()));
    assert.deepEqual(found, [trace, trace, trace, "0af7651916cd43dd8448eb211c80319c"]);
    await end();
  });

  it("an answer that got lost does not run a job twice, and a refused report does not cost the lease", async (t) => {
    const proxy = await new Proxy().start();
    t.after(() => proxy.close());
    let [settles, refused] = [0, 0];
    proxy.fate = ({ path, body }) => {
      if (path === "/worker/settle" && body.includes('"written"')) return ++settles === 1 ? "lose" : "forward";
      if (path === "/worker/jobs/claim") return proxy.of(path).length === 1 ? "lose" : "forward";
      if (path !== "/worker/heartbeat" || !body.includes("too much")) return "forward";
      refused += 1;
      return { status: 413, body: '{"code": "PayloadTooLarge", "detail": "too much"}' };
    };
    const kind = "play_apart";
    const { id } = await client.enqueue(kind, {});
    const holding = held({ queues: { apart: 1 }, kind, url: proxy.address });
    t.after(() => holding.end()); // also where it fails
    const { ctx, finish } = await holding.next();
    assert.deepEqual([ctx.jobId, ctx.fence], [id, 1]); // the claim whose answer got lost was repeated
    ctx.log("too much");
    await until(
      () => refused,
      (count) => count > 0,
      "refused",
    );
    const before = proxy.of("/worker/heartbeat").length;
    await until(
      () => proxy.of("/worker/heartbeat").length,
      (count) => count > before + 2,
      "more heartbeats",
    );
    assert.equal(refused, 1);
    assert.ok(!ctx.signal.aborted);
    finish("written");
    assert.equal((await client.result(id, { wait: 60 })).unwrap(), "written");
    await until(() => holding.lines.some((line) => line.message === "job succeeded"), Boolean, "the second answer");
    assert.equal(settles, 2);
    assert.deepEqual(
      (await client.attempts(id)).map((each) => each.status),
      ["succeeded"],
    );
    await holding.end();
  });
});

describe("worker, whose server is killed", () => {
  it("loses nothing", async () => {
    const holding = held({ queues: { apart: 2 }, kind: "play_apart" });
    const [first, second] = await client.enqueueMany([{ kind: "play_apart" }, { kind: "play_apart" }]);
    const jobs = [await holding.next(), await holding.next()];
    killServer();
    jobs.forEach(({ finish }, place) => finish(place)); // the first request that fails is the one that writes this
    const patient = newClient({ retries: 20 });
    for (const made of [first, second]) {
      assert.ok(made !== undefined);
      const { status } = await patient.result(made.id, { wait: 60 });
      assert.equal(status, "succeeded");
      assert.equal((await patient.attempts(made.id)).length, 1);
    }
    assert.ok(jobs.every(({ ctx }) => !ctx.signal.aborted));
    await holding.end();
  });
});

function working({ url, ...options }: WorkerOptions & { url?: string }) {
  const worker = new Worker(workerClient({ url, retries: 1 }), { heartbeat: 0.3, grace: 20, ...options });
  const running = worker.run({ handleSignals: false });
  return {
    worker,
    end: async () => {
      worker.stop();
      await running;
    },
  };
}

/** A worker whose jobs wait until the test says how they end. */
function held({ queues, kind, url }: { queues: Record<string, number>; kind: string; url?: string }) {
  const waiting: Held[] = [];
  const lines: LogLine[] = [];
  const run = handler(z.unknown(), (_, ctx) => new Promise((finish) => void waiting.push({ ctx, finish })));
  const { worker, end } = working({
    queues,
    handlers: new Map([[kind, run]]),
    log: (line) => lines.push(line),
    ...(url && { url }),
  });
  const next = async () => {
    await until(
      () => waiting.length,
      (count) => count > 0,
      "a job",
    );
    return waiting.shift() as Held;
  };
  return { worker, lines, next, end };
}
