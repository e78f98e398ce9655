"""What a tick costs depends on what it finds, never on how many triggers, events and fires there are: rows that
PostgreSQL touched, steps of SQLite's virtual machine. Never time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from psycopg.types.string import TextLoader

from headway.model.ids import DEFAULT_TENANT_ID
from headway.model.job import Settlement
from headway.store.postgres.store import PostgresStore
from tests import sizes_and_seeds
from tests.store.engine.test_plans_sqlite import steps_of
from tests.store.triggers.trigger_calls import firing, handling, new_event, new_fire

_TIMES = 2 if sizes_and_seeds.full else 1
TRIGGERS, EVENTS, FIRES, WAITING = 10_000 * _TIMES, 50_000 * _TIMES, 50_000 * _TIMES, 25_000 * _TIMES
BATCH = 10

_EVERY = {
    # half of them schedules, of which a fifth is disabled and the others are due later; half on 500 events
    "triggers": """
    insert into {triggers} (
      id, tenant_id, created_at, updated_at, next_fire_at, every_ms, revision, enabled, type, name, kind, origin, tz,
      catch_up, catch_up_window_ms, overlap, jitter_ms, event, dedupe_window_ms, description, payload, options, "when")
    select {id:1}, {tenant}, {now} - 1 * {second}, {now} - 1 * {second},
           case when n % 2 = 0 then {now} + (n + 1) * {second} end, case when n % 2 = 0 then 60000 end, 1,
           n % 5 <> 0, case when n % 2 = 0 then 'schedule' else 'event' end, 'name' || n, 'mail', 'stored', 'UTC',
           'all', 86400000, 'skip', 0, case when n % 2 = 1 then 'event' || n % 500 end, 300000, '',
           '{{}}', '{{}}', '{{}}'
      from {series:TRIGGERS}""",
    "events": """
    insert into {events} (id, tenant_id, name, status, emitted_at, handled_at, payload)
    select {id:2}, {tenant}, 'event' || n % 500, case when n % 50 = 0 then 'failed' else 'handled' end,
           {now} - (200000 - n) * {second}, {now} - (200000 - n) * {second}, 'null'
      from {series:EVENTS}""",
    # of schedules, all of one trigger
    "fires": """
    insert into {fires} (id, trigger_id, tenant_id, nominal_at, fired_at, status, job_id)
    select {id:3}, {one:1:2}, {tenant}, {now} - (200000 - n) * {second}, {now} - (200000 - n) * {second}, 'enqueued',
           {id:9}
      from {series:FIRES}""",
    # of another schedule, which was skipped all the time
    "skipped fires": """
    insert into {fires} (id, trigger_id, tenant_id, nominal_at, fired_at, status, job_id)
    select {id:6}, {one:1:4}, {tenant}, {now} - (200000 - n) * {second}, {now} - (200000 - n) * {second},
           case when n = 0 then 'enqueued' else 'skipped' end, {id:9}
      from {series:FIRES}""",
    # of events, all of one trigger, most by the same key
    "fires of events": """
    insert into {fires} (id, trigger_id, tenant_id, event_id, fired_at, status, job_id, dedupe_key)
    select {id:4}, {one:1:3}, {tenant}, {id:2}, {now} - (200000 - n) * {second}, 'enqueued', {id:9},
           case when n % 3 = 0 then 'key' || n else 'same' end
      from {series:EVENTS}""",
    "jobs": """
    insert into {jobs} (id, tenant_id, kind, queue, status, priority, position, payload, fence, created_at, queued_at,
                        finished_at{also})
    select {id:5}, {tenant}, 'mail', 'bulk', case when n % 2 = 0 then 'queued' else 'succeeded' end, 100, n * 1024,
           '{{}}', 0, {now}, {now}, case when n % 2 = 1 then {now} end{with}
      from {series:WAITING}""",
}


def _text(template: str, dialect: str, now: Any) -> str:
    """One of the statements above, in the words of a store."""
    counts = {"TRIGGERS": TRIGGERS, "EVENTS": EVENTS, "FIRES": FIRES, "WAITING": WAITING}
    series: dict[str, str] = {}
    if dialect == "postgres":
        for name, count in counts.items():
            series[name] = f"generate_series(0, {count - 1}) n"
        words = {
            "now": f"timestamptz '{now.isoformat()}'",
            "second": "interval '1 second'",
            "also": "",
            "with": "",
        }
        make = "('0190000{0}-0000-7000-8000-' || lpad(to_hex({1}), 12, '0'))::uuid"
    else:
        for name, count in counts.items():
            numbers = f"select 0 union all select n + 1 from s where n < {count - 1}"
            series[name] = f"(with recursive s (n) as ({numbers}) select n from s)"
        words = {
            "now": str(round(now.timestamp() * 1_000_000)),
            "second": "1000000",
            "also": ", max_attempts, max_losses, backoff_base_ms, backoff_cap_ms, delivery, source, unique_scope",
            "with": ", 5, 5, 1000, 3600000, 'at_least_once', 'manual', '[]'",
        }
        make = "printf('0190000{0}-0000-7000-8000-%012x', {1})"
    text = template
    for name, value in series.items():
        text = text.replace(f"{{series:{name}}}", value)
    for digit in range(10):
        text = text.replace(f"{{id:{digit}}}", make.format(digit, "n"))
        for n in range(10):
            text = text.replace(f"{{one:{digit}:{n}}}", make.format(digit, n))
    for name in ("triggers", "events", "fires", "jobs"):
        text = text.replace(f"{{{name}}}", f"headway.{name}" if dialect == "postgres" else name)
    tenant = f"'{DEFAULT_TENANT_ID}'" + ("::uuid" if dialect == "postgres" else "")
    for name, value in {**words, "tenant": tenant}.items():
        text = text.replace(f"{{{name}}}", value)
    return text.replace("{{", "{").replace("}}", "}")


def row_id(table: int, n: int) -> str:
    return f"0190000{table}-0000-7000-8000-{n:012x}"


class Crowd:
    """A crowded store, and how much an op costs there; whatever it does is undone."""

    def __init__(self, store: Any, cost: Callable[[Any], int], ops: Any) -> None:
        self.store = store
        self.cost = cost
        self.ops = ops


@pytest.fixture(scope="module")
def held(new_clock: Any) -> Any:
    return new_clock()


_TOUCHED = """
select relname, coalesce(seq_tup_read, 0), coalesce(idx_tup_fetch, 0)
  from pg_stat_xact_user_tables
 where schemaname = 'headway' and relname in ('triggers', 'events', 'fires', 'jobs')
 order by relname
"""


@pytest.fixture(scope="module")
def postgres_crowd(databases: Any, postgres_template: str, held: Any, hold_postgres: Any) -> Iterator[Crowd]:
    name = databases.create(postgres_template)
    url = databases.url(name)
    with psycopg.connect(url, autocommit=True) as conn, hold_postgres(url, held), closing(PostgresStore(url)) as store:
        for template in _EVERY.values():
            conn.execute(_text(template, "postgres", held.now()))
        for table in ("triggers", "events", "fires", "jobs"):
            conn.execute(f"vacuum analyze headway.{table}")
        conn.autocommit = False
        for kind in ("uuid", "json"):
            conn.adapters.register_loader(kind, TextLoader)

        def cost(op: Any) -> int:
            """Rows touched by index; none may be read by a full scan."""
            try:
                before = conn.execute(_TOUCHED).fetchall()
                store.run_in(conn, op)
                after = conn.execute(_TOUCHED).fetchall()
            finally:
                conn.rollback()
            touched = {
                name: (scanned - scanned_before, fetched - fetched_before)
                for (name, scanned, fetched), (_, scanned_before, fetched_before) in zip(after, before, strict=True)
            }
            assert not any(scanned for scanned, _ in touched.values()), f"full scans: {touched}"
            return sum(fetched for _, fetched in touched.values())

        yield Crowd(store, cost, store.ops)
    databases.drop(name)


@pytest.fixture(scope="module")
def sqlite_crowd(tmp_path_factory: pytest.TempPathFactory, held: Any) -> Iterator[Crowd]:
    import apsw

    from headway.store.sqlite.store import SqliteStore

    path = str(tmp_path_factory.mktemp("crowd") / "headway.db")
    with closing(SqliteStore(path, clock=held.held)) as store:
        store.run(store.ops.counts(tenant_id=None))
        with closing(apsw.Connection(path)) as conn:
            conn.execute("pragma synchronous = off")
            conn.execute("begin immediate")
            for template in _EVERY.values():
                conn.execute(_text(template, "sqlite", held.now()))
            conn.execute("commit")
            # some 200 steps of the virtual machine for a row that is touched and what is done with it
            yield Crowd(store, lambda op: steps_of(store, conn, op) // 200, store.ops)


@pytest.fixture(params=["postgres", "sqlite"])
def crowd(request: pytest.FixtureRequest) -> Crowd:
    found: Crowd = request.getfixturevalue(f"{request.param}_crowd")
    return found


@pytest.fixture(scope="module")
def made() -> dict[str, tuple[list[Any], list[str]]]:
    return {}


@pytest.fixture
def crowd_due(crowd: Crowd, held: Any, make_db: Any, made: Any) -> tuple[Crowd, list[Any], list[str]]:
    """The crowd with ten schedules that are due and ten events that wait; made once."""
    key = crowd.store.dialect
    if key not in made:
        db = make_db(crowd.store, held)
        busy = [db.trigger(row_id(1, n)) for n in (2, *(range(4, 40, 10)))]
        for each in busy:
            db.change_trigger(each.id, next_fire_at=held.now() - timedelta(seconds=1))
        schedules = [db.trigger(each.id) for each in busy]
        made[key] = (schedules, [db.emit("event3") for _ in range(BATCH)])
    return crowd, *made[key]


def test_finding_nothing_is_a_few_probes(crowd: Crowd) -> None:
    assert crowd.cost(crowd.ops.due(kinds=["mail"], declared=[], limit=100)) <= 60


def test_a_tick_touches_what_is_due(crowd_due: Any) -> None:
    crowd, schedules, events = crowd_due
    due = crowd.store.run(crowd.ops.due(kinds=["mail"], declared=[], limit=100))
    assert {met.trigger.id for met in due.schedules} == {each.id for each in schedules}
    assert [heard.event.id for heard in due.events] == events
    met = sum(len(heard.triggers) for heard in due.events)
    assert crowd.cost(crowd.ops.due(kinds=["mail"], declared=[], limit=100)) <= 20 * (len(schedules) + met) + 100


def test_a_firing_looks_at_its_last_fires_only(crowd_due: Any, held: Any) -> None:
    """The first two have fired and been skipped a hundred thousand times, and mind overlaps."""
    crowd, schedules, _ = crowd_due
    plan = [firing(each, held.now(), next_fire_at=held.now() + timedelta(hours=1)) for each in schedules]
    assert crowd.cost(crowd.ops.fire(plan)) <= 100 * len(schedules) + 100


@pytest.mark.parametrize("key", ["same", "key99", "another"])
def test_a_handling_looks_at_the_fires_of_its_key_and_window_only(crowd_due: Any, make_db: Any, key: str) -> None:
    """The trigger has enqueued sixty thousand times by the same key, all before its window."""
    crowd, _, events = crowd_due
    trigger = make_db(crowd.store, None).trigger(row_id(1, 3))
    plan = [handling(event, new_fire(trigger, dedupe_key=key)) for event in events]
    assert crowd.cost(crowd.ops.handle(plan)) <= 60 * BATCH + 100


def test_a_run_by_hand_touches_its_trigger(crowd: Crowd, make_db: Any) -> None:
    trigger = make_db(crowd.store, None).trigger(row_id(1, 2))
    assert crowd.cost(crowd.ops.run_trigger(new_fire(trigger), tenant_id=None, actor=None)) <= 100


def test_an_emit_touches_nothing_else(crowd: Crowd) -> None:
    assert crowd.cost(crowd.ops.emit([new_event("event3") for _ in range(BATCH)])) <= 10 * BATCH + 30


PRUNES = {
    "events": {"events_ms": 0, "failed_ms": 10**12, "fires_ms": 10**12},
    "failed events": {"events_ms": 10**12, "failed_ms": 0, "fires_ms": 10**12},
    "fires": {"events_ms": 10**12, "failed_ms": 10**12, "fires_ms": 0},
    "nothing": {"events_ms": 10**12, "failed_ms": 10**12, "fires_ms": 10**12},
}


@pytest.mark.parametrize("what", PRUNES)
def test_a_prune_touches_what_it_deletes(crowd: Crowd, what: str) -> None:
    batch = 1 if what == "nothing" else 100
    assert crowd.cost(crowd.ops.prune_fires(**PRUNES[what], limit=100)) <= 15 * batch + 50


def test_a_retry_of_an_event_touches_its_fires(crowd: Crowd) -> None:
    ids = [row_id(2, n) for n in range(0, 500, 50)]
    assert crowd.cost(crowd.ops.retry_events(ids, tenant_id=None, actor=None)) <= 30 * len(ids) + 50


def test_the_end_of_jobs_looks_once_whether_somebody_listens(crowd: Crowd, held: Any, make_db: Any) -> None:
    """Among ten thousand triggers on other events."""
    db = make_db(crowd.store, held)
    worker = db.home()
    claims = db.claim(worker, queue="bulk", limit=BATCH)
    ends = [Settlement(id=each.id, fence=each.fence, status="failed", to="dead", error="boom") for each in claims]
    assert crowd.cost(crowd.ops.settle(worker, ends)) <= 20 * BATCH + 30


READS: dict[str, Callable[[Any], Any]] = {
    "fires of a trigger": lambda ops: ops.fires(
        tenant_id=None, trigger_id=row_id(1, 2), event_id=None, limit=50, before=None
    ),
    "fires of an event": lambda ops: ops.fires(
        tenant_id=None, trigger_id=None, event_id=row_id(2, 7), limit=50, before=None
    ),
    "fires of a trigger, a later page": lambda ops: ops.fires(
        tenant_id=DEFAULT_TENANT_ID, trigger_id=row_id(1, 2), event_id=None, limit=50, before=row_id(3, 50_000)
    ),
    "newest fires": lambda ops: ops.fires(tenant_id=None, trigger_id=None, event_id=None, limit=50, before=None),
    "newest events": lambda ops: ops.events(None, tenant_id=None, names=None, statuses=None, limit=50, before=None),
    "events by id": lambda ops: ops.events(
        [row_id(2, n) for n in range(50)], tenant_id=None, names=None, statuses=None, limit=50, before=None
    ),
    "events that wait": lambda ops: ops.events(
        None, tenant_id=None, names=None, statuses=["pending"], limit=50, before=None
    ),
    "triggers": lambda ops: ops.triggers(
        tenant_id=None, type=None, name=None, events=None, limit=50, after=row_id(1, 9_000)
    ),
}


@pytest.mark.parametrize("read", READS)
def test_a_page_touches_about_a_page(crowd: Crowd, read: str) -> None:
    assert crowd.cost(READS[read](crowd.ops)) <= 500
