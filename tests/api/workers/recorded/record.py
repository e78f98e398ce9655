"""Records what a client says and is answered: `python record.py python FILE`, or `typescript FILE PACKAGE`.

Run it with the PYTHONPATH of a release (its src and clients/python/src): its client and its server are recorded.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import uvicorn

from headway import Headway
from headway.api import Api

KEPT_HEADERS = ("content-type", "accept", "idempotency-key")
TYPESCRIPT = """
import { Client, Worker, handler } from "PACKAGE/dist/index.js";
import { z } from "PACKAGE/node_modules/zod/index.js";
const [url, producer, worker] = process.argv.slice(2);
const client = new Client({ url, key: producer });
const play = handler(z.object({ text: z.string() }), async ({ text }, ctx) => {
  ctx.log(`says ${text}`);
  ctx.progress(0.5, "half");
  if (text === "bad") throw new Error("no");
  await new Promise((done) => setTimeout(done, 1500));
  return text;
});
const job = await client.enqueue("play", { text: "good" }, { priority: 5, tags: ["t"] });
const bad = { kind: "play", payload: { text: "bad" }, max_attempts: 1 };
await client.enqueueMany([bad, { kind: "play", payload: { text: "later" }, delay: "1h" }]);
const handlers = new Map([["play", play]]);
const runner = new Worker(new Client({ url, key: worker }), { queues: { plays: 2 }, heartbeat: 1, handlers });
const running = runner.run();
await client.result(job.id, { wait: 20 });
const jobs = [];
for await (const each of client.list({})) jobs.push(each);
await client.get(job.id);
await client.attempts(job.id);
await client.cancel(jobs[0].id, { reason: "enough" });
runner.stop();
await running;
"""


def converse_in_python(url: str, producer: str, worker: str) -> None:
    from headway_client import Client, Worker

    runner = Worker(Client(url, key=worker), queues={"plays": 2}, heartbeat=1.0)

    @runner.handler("play")
    def play(text: str) -> str:
        if text == "bad":
            raise ValueError("no")
        time.sleep(1.5)
        return text

    with Client(url, key=producer) as client:
        job = client.enqueue("play", {"text": "good"}, priority=5, tags=["t"])
        later = {"kind": "play", "payload": {"text": "later"}, "delay": "1h"}
        client.enqueue_many([{"kind": "play", "payload": {"text": "bad"}, "max_attempts": 1}, later])
        thread = threading.Thread(target=runner.run, daemon=True)
        thread.start()
        client.result(job.id, wait=20)
        jobs = list(client.jobs())
        client.get(job.id)
        client.attempts(job.id)
        client.cancel(jobs[0].id, reason="enough")
        runner.stop()
        thread.join()


class Recorded:
    """An ASGI application that writes down what it is asked and what it answers."""

    def __init__(self, api: Any) -> None:
        self._api = api
        self.said: list[dict[str, Any]] = []  # in the order of the answers

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._api(scope, receive, send)
            return
        asked, answered, status = bytearray(), bytearray(), [0]

        async def read() -> Any:
            event = await receive()
            asked.extend(event.get("body", b""))
            return event

        async def write(event: Any) -> None:
            status[0] = event.get("status", status[0])
            answered.extend(event.get("body", b""))
            await send(event)

        await self._api(scope, read, write)
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        query = scope["query_string"].decode()
        if not status[0] or (scope["path"].endswith("/claim") and not json.loads(answered).get("jobs")):
            return  # an empty claim only waits
        said = {
            "method": scope["method"],
            "path": scope["path"] + ("?" + query if query else ""),
            "key": "worker" if "/worker/" in scope["path"] else "producer",
            "headers": {name: headers[name] for name in KEPT_HEADERS if name in headers},
            "body": json.loads(asked) if asked else None,
            "status": status[0],
            "answer": json.loads(answered) if answered[:1] in (b"{", b"[") else None,
        }
        self.said.append(said)


def main(client: str, file: str, package: str = "") -> None:
    folder = Path(tempfile.mkdtemp())
    app = Headway(f"sqlite:///{folder}/jobs.db")
    app.job(name="play", queue="plays")(lambda text: text)
    app.run(until_idle=True)
    keys = [app.create_api_key(role, role).text for role in ("operator", "worker")]
    recorded = Recorded(Api(app))
    server = uvicorn.Server(uvicorn.Config(recorded, port=0, log_config=None))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    if client == "python":
        converse_in_python(url, *keys)
    else:
        program = folder / "converse.mjs"
        program.write_text(TYPESCRIPT.replace("PACKAGE", package))
        subprocess.run(["node", program, url, *keys], check=True)
    server.should_exit = True
    thread.join()
    Path(file).write_text(json.dumps(recorded.said, indent=1) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
