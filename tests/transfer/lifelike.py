"""A database with something of everything, half of it done, and what has to happen to the rest."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from headway import Await, Context, Done, Headway, Machine, Registry, Spawn, step
from headway.model.ids import new_id
from headway.model.job import Enqueued, NewJob
from headway.model.journal import FLOW, Entry
from headway.model.machine import Checkpoint, Turn, turned
from headway.testing import drain
from tests.store.db import new_worker

kinds = Registry()
_ledger = "LEDGER"


def _did(what: str) -> None:
    with Path(os.environ[_ledger]).open("a") as file:
        file.write(f"{what}\n")


@kinds.job(max_attempts=1)
def work(what: str) -> str:
    """Writes down what it did; a `bad…` fails."""
    _did(what)
    if what.startswith("bad"):
        raise ValueError(what)
    return what


@kinds.job
def stores(ctx: Context) -> None:
    ctx.artifact("report.csv", "a;b")


@kinds.job(spill=True)
def spills(what: str) -> str:
    """Its payload and its result are too large for a row."""
    _did(f"spilled {len(what)}")
    return what


@kinds.job(queue="limited", concurrency=1, concurrency_key="{what}", partition="{what}", rate="2/h", rate_key="{what}")
def limited(what: str) -> None:
    _did(what)


@kinds.machine
class Order(Machine):
    class State(msgspec.Struct):
        order: int
        paid: int = 0

    @step
    def start(self, ctx: Context) -> Await:
        if ctx.inbox:
            _did(f"inbox {ctx.inbox[0].payload}")
        return Await("payment", then=self.ship, state=self.State(order=ctx.state.order, paid=1))

    @step
    def ship(self, ctx: Context) -> Done:
        _did(f"shipped {ctx.state.order} {ctx.state.paid} {ctx.signals[0].payload}")
        return Done()


@kinds.machine
class Album(Machine):
    @step
    def start(self, ctx: Context) -> Spawn:
        return Spawn([work.build(what="child 0"), work.using(train="slow").build(what="child 1")], then=self.show)

    @step
    def show(self, ctx: Context) -> Done:
        _did("album " + ", ".join(str(child.result) for child in ctx.children))
        return Done()


def app_at(url: str, ledger: Path) -> Headway:
    os.environ[_ledger] = str(ledger)
    app = Headway(
        url, hints=False, artifacts=str(ledger.with_name("artifacts")), payload_limit=1_000, result_limit=1_000
    )
    app.include(kinds)
    return app


def fill(app: Headway) -> None:
    """Half of it runs here."""

    def put(job: NewJob) -> Enqueued:
        return app.enqueue_many([job])[0]

    app.create_tenant("acme")
    app.create_tenant("old-name")
    app.rename_tenant("old-name", "new-name")
    app.limit(queue="default", max_running=7)
    app.limit(tenant="acme", max_pending=900)
    app.limit(kind="limited", max_running=2)
    app.fair("shared", False)
    app.reserve_queue("reserved", holder="somebody")
    app.create_api_key("ci", "operator", tenant="acme", queues=["default"])
    app.create_template("nightly", "work", {"what": "from template"}, description="ünïcode ✓")
    app.create_connector("shop", "https://shop.example", headers={"x-key": {"$secret": "SHOP_KEY"}})
    app.create_schedule("daily", "0 2 * * *", template="nightly", tz="Europe/Berlin")
    app.create_schedule("later", every="6h", kind="work", payload={"what": "scheduled"})
    app.create_trigger("on-upload", "uploaded", kind="work", payload={"what": "{{event.file}}"})

    # runs before the transfer
    app.emit("uploaded", {"file": "early.txt"})
    order = put(Order.using(unique_key="order:7").build(order=7))
    put(Order.build(order=8))
    put(stores.build())
    put(spills.using(idempotency_key="spilled").build(what="x" * 1_500))
    album = put(Album.build())
    app.hold_train("slow", reason="not yet")
    put(work.using(idempotency_key="once").build(what="early once"))
    put(work.using(unique_key="u", unique_scope={"queued", "running", "succeeded"}).build(what="early unique"))
    put(work.using(unique_key="w", unique_for="1d").build(what="early window"))
    put(work.build(what="bad early"))
    put(work.build(what="early plain"))
    for n in range(3):
        put(limited.build(what="rated" if n else "other"))
    drain(app)
    _park_flow(app)
    assert app.get(album.id).status == "waiting", app.get(album.id)
    app.signal(order.id, "note", {"read": "later"})
    app.emit("uploaded", {"file": "uploaded.txt"})

    # has to run after it
    for n in range(5):
        put(work.using(train="express").build(what=f"car {n}"))
    first = put(work.using(tags=["a", "b"], meta={"m": [1, None, "ü"]}).build(what="first"))
    put(work.using(after=[first]).build(what="second"))
    put(work.using(delay="1h", priority=3).build(what="in an hour"))
    app.group([work.build(what="member 0"), work.build(what="member 1")], callback=work.build(what="callback"))
    put(work.using(tenant="acme", queue="shared").build(what="acme"))
    put(spills.using(train="slow").build(what="y" * 1_600))
    put(limited.build(what="rated"))
    app.pause("paused")
    app.set_retention("paused", {"succeeded": "3d", "dead": "30d"})
    put(work.using(queue="paused").build(what="in a paused queue"))


def _park_flow(app: Headway) -> None:
    """A flow that has done two things and waits for a third, which does not come."""
    store = app._store
    worker = new_worker()
    store.run(store.ops.register(worker))
    flow = NewJob(id=new_id(), kind="flow", queue="flows", checkpoint=Checkpoint(version=1, step=FLOW))
    store.run(store.ops.enqueue([flow]))
    (claim,) = store.run(store.ops.claim(worker.id, "flows", 1))
    base = {"job_id": claim.id, "fence": claim.fence}
    rows = [
        Entry(**base, seq=1, kind="done", place="reserve", value='{"ünïcode": "✓", "n":  1.0}', print=2**62, took_ms=7),
        Entry(**base, seq=2, kind="signal", place="paid", signal=new_id(), error="none"),
    ]
    store.run(store.ops.record(worker.id, rows))
    store.run(store.ops.settle_step(Entry(**base, seq=0, kind="settled", place="charge", value="null")))
    turn = Turn(outcome="park", ran=FLOW, step=FLOW, version=1, awaiting=("never",), state='{"shown": 1}')
    store.run(store.ops.settle(worker.id, [turned(claim, turn, "waiting")]))
    store.run(store.ops.unregister(worker.id))


AFTER = {
    "acme", "album child 0, child 1", "callback", "car 0", "car 1", "car 2", "car 3", "car 4", "child 1", "first",
    "member 0", "member 1", "second", "spilled 1600", "shipped 7 1 {'paid': True}", "uploaded.txt",
}  # fmt: skip


def finish(app: Headway) -> None:
    """Run on the target whatever can run there, with what the rest waits for."""
    app.resume_train("slow")
    (order,) = (job for job in app.jobs(kind="order") if job.unique_key == "order:7")
    app.signal(order.id, "payment", {"paid": True})
    drain(app)
