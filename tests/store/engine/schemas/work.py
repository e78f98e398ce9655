"""Work of every sort: what the code of a landed schema leaves in a database, and what today's code must make of it.

It runs under code of any release, so it uses only what they all have. `python work.py URL` fills the database.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
from typing import Any

from headway import Await, Done, Headway, Machine, Sleep, Spawn, step

HANGS = "HEADWAY_FIXTURE_HANGS"


def make_app(url: str) -> tuple[Headway, dict[str, Any]]:
    """An app, and its kinds by name."""
    app = Headway(url)

    @app.job(queue="notes")
    def note(text: str) -> str:
        return text

    @app.job(queue="notes", max_attempts=1)
    def fail(text: str) -> None:
        raise ValueError(text)

    @app.job(queue="trains", train="to_{to}", on_dead="hold", max_attempts=1)
    def car(to: int, n: int) -> int:
        if n == 1 and to == 2 and os.environ.get(HANGS):
            raise OSError("no coupling")
        return n

    @app.job(queue="hangs")
    def hang() -> str:
        while os.environ.get(HANGS):
            time.sleep(0.01)
        return "went on"

    @app.machine
    class Order(Machine, queue="orders"):
        @step
        def start(self, ctx: Any) -> Any:
            return Await("paid", then=self.ship, timeout="3000d")

        @step
        def ship(self, ctx: Any) -> Any:
            return Sleep("3000d" if ctx.signals[0].payload.get("slow") else 0, then=self.split)

        @step
        def split(self, ctx: Any) -> Any:
            return Spawn([note.build(text="a"), note.build(text="b")], then=self.close)

        @step
        def close(self, ctx: Any) -> Any:
            return Done("closed")

    return app, {"note": note, "fail": fail, "car": car, "hang": hang, "order": Order}


def fill(url: str) -> None:
    """Leave jobs in every status, and all that can wait for something."""
    os.environ[HANGS] = "1"
    app, kinds = make_app(url)
    note, car, order = kinds["note"], kinds["car"], kinds["order"]
    app.migrate()
    note.enqueue(text="finished")
    kinds["fail"].enqueue(text="dead")
    for n in range(1, 4):
        car.enqueue(to=2, n=n)  # the first one dies: on hold
    done = order.enqueue()
    slow = order.enqueue()
    run(app)
    app.signal(done.id, "paid", {"by": "card"})
    app.signal(slow.id, "paid", {"slow": True})
    run(app)
    order.using(unique_key="unpaid").enqueue()  # it will wait
    run(app)
    kinds["hang"].enqueue()
    _run_killed(url, app)
    # queued and held, by what today's claims find again
    for n in range(1, 4):
        car.enqueue(to=3, n=n)
    unread = order.enqueue()
    app.signal(unread.id, "paid", {"early": True})
    first = note.using(priority=5, unique_key="u", tags=["t"]).enqueue(text="first")
    note.using(after=[first.id]).enqueue(text="after")
    note.using(delay="3000d").enqueue(text="later")
    note.using(partition="p", concurrency=1, concurrency_key="k").enqueue(text="limited")
    app.group([note.build(text="g1"), note.build(text="g2")], callback=note.build(text="callback"))
    app.tenant("acme").enqueue("note", {"text": "acme's"})
    app.create_schedule("nightly", "0 3 * * *", kind="note", payload={"text": "scheduled"})
    app.emit("order.placed", {"order": 7})
    canceled = note.using(delay="3000d").enqueue(text="canceled")
    app.cancel(canceled.id)
    app.limit(kind="note", max_running=50)
    counts = {str(status): count for status, count in app.counts().items()}
    print(counts)
    missing = {"queued", "held", "scheduled", "waiting", "running", "succeeded", "dead", "canceled"} - set(counts)
    assert not missing, missing
    app.close()


def run(app: Headway) -> None:
    from headway.testing import drain

    drain(app)


def _run_killed(url: str, app: Headway) -> None:
    """Let a worker start `hang`, and kill it: a job that runs, of a worker that is gone."""
    child = multiprocessing.get_context("spawn").Process(target=_work, args=(url,))
    child.start()
    end = time.monotonic() + 60
    while not app.counts().get("running"):  # type: ignore[call-overload]
        assert time.monotonic() < end, app.counts()
        time.sleep(0.05)
    os.kill(child.pid or 0, signal.SIGKILL)
    child.join()


def _work(url: str) -> None:
    make_app(url)[0].run(queues="hangs")


if __name__ == "__main__":
    fill(sys.argv[1])
