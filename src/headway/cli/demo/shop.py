"""The app of `headway demo --web`: a shop with three tenants, whose days so far `fill` makes up."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from headway import Await, Context, Done, Headway, Machine, Registry, step
from headway.clock import to_micros
from headway.model.fleet import NewWorker
from headway.model.ids import new_id
from headway.model.stats import Key, Numbers, Span, bucket, with_sums
from headway.store.ops import Batch, Op, Statement, Steps
from headway.version import __version__

# not the exports: nobody serves them
QUEUES = {"default": 2, "mail": 6, "images": 4, "billing": 2, "reports": 2, "refunds": 2}
TENANTS = ("acme", "globex", "initech")
kinds = Registry()


@kinds.job(queue="mail", max_attempts=2, backoff=("1s", "2s"))
def send_email(to: str, order: int = 0) -> str:
    """One in nine meets a server that is down."""
    time.sleep(0.02)
    if order % 9 == 4:
        raise ConnectionRefusedError("mail.example.com:25 refused the connection")
    return f"250 accepted for {to}"


@kinds.job(queue="images", max_attempts=1, timeout="2s")
def make_thumbnail(image: int, width: int = 320) -> dict[str, int]:
    time.sleep(0.03)
    if image % 31 == 7:
        raise ValueError(f"image {image} is not a picture: its first bytes are b'%PDF'")
    return {"image": image, "width": width, "height": width * 3 // 4}


@kinds.job(queue="billing", max_attempts=1, on_dead="hold")
def charge(order: int, cents: int) -> str:
    """One order's charges are a train: a declined card holds what follows."""
    if cents > 100_000:
        raise PermissionError(f"card declined for order {order}: over the limit")
    return f"charged {cents / 100:.2f}"


@kinds.job(queue="reports", max_attempts=1)
def build_report(ctx: Context, about: str, pages: int = 12) -> str:
    for page in range(1, pages + 1):
        ctx.progress(page / pages, f"page {page} of {pages}")
        ctx.log(f"page {page}: {about}")
        time.sleep(0.15)
    ctx.artifact("report.csv", "page,about\n" + "".join(f"{page},{about}\n" for page in range(1, pages + 1)))
    return f"{about}: {pages} pages"


@kinds.job(queue="exports")
def export_ledger(year: int) -> None:
    """Nothing serves its queue until somebody starts a worker for it."""


@kinds.job(queue="default", max_attempts=1)
def orders_come_in() -> int:
    """A few orders for each tenant, as they come in by day."""
    number = int(time.time())
    for index, tenant in enumerate(TENANTS):
        view = app.tenant(tenant)
        for each in range(3 - index + number % 3):
            order = number * 10 + each
            view.enqueue("send_email", {"to": f"customer{order % 997}@{tenant}.example", "order": order})
            view.enqueue("make_thumbnail", {"image": order % 5_000})
    if number % 6 == 0:
        app.tenant(TENANTS[number // 6 % 3]).enqueue("build_report", {"about": "orders of the last hour"})
    return number


@kinds.machine
class Refund(Machine, queue="refunds"):
    """Money goes back once somebody has approved it."""

    class State(msgspec.Struct):
        order: int
        cents: int

    @step
    async def start(self, _: Context) -> Await:
        return Await("approved", then=self.pay_back, timeout="7d")

    @step
    async def pay_back(self, ctx: Context) -> Done:
        return Done(f"paid back {ctx.state.cents / 100:.2f}")


app = Headway()
app.include(kinds)


def fill(app: Headway) -> None:
    """Days of numbers, some hundred jobs that ran, and what waits for a person."""
    app.store.run(_history(app, datetime.now(UTC)))
    for index, tenant in enumerate(TENANTS):
        view = app.tenant(tenant)
        view.enqueue_many(
            view.build_job("send_email", {"to": f"customer{n}@{tenant}.example", "order": n})
            for n in range(40 - 9 * index)
        )
        view.enqueue_many(view.build_job("make_thumbnail", {"image": n}) for n in range(45 - 9 * index))
        view.enqueue_many(view.build_job("refund", {"order": 70 + n, "cents": 1_999}) for n in range(3 - index))
        for order, cents in ((4_711, 129_900), (4_712, 2_500)):
            for part in range(4):
                view.enqueue("charge", {"order": order, "cents": cents + part}, train=f"order/{order}")
        view.enqueue("build_report", {"about": f"sales of {tenant}", "pages": 3})
    app.run(queues=QUEUES, until_idle=True)
    acme = app.tenant("acme")
    acme.create_schedule(
        "nightly-report", "0 2 * * *", kind="build_report", tz="America/New_York", payload={"about": "the day"}
    )
    acme.create_schedule(
        "monday-ledger", "30 6 * * mon", kind="export_ledger", tz="Europe/Berlin", payload={"year": 2026}
    )
    acme.create_template("welcome", "send_email", {"to": "new@acme.example"})
    acme.create_trigger("thank-you", "order.paid", kind="send_email", payload={"to": "paid@acme.example"})
    acme.emit("order.paid", {"order": 4_712})
    acme.create_connector("stock", "https://stock.example.com/v1", description="How many of an article are left")
    app.limit(kind="make_thumbnail", max_running=4)
    acme.enqueue_many(acme.build_job("export_ledger", {"year": 2_000 + n}) for n in range(25))
    acme.enqueue_many(acme.build_job("send_email", {"to": "later@acme.example"}, delay=f"{n + 1}h") for n in range(12))
    app.create_schedule("orders", every="2s", kind="orders_come_in")
    app.store.run(app.store.ops.register(_silent_worker()))


def _silent_worker() -> NewWorker:
    """One that was gone before its first heartbeat: the demo's own worker removes it once its own lease is steady, in
    about a minute."""
    return NewWorker(
        id=new_id(),
        hostname="shop-7.example",
        pid=4_711,
        machine=None,
        process_started=None,
        version=__version__,
        queues={"reports": 2},
        kinds=("build_report",),
        concurrency=2,
        lease_ms=1,
    )


def _history(app: Headway, now: datetime) -> Op[None]:
    """The numbers of the last week, as if the shop had been open: quiet nights, busy noons."""
    ids = app.store.run(app.store.ops.tenants_named(TENANTS, create=True))
    rows = [
        {
            "tenant_id": tenant_id,
            "span": span,
            "at": at,
            "queue": queue,
            "kind": kind,
            **msgspec.structs.asdict(numbers),
        }
        for span, at, (tenant_id, queue, kind), numbers in _numbers(ids, now)
    ]
    names = list(rows[0])

    def in_sqlite() -> Steps[None]:
        marks = ", ".join("?" * len(names))
        sql = f"insert into stats ({', '.join(names)}) values ({marks})"  # noqa: S608 - names of ours
        yield Batch(sql, [[_stored(row[name]) for name in names] for row in rows])

    def in_postgres() -> Steps[None]:
        sql = "insert into headway.stats select * from jsonb_populate_recordset(null::headway.stats, $1::jsonb)"
        yield Statement(sql, [msgspec.json.encode(rows).decode()])

    return Op(in_sqlite if app.store.dialect == "sqlite" else in_postgres, writes=True)


def _stored(value: Any) -> Any:
    match value:
        case datetime():
            return to_micros(value)
        case dict():
            return msgspec.json.encode(value).decode()
    return value


def _numbers(ids: dict[str, str], now: datetime) -> Iterator[tuple[Span, datetime, Key, Numbers]]:
    work = (("mail", "send_email", 40.0), ("images", "make_thumbnail", 65.0), ("reports", "build_report", 900.0))
    spans: tuple[tuple[Span, timedelta, int, float], ...] = (
        ("minute", timedelta(minutes=1), 120, 1.0),
        ("hour", timedelta(hours=1), 168, 60.0),
        ("day", timedelta(days=1), 7, 1_440.0),
    )
    for span, width, steps, minutes in spans:
        begin = datetime.fromtimestamp(now.timestamp() // width.total_seconds() * width.total_seconds(), UTC)
        for back in range(1, steps):
            at = begin - back * width
            busy = 1.2 + math.sin((at.hour + at.minute / 60 - 7) / 24 * 2 * math.pi) + 0.15 * math.sin(back * 1.7)
            found = {
                (0, (ids[tenant], queue, kind)): _of(busy * minutes * (9 - 3 * index) / (1 + ms / 300), ms, back)
                for index, tenant in enumerate(TENANTS)
                for queue, kind, ms in work
            }
            for (_, key), numbers in with_sums(found).items():
                yield span, at, key, numbers


def _of(rate: float, ms: float, back: int) -> Numbers:
    count = max(1, round(rate))
    failed = count // 12 if back % 40 < 5 else count // 90
    slow = max(1, count // 10)
    wait = 30 + 25 * math.sin(back / 9) ** 2
    return Numbers(
        enqueued=count,
        started=count + failed,
        succeeded=count - failed // 4,
        failed=failed,
        retried=failed - failed // 4,
        dead=failed // 4,
        waits={bucket(wait): count - slow, bucket(wait * 9): slow} if count > slow else {bucket(wait): count},
        runs={bucket(ms): count - slow, bucket(ms * 4): slow} if count > slow else {bucket(ms): count},
        depth=round(rate * 0.6 * (1 + math.sin(back / 7) ** 2)),
        oldest_ms=round(wait * 12),
    )
