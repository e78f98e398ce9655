/** A worker in a process of its own, to be stopped and killed: its argument is the queue, then the grace. */

import { handler, Worker } from "@headway/client";
import { z } from "zod";
import { workerClient } from "./served.js";

const [queue = "", grace = "20s"] = process.argv.slice(2);

const play = handler(z.object({ ms: z.number() }), async ({ ms }, ctx) => {
  await new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    ctx.signal.addEventListener("abort", () => (clearTimeout(timer), reject(ctx.signal.reason)));
  });
  return process.pid;
});

const deaf = handler(z.unknown(), () => new Promise((resolve) => setTimeout(resolve, 600_000)));

await new Worker(workerClient(), {
  queues: { [queue]: 2 },
  handlers: { play_killed: play, play_stopped: play, play_deaf: deaf },
  grace,
  heartbeat: 0.3,
}).run();
