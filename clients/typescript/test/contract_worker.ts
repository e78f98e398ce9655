/** A worker as a program; tests/clients/contract_worker.py is its twin in Python. */

import { appendFileSync } from "node:fs";
import { type Context, handler, machine, outcome, step, Worker } from "@headway/client";
import { z } from "zod";
import { workerClient } from "./served.js";

const [queue = "", slots = "1"] = process.argv.slice(2);

function append(what: string, ctx: Context): void {
  appendFileSync(process.env["LEDGER"] ?? "", `${JSON.stringify([what, ctx.jobId, ctx.fence])}\n`);
}

const perform = handler(z.object({ ms: z.number(), fail: z.number().default(0) }), async ({ ms, fail }, ctx) => {
  append("begin", ctx);
  try {
    ctx.log("begun");
    await new Promise((resolve, reject) => {
      const timer = setTimeout(resolve, ms);
      ctx.signal.addEventListener("abort", () => (clearTimeout(timer), reject(ctx.signal.reason)));
    });
    if (ctx.fence <= fail) throw new Error("as asked");
    return ctx.fence;
  } finally {
    append("end", ctx);
  }
});

const Asked = z.object({ asked: z.number() });

const steps = machine({
  start: step(z.unknown(), (_, ctx) => {
    append("begin", ctx);
    return outcome.next("ask", { asked: 1 });
  }),
  ask: step(Asked, ({ asked }, ctx) => {
    append("begin", ctx);
    return outcome.await("go", { then: "last", state: { asked: asked + 1 } });
  }),
  last: step(Asked, ({ asked }, ctx) => {
    append("begin", ctx);
    return outcome.done([asked, ...ctx.signals.map((each) => each.payload)]);
  }),
});

const waits = machine({
  start: step(z.object({ wait: z.string(), go: z.string() }), ({ wait, go }, ctx) => {
    append("begin", ctx);
    if (wait === "signal") return outcome.await("go", { then: "last", timeout: "1h" });
    if (wait === "sleep") return outcome.sleep("1h", { then: "last" });
    return outcome.spawn([{ kind: "perform_kid", payload: { go } }], { then: "last" });
  }),
  last: step(z.unknown(), (_, ctx) => {
    append("begin", ctx);
    return outcome.done([ctx.signals[0]?.payload ?? null, ctx.children.length]);
  }),
});

await new Worker(workerClient(), {
  queues: { [queue]: Number(slots) },
  handlers: new Map([
    ["perform", perform],
    ["perform_steps", steps],
    ["perform_waits", waits],
  ]),
  heartbeat: Number(process.env["HEARTBEAT"]),
}).run();
