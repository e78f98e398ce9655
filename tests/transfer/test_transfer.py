"""Work moves between the stores with everything that is unfinished, from whatever a killed transfer has left."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from headway import Headway
from headway.app.database_url import open_store
from headway.app.transfer import _side, abort_transfer, plan_transfer, transfer
from headway.clock import SystemClock
from headway.errors import ConfigError, NotAllowed, StoreBusy, StoreError, StoreMoved
from headway.model.retry import succeeded
from headway.store.transfer.tables import NOT_MOVED, ONLY_HERE, TABLES, layouts
from headway.store.transfer.transfer import Step
from headway.testing import drain
from tests.crash.forked_programs import ForkedProgram
from tests.store.db import new_worker
from tests.transfer.lifelike import AFTER, Order, app_at, fill, finish, kinds, limited, work

# where a transfer is killed, one after the other; each run has to go on from what the one before left
KILLED_AT = (
    "prepared", "copy tenants", "copy jobs", "copy signals", "copy", "copied", "drain", "drained", "sealed", "settled",
    "copy what changed jobs", "copy what changed audit", "copy what changed", "check jobs", "checked", "switched",
)  # fmt: skip


@pytest.fixture(params=["to postgres", "to sqlite"])
def urls(request: pytest.FixtureRequest, postgres_migrated_url: str, sqlite_migrated_path: Path) -> tuple[str, str]:
    """The databases of a transfer, in both directions: source and target."""
    file = f"sqlite:///{sqlite_migrated_path}"
    return (file, postgres_migrated_url) if request.param == "to postgres" else (postgres_migrated_url, file)


@pytest.fixture
def app(urls: tuple[str, str], tmp_path: Path) -> Iterator[Headway]:
    with _app(urls[0], tmp_path) as app:
        yield app


def test_a_killed_transfer_goes_on_and_nothing_is_lost_or_done_twice(
    app: Headway, urls: tuple[str, str], tmp_path: Path
) -> None:
    fill(app)
    live = iter(range(100))
    for stage in KILLED_AT:
        killed = ForkedProgram("tests.transfer.killed", [*urls, stage], dict(os.environ), tmp_path / "log")
        assert killed.wait(60) == -signal.SIGKILL, (stage, (tmp_path / "log").read_text())
        sealed = KILLED_AT.index(stage) >= KILLED_AT.index("sealed")
        assert (_accepts(urls[0], next(live)), _accepts(urls[1], next(live))) == (not sealed, stage == "switched")
        if stage in ("copy jobs", "copied"):
            drain(app)  # what was copied goes on meanwhile
    transfer(*urls)

    _accepts(urls[0], 99)
    with pytest.raises(StoreMoved, match="was moved to"):
        app.enqueue_many([work.build(what="too late")])
    with pytest.raises(StoreMoved, match="was moved to"):
        drain(app)
    app.close()
    with _app(urls[1], tmp_path) as moved:
        finish(moved)
        _check_work(moved, tmp_path / "ledger")


def test_a_moved_database_is_equal_in_every_row(app: Headway, urls: tuple[str, str], tmp_path: Path) -> None:
    fill(app)
    before = _texts(app)
    steps: list[Step] = []
    done = transfer(*urls, history=True, progress=steps.append)
    assert {table.table for table in done.tables} == {table.name for table in TABLES}
    empty = {"sessions", "requests", "job_lists", "artifact_trash"}
    assert {table.table for table in done.tables if not table.rows} == empty
    assert [step for step in steps if step.done > step.total] == []
    assert [name.endswith(f":{tmp_path / 'artifacts'}") for name in done.artifact_stores] == [True]
    with _app(urls[1], tmp_path) as moved:
        assert _texts(moved) == before
        # the numbers go on behind those that were given out
        one, two = moved.enqueue_many([work.build(what="x"), work.build(what="y")])
        last = max(job.position or 0 for job in before["jobs"])
        assert last < (moved.get(one.id).position or 0) < (moved.get(two.id).position or 0)


def test_workers_and_enqueuers_go_on_until_the_seal(app: Headway, urls: tuple[str, str], tmp_path: Path) -> None:
    taken: list[str] = []

    def enqueue() -> None:
        with _app(urls[0], tmp_path) as other:
            for n in range(100_000):
                try:
                    what = f"job {n}"
                    other.enqueue_many([work.using(train=f"train {n % 5}").build(what=what)])
                    taken.append(what)
                except StoreMoved:
                    return

    enqueuer = threading.Thread(target=enqueue)
    worker = ForkedProgram("tests.transfer.worker", [urls[0]], dict(os.environ), tmp_path / "log")
    enqueuer.start()
    _until(lambda: (tmp_path / "ledger").exists())
    transfer(*urls)
    enqueuer.join(60)
    worker.kill()
    worker.wait(10)

    with _app(urls[1], tmp_path) as moved:
        drain(moved)
        did = (tmp_path / "ledger").read_text().splitlines()
        assert sorted(did) == sorted(taken)  # each once
        for train in range(5):
            cars = [int(what.split()[1]) for what in did if int(what.split()[1]) % 5 == train]
            assert cars == sorted(cars)
        assert moved.queues()[0].paused is False


def test_a_job_that_starts_after_the_drain_ends_before_the_seal(
    app: Headway, urls: tuple[str, str], tmp_path: Path
) -> None:
    """One can be claimed by its id while all queues are paused."""
    (job,) = app.enqueue_many([work.build(what="late")])
    ops, worker, claims = app.store.ops, new_worker(), []

    def meddle(step: Step) -> None:
        if step.stage == "drained" and not claims:
            app.store.run(ops.register(worker))
            claims.append(app.store.run(ops.take(worker.id, job.id, reservation_id=None)))
        elif step.stage == "drain" and step.total:
            app.store.run(ops.settle(worker.id, [succeeded(claims[0], '"in time"')]))

    transfer(*urls, history=True, progress=meddle)
    with _app(urls[1], tmp_path) as moved:
        assert moved.result(job.id, timeout=0).value == "in time"


def test_a_transfer_can_be_aborted_until_the_switch(app: Headway, urls: tuple[str, str], tmp_path: Path) -> None:
    fill(app)
    before = _texts(app)

    def stop_at(stage: str) -> Callable[[Step], None]:
        def stop(step: Step) -> None:
            if step.stage == stage:
                raise KeyboardInterrupt

        return stop

    for stage in ("copied", "drained", "checked"):
        with pytest.raises(KeyboardInterrupt):
            transfer(*urls, progress=stop_at(stage))
        abort_transfer(*urls)
        assert _accepts(urls[0], 0)
        assert _accepts(urls[1], 0)
        _empty(urls[1])
        assert _texts(app)["queues"] == before["queues"]
    with pytest.raises(NotAllowed, match=r"no transfer from .* is under way"):
        abort_transfer(*urls)
    transfer(*urls)
    with pytest.raises(NotAllowed, match=r"no transfer from .* is under way"):
        abort_transfer(*urls)


def test_a_transfer_refuses_what_would_lose_or_mix_work(app: Headway, urls: tuple[str, str], tmp_path: Path) -> None:
    app.enqueue_many([work.build(what="one")])
    assert plan_transfer(*urls)["jobs"] == 1
    if urls[0].startswith("postgresql"):
        assert plan_transfer(urls[0], f"sqlite:///{tmp_path / 'absent.db'}?prefix=hw_")["jobs"] == 1
        assert not [*tmp_path.glob("absent.db*")]
    with pytest.raises(ConfigError, match="a transfer goes from a SQLite file to PostgreSQL, or back"):
        transfer(urls[0], urls[0])

    assert _accepts(urls[1], 0, keep=True)
    with pytest.raises(NotAllowed, match="is in use, it has jobs: work is moved into an empty database only"):
        transfer(*urls)
    _empty(urls[1])

    release = threading.Event()
    running = threading.Event()

    @app.job
    def slow() -> None:
        running.set()
        release.wait(30)

    job = slow.enqueue()
    worker = threading.Thread(target=lambda: app.run(until_idle=True))
    worker.start()
    assert running.wait(30)
    with pytest.raises(StoreBusy, match=r"1 jobs still run after 0.3 s, so nothing was moved"):
        transfer(*urls, timeout="300ms")
    assert not any(queue.paused for queue in app.queues())
    with pytest.raises(ConfigError, match="began without history: go on so"):
        transfer(*urls, history=True)
    release.set()
    worker.join(30)
    assert app.get(job.id).status == "succeeded"
    other = urls[1].replace("headway.db", "other.db") if urls[1].startswith("sqlite") else None
    if other:
        with pytest.raises(NotAllowed, match=r"was moved to .*, or is being moved there"):
            transfer(urls[0], other)
    assert transfer(*urls).rows
    assert transfer(*urls).tables == ()  # once more: it is done


def test_tables_with_a_prefix_move_too(sqlite_path: Path, postgres_migrated_url: str, tmp_path: Path) -> None:
    there, back = (f"sqlite:///{path}?prefix=h_" for path in (sqlite_path, tmp_path / "back.db"))
    with _app(there, tmp_path) as app:
        cars = [work.using(train="t").build(what=f"car {n}") for n in range(3)]
        rated = [limited.build(what="rated") for _ in range(3)]
        *_, order = app.enqueue_many([*cars, *rated, Order.build(order=9)])
        app.signal(order.id, "early", "hello")
        for source, target in ((there, postgres_migrated_url), (postgres_migrated_url, back)):
            assert {table.table: table.rows for table in transfer(source, target).tables}["jobs"] == 7
        with pytest.raises(StoreMoved):
            app.enqueue_many([work.build(what="too late")])
    with _app(back, tmp_path) as app:
        drain(app)
    did = (tmp_path / "ledger").read_text().splitlines()
    assert [what for what in did if what.startswith("car")] == ["car 0", "car 1", "car 2"]
    # what SQLite keeps beside the rows to be quick: that a queue has limits, and a new machine a signal
    assert (did.count("rated"), did.count("inbox hello")) == (2, 1)


def test_every_table_and_column_is_moved_or_named(postgres_store: Any, sqlite_migrated_path: Path) -> None:
    both_stores = (postgres_store, open_store(f"sqlite:///{sqlite_migrated_path}", SystemClock(), timeout_s=30))
    sides = [_side(store) for store in both_stores]
    try:
        postgres, sqlite = (side.catalogue() for side in sides)
        found = layouts(sqlite, postgres)
        assert {layout.name for layout in found} | NOT_MOVED.keys() == postgres.keys() | sqlite.keys()
        for dialect, here in (("sqlite", sqlite), ("postgres", postgres)):
            assert all(column in here[table] for table, column in ONLY_HERE[dialect])  # type: ignore[index]
        for extra in ({"more": postgres["jobs"]}, {"jobs": {**postgres["jobs"], "more": postgres["jobs"]["id"]}}):
            with pytest.raises(StoreError, match=r"store/transfer/tables\.py"):
                layouts(sqlite, {**postgres, **extra})
        # keys are compared as both stores sort them
        collated = (
            both_stores[0]
            .side.execute(
                "select c.relname || '.' || a.attname from pg_index i join pg_class c on c.oid = i.indrelid"
                " join pg_attribute a on a.attrelid = c.oid and a.attnum = any (i.indkey)"
                " where i.indisprimary and c.relnamespace = 'headway'::regnamespace and a.atttypid = 'text'::regtype"
                " and a.attcollation <> '\"C\"'::regcollation"
            )
            .fetchall()
        )
        assert [name for (name,) in collated if name.split(".")[0] not in NOT_MOVED] == []
    finally:
        for side in sides:
            side.close()


@contextmanager
def _app(url: str, folder: Path) -> Iterator[Headway]:
    app = app_at(url, folder / "ledger")
    try:
        yield app
    finally:
        app.close()


def _accepts(url: str, n: int, *, keep: bool = False) -> bool:
    """Whether the database takes writes; a job that it took is deleted again."""
    with closing(Headway(url, hints=False)) as app:
        app.include(kinds)
        try:
            job = app.enqueue_many([work.using(delay="1h").build(what=f"try {n}")])[0]
        except StoreMoved:
            return False
        if not keep:
            app.cancel(job.id)
            app.delete(job.id)
        return True


def _empty(url: str) -> None:
    """Delete what `_accepts` left."""
    side: Any = _side(open_store(url, SystemClock(), timeout_s=30))
    with closing(side):
        for table in TABLES:
            if table.name != "tenants":
                side._run(f"delete from {table.name}")


def _texts(app: Headway) -> dict[str, Any]:
    """What people see, in order."""
    jobs = sorted(app.jobs(limit=1_000, raw=True), key=lambda job: job.id)
    return {
        "jobs": jobs,
        "attempts": [app.attempts(job.id) for job in jobs],
        "signals": [app.signals(job.id) for job in jobs],
        "journals": app._store.run(app._store.ops.journal([job.id for job in jobs])).rows,
        "queues": [(queue.name, queue.paused, queue.fair, queue.counts, queue.retention) for queue in app.queues()],
        "schedules": app.schedules(),
        "triggers": app.triggers(),
        "templates": app.templates(),
        "connectors": app.connectors(),
        "limits": app.limits(),
        "tenants": app.tenants(),
        "keys": app.api_keys(),
        "trains": app.trains(),
        "events": app.events(),
    }


def _check_work(app: Headway, ledger: Path) -> None:
    did = ledger.read_text().splitlines()
    assert set(did) >= AFTER, AFTER - set(did)
    assert [what for what in did if what.startswith("car")] == [f"car {n}" for n in range(5)]
    once = [what for what in did if what != "rated"]
    assert sorted(once) == sorted(set(once))
    assert did.count("rated") == 2  # of three: the rate's bucket was moved, too
    # what was done is not done again: the keys are still taken
    keyed = [
        work.using(idempotency_key="once").build(what="again"),
        work.using(unique_key="u", unique_scope={"queued", "running", "succeeded"}).build(what="again"),
        work.using(unique_key="w", unique_for="1d").build(what="again"),
    ]
    assert not any(job.created for job in app.enqueue_many(keyed))
    found = [app.result(job.id).value for job in app.jobs(kind="spills", order="oldest")]
    assert found == ["x" * 1_500, "y" * 1_600]
    waiting = app.counts()
    assert (waiting["waiting"], waiting["scheduled"], waiting["dead"]) == (2, 1, 1)  # a machine and a flow wait


def _until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.parametrize("history", [True, False])
def test_the_audits_chain_goes_on_at_the_target(
    app: Headway, urls: tuple[str, str], tmp_path: Path, history: bool
) -> None:
    for queue in ("a", "b", "c"):
        app.pause(queue, actor="änn")
        app.seal_audit()
    app.erase_audit([1], actor="bob")
    kept = app.verify_audit().newest
    transfer(*urls, history=history)
    with _app(urls[1], tmp_path) as moved:
        check = moved.verify_audit(seal=kept)
        assert (check.faults, check.entries, check.erased) == ((), 3 if history else 0, 1 if history else 0)
        moved.resume("a", actor="bob")
        assert moved.seal_audit() == (2 if history else 1)
        check = moved.verify_audit(seal=kept)
        assert (check.faults, check.entries, check.seals) == ((), 5 if history else 1, 4 if history else 2)
