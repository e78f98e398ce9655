"""Delivers webhooks: retries a 5xx, gives up at once on a 4xx, and waits when the receiver answers 429.

The receiver is a small HTTP server in this program that misbehaves on purpose.
Run it with: python examples/webhooks.py [database URL]
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import threading
from collections import Counter
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

from headway import Context, Headway, Retry

app = Headway(sys.argv[1] if len(sys.argv) > 1 else None)


class Refused(Exception):
    """The receiver will never accept this request: a 4xx."""


class Failing(Exception):
    """The receiver failed: a 5xx. Another try may help."""


@app.job(
    queue="webhooks",
    max_attempts=4,
    timeout="5s",
    backoff=("50ms", "1s"),  # 50 ms, 100 ms, 200 ms, …; use minutes for real receivers
    retry_on=(Failing, OSError),
    discard_on=Refused,
)
def deliver(ctx: Context, port: int, path: str, event: dict[str, str]) -> int:
    """Post the event; a plain function runs in a thread, so it may block on the network."""
    connection = HTTPConnection("127.0.0.1", port, timeout=3)
    try:
        # the job id is the same in every execution, so the receiver can drop a repeat
        headers = {"Content-Type": "application/json", "Webhook-Id": ctx.job_id}
        connection.request("POST", path, json.dumps(event), headers)
        status = connection.getresponse().status
    finally:
        connection.close()
    if status == 429:
        raise Retry("100ms", "the receiver asked us to slow down")
    if 400 <= status < 500:
        raise Refused(f"{path} answered {status}")
    if status >= 500:
        raise Failing(f"{path} answered {status}")
    return status


class Receiver(BaseHTTPRequestHandler):
    """Answers /good with 204, /flaky with 503 twice, /busy with 429 once, and everything else with 410."""

    seen: ClassVar[Counter[str]] = Counter()

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.seen[self.path] += 1
        match self.path, self.seen[self.path]:
            case ("/good", _):
                self.send_response(204)
            case ("/flaky", times) if times <= 2:
                self.send_response(503)
            case ("/busy", 1):
                self.send_response(429)
            case ("/flaky" | "/busy", _):
                self.send_response(204)
            case _:
                self.send_response(410)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


async def main() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    logging.getLogger("headway").setLevel(logging.ERROR)  # otherwise every failed attempt logs a warning

    paths = ("/good", "/flaky", "/busy", "/gone")
    jobs = {path: await deliver.aenqueue(server.server_port, path, {"type": "order.paid"}) for path in paths}
    worker = asyncio.create_task(app.arun("webhooks"))
    for path, job in jobs.items():
        outcome = await app.aresult(job.id, timeout="30s")
        executions = len(await app.aattempts(job.id))
        reason = f" ({outcome.error.splitlines()[0]})" if outcome.error else ""
        print(f"{path}: {outcome.status}, executions: {executions}{reason}")
    worker.cancel()
    await asyncio.gather(worker, return_exceptions=True)
    await app.aclose()
    server.shutdown()


if __name__ == "__main__":
    asyncio.run(main())
