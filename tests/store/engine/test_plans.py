"""What a verb costs depends on its batch, never on the backlog or on history: at 250,000 finished and 75,000 queued
rows (four times as many in a full run), pages and tuples touched on PostgreSQL, steps of the virtual machine on SQLite.
Never time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from psycopg.types.string import TextLoader

from headway.model.ids import DEFAULT_TENANT_ID
from headway.model.job import Change, Report
from headway.model.listing import Cursor, Filter
from tests import sizes_and_seeds

_TIMES = 4 if sizes_and_seeds.full else 1
FINISHED, QUEUED, SCHEDULED, RUNNING = 250_000 * _TIMES, 75_000 * _TIMES, 7_500 * _TIMES, 2_000
WORKERS = 20
MODES = ["auto", "force_custom_plan", "force_generic_plan"]

JOBS = """
insert into {jobs} (
  id, tenant_id, kind, queue, status, priority, position, payload, fence, unique_key, unique_scope, scheduled_for,
  expires_at, created_at, queued_at, started_at, finished_at, worker_id, attempt_started_at)
"""


def job_id(n: int) -> str:
    text = f"0190{n:08x}70008000{n:012x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def worker_id(n: int) -> str:
    return f"01900000-0000-7000-9000-{n:012x}"


class Crowd:
    """The rows of one store: finished, then running, scheduled and queued ones, by number."""

    running = range(FINISHED, FINISHED + RUNNING)
    scheduled = range(running.stop, running.stop + SCHEDULED)
    queued = range(scheduled.stop, scheduled.stop + QUEUED)
    due = 500  # of the scheduled
    expired = 200  # of the queued


@pytest.fixture(scope="module")
def held(new_clock: Any) -> Any:
    return new_clock()


@pytest.fixture(scope="module")
def postgres(
    databases: Any, postgres_template: str, held: Any, hold_postgres: Any
) -> Iterator[psycopg.Connection[Any]]:
    """A connection to a crowded database; each test rolls back."""
    name = databases.create(postgres_template)
    url = databases.url(name)
    with psycopg.connect(url, autocommit=True) as conn, hold_postgres(url, held):
        conn.execute("set maintenance_work_mem = '256MB'")
        with _without_indexes(conn, ["headway.jobs", "headway.attempts"]):
            for text in _POSTGRES_ROWS:
                conn.execute(text.replace("{now}", f"timestamptz '{held.now().isoformat()}'"))
        conn.execute("vacuum analyze headway.jobs")
        conn.execute("vacuum analyze headway.attempts")
        conn.execute("vacuum analyze headway.job_tags")
        conn.execute("checkpoint")
        conn.autocommit = False
        for kind in ("uuid", "json", "jsonb"):
            conn.adapters.register_loader(kind, TextLoader)
        yield conn
    databases.drop(name)


@contextmanager
def _without_indexes(conn: psycopg.Connection[Any], tables: list[str]) -> Iterator[None]:
    """Filling a table first and indexing it afterwards takes a third of the time."""
    found = conn.execute(
        "select i.indexrelid::regclass::text, pg_get_indexdef(i.indexrelid), c.conname, c.conrelid::regclass::text,"
        " pg_get_constraintdef(c.oid) from pg_index i left join pg_constraint c on c.conindid = i.indexrelid"
        " where i.indrelid = any (%s::regclass[])",
        (tables,),
    ).fetchall()
    for index, _, constraint, table, _ in found:
        conn.execute(f"alter table {table} drop constraint {constraint}" if constraint else f"drop index {index}")
    yield
    for _, index, constraint, table, definition in found:
        conn.execute(f"alter table {table} add constraint {constraint} {definition}" if constraint else index)


_ID = "(lpad(to_hex({n}), 8, '0') || '70008000' || lpad(to_hex({n}), 12, '0'))"
_PG_ID = f"('0190' || {_ID.format(n='n')})::uuid"
_PG_WORKER = f"('01900000-0000-7000-9000-' || lpad(to_hex(n % {WORKERS}), 12, '0'))::uuid"
_POSTGRES_ROWS = [
    # finished: one in ten dead, canceled or failed, over ninety days
    f"""{JOBS.format(jobs="headway.jobs")}
    select {_PG_ID}, '{DEFAULT_TENANT_ID}', 'kind' || n % 7, 'queue' || n % 5,
           case n % 30 when 1 then 'dead' when 2 then 'canceled' when 3 then 'failed' else 'succeeded' end,
           100, n::bigint * 1024, '{{}}', 1, case when n % 10 = 0 then 'key' || n end,
           case when n % 10 = 0 then '{{queued,scheduled,held,running,waiting}}'::text[] end, null, null,
           t, t, t, t, null, null
      from (select n, {{now}} - ({FINISHED} - n) * interval '8 seconds' as t
              from generate_series(0, {FINISHED - 1}) n) s""",
    f"""insert into headway.attempts (job_id, tenant_id, fence, status, started_at, finished_at, worker_id)
    select j.id, j.tenant_id, 1, 'succeeded', j.started_at, j.finished_at, '{worker_id(1)}' from headway.jobs j""",
    f"""{JOBS.format(jobs="headway.jobs")}
    select {_PG_ID}, '{DEFAULT_TENANT_ID}', 'kind' || n % 7, 'default', 'running', 100, n::bigint * 1024, '{{}}', 1,
           null, null, null, null, {{now}}, {{now}}, {{now}}, null, {_PG_WORKER}, {{now}}
      from generate_series({Crowd.running.start}, {Crowd.running.stop - 1}) n""",
    f"""{JOBS.format(jobs="headway.jobs")}
    select {_PG_ID}, '{DEFAULT_TENANT_ID}', 'kind' || n % 7, 'default', 'scheduled', 100, null, '{{}}', 0,
           null, null, {{now}} + (n - {Crowd.scheduled.start + Crowd.due}) * interval '1 minute', null, {{now}},
           null, null, null, null, null
      from generate_series({Crowd.scheduled.start}, {Crowd.scheduled.stop - 1}) n""",
    f"""{JOBS.format(jobs="headway.jobs")}
    select {_PG_ID}, '{DEFAULT_TENANT_ID}', 'kind' || n % 7, case when n % 3 = 0 then 'bulk' else 'default' end,
           'queued', 100 + n % 2, n::bigint * 1024, '{{}}', 0, 'key' || n,
           '{{queued,scheduled,held,running,waiting}}'::text[], null,
           case when n >= {Crowd.queued.stop - Crowd.expired} then {{now}} - interval '1 second'
                when n % 10 = 0 then {{now}} + interval '1 day' end,
           {{now}}, {{now}}, null, null, null, null
      from generate_series({Crowd.queued.start}, {Crowd.queued.stop - 1}) n""",
    f"""insert into headway.workers (id, started_at, heartbeat_at, steady_since, lease_expires_at, lease_ms, late_ms,
                                     pid, concurrency, hostname, version, queues, kinds)
    select ('01900000-0000-7000-9000-' || lpad(to_hex(n), 12, '0'))::uuid, {{now}}, {{now}}, {{now}},
           {{now}} + case n when 0 then -1 else 1 end * interval '1 hour', 60000, 60000, n, 100, 'host', '1',
           '{{"default": 100}}', '{{kind0}}'
      from generate_series(0, {WORKERS - 1}) n""",
    # finished: one in 25 has the tag common, one in a thousand rare, too
    f"""update headway.jobs j
       set tags = case when s.n % 1000 = 0 then '{{common,rare}}'::text[] else '{{common}}' end
      from generate_series(0, {FINISHED - 1}, 25) s (n)
     where j.id = ('0190' || {_ID.format(n="s.n")})::uuid""",
    """insert into headway.job_tags (tag, job_id, tenant_id)
    select t.tag, j.id, j.tenant_id from headway.jobs j cross join lateral unnest(j.tags) t (tag)""",
    "select setval('headway.position', 4000000000)",
]


class Cost:
    """What one statement touched."""

    def __init__(self, rows: list[Any], pages: int, scanned: int, fetched: int, plan: str) -> None:
        self.rows = rows
        self.pages = pages
        self.scanned = scanned
        self.fetched = fetched
        self.plan = plan

    def __repr__(self) -> str:
        return f"{self.pages} pages, {self.scanned} rows by full scans, {self.fetched} by index"


_TOUCHED = """
select coalesce(sum(seq_tup_read), 0), coalesce(sum(idx_tup_fetch), 0)
  from pg_stat_xact_user_tables
 where schemaname = 'headway' and relname in ('jobs', 'job_tags', 'attempts')
"""


def measure(conn: psycopg.Connection[Any], op: Any) -> Cost:
    """Run an op of one statement in the open transaction: what it read, by its own account and the server's."""
    steps = op.steps()
    statement = next(steps)
    steps.close()
    cursor = psycopg.RawCursor(conn)
    before = cursor.execute(_TOUCHED).fetchone()
    cursor.execute("explain (analyze, buffers, timing off, format json) " + statement.sql, statement.params)
    ((text,),) = cursor.fetchall()
    plan = (json.loads(text) if isinstance(text, str) else text)[0]["Plan"]
    after = cursor.execute(_TOUCHED).fetchone()
    pages = plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
    return Cost([], pages, int(after[0] - before[0]), int(after[1] - before[1]), _outline(plan))


def _outline(node: dict[str, Any], depth: int = 0) -> str:
    """The plan in a few lines: what each node reads, by which index, and how many rows come out."""
    where = " ".join(str(node[key]) for key in ("Relation Name", "Function Name", "Index Name") if key in node)
    removed = node.get("Rows Removed by Filter", 0)
    line = f"{'  ' * depth}{node['Node Type']} {where}: {node['Actual Rows']} rows, {removed} removed"
    return "\n".join([line, *(_outline(child, depth + 1) for child in node.get("Plans", []))])


@pytest.fixture
def crowded(postgres: psycopg.Connection[Any]) -> Iterator[psycopg.Connection[Any]]:
    postgres.rollback()
    yield postgres
    postgres.rollback()


@pytest.fixture(scope="module")
def pg_ops() -> Any:
    from headway.store.postgres.ops import PostgresOps

    return PostgresOps()


def _claims(start: int, count: int) -> list[str]:
    return [job_id(n) for n in Crowd.running[start : start + count]]


def _verbs(ops: Any, make: Any, n: int, held: Any) -> dict[str, tuple[Any, int]]:
    """Each hot verb, different rows each time, and how many rows its batch has."""
    me = worker_id(1)
    mine = [job_id(m) for m in Crowd.running if m % WORKERS == 1][n * 10 : n * 10 + 10]

    def settlements(to: str) -> list[Any]:
        from headway.model.job import Settlement

        delay = 5_000 if to in ("scheduled", "failed") else 0
        return [Settlement(id=i, fence=1, status="failed", to=to, charge=1, delay_ms=delay) for i in mine]

    new = [make.job(queue="default") for _ in range(20)]
    keyed = [make.job(kind=f"kind{m % 7}", unique_key=f"key{m}") for m in Crowd.queued[n * 20 : n * 20 + 20]]
    return {
        "claim": (ops.claim(me, "default", 20), 20),
        "claim from an empty queue": (ops.claim(me, "nothing", 20), 1),
        "promote": (ops.promote(limit=50), 100),
        "reap": (ops.reap([], limit=50), 50),
        "settle": (ops.settle(me, settlements("succeeded")), 10),
        "settle to a retry": (ops.settle(me, settlements("scheduled")), 10),
        "settle to a new job": (ops.settle(me, settlements("failed")), 10),
        "settle what is lost": (ops.settle(me, _stale(settlements("succeeded"))), 10),
        "release": (ops.release([(i, 1) for i in mine], delay_ms=0), 10),
        "report": (ops.report(me, [Report(mine[0], 1, 0.5, "n", "t")]), 100),
        "heartbeat": (ops.heartbeat(me, running=1, busy=[]), 100),
        "running": (ops.running(me), 100),
        "enqueue": (ops.enqueue(new), 20),
        "enqueue of taken keys": (ops.enqueue(keyed), 20),
        "prune": (ops.prune("succeeded", older_than_ms=86_400_000, limit=100), 100),
        "prune of the dead": (ops.prune("dead", older_than_ms=86_400_000, limit=100), 100),
        "prune of nothing": (ops.prune("dead", older_than_ms=10**12, limit=100), 1),
        "cancel": (
            ops.cancel([job_id(Crowd.queued[n])], tenant_id=None, reason=None, actor=None),
            1,
        ),
        "retry": (ops.retry([job_id(30 * n + 1)], tenant_id=None, actor=None), 1),
        "change": (
            ops.change(
                job_id(Crowd.queued[n + 50]),
                Change(priority=5, scheduled_for=held.now() + timedelta(hours=1)),
                tenant_id=None,
                actor=None,
            ),
            1,
        ),
    }


def _stale(settlements: list[Any]) -> list[Any]:
    import msgspec

    return [msgspec.structs.replace(each, fence=9) for each in settlements]


VERBS = [
    "claim",
    "claim from an empty queue",
    "promote",
    "reap",
    "settle",
    "settle to a retry",
    "settle to a new job",
    "settle what is lost",
    "release",
    "report",
    "heartbeat",
    "running",
    "enqueue",
    "enqueue of taken keys",
    "prune",
    "prune of the dead",
    "prune of nothing",
    "cancel",
    "retry",
    "change",
]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_touches_only_its_batch_on_postgres(crowded, pg_ops, make, held, verb, mode):
    crowded.execute(f"set local plan_cache_mode = {mode}")
    crowded.execute("savepoint cold")
    cold = measure(crowded, _verbs(pg_ops, make, 0, held)[verb][0])  # its pages are the catalogue's, too
    assert cold.scanned == 0, f"{verb}: {cold}\n{cold.plan}"
    crowded.execute("rollback to savepoint cold")
    for n in range(7):  # a cached plan may turn generic after five
        op, batch = _verbs(pg_ops, make, n, held)[verb]
        cost = measure(crowded, op)
        assert cost.scanned == 0, f"{verb} #{n}: {cost}\n{cost.plan}"
        assert cost.fetched <= 20 * batch + 50, f"{verb} #{n}: {cost}\n{cost.plan}"
        assert cost.pages <= 150 * batch + 300, f"{verb} #{n}: {cost}\n{cost.plan}"


LISTS = ["all", "dead", "failed", "canceled", "queued", "running", "scheduled", "succeeded"]


@pytest.mark.parametrize("tenant", [DEFAULT_TENANT_ID, None], ids=["tenant", "everybody"])
@pytest.mark.parametrize("where", LISTS)
def test_a_page_of_a_list_touches_about_a_page_on_postgres(crowded, pg_ops, where, tenant):
    chosen = Filter(tenant_id=tenant, status=None if where == "all" else where)
    cost = measure(crowded, pg_ops.find(chosen, limit=50))
    assert cost.scanned == 0, f"{cost}\n{cost.plan}"
    assert cost.pages <= 5_000, f"{cost}\n{cost.plan}"


# filters and orders that have an index of their own, and where a second page begins
INDEXED = {
    "a rare tag": ({"tags": ("rare",)}, "newest", None),
    "a common tag": ({"tags": ("common",)}, "newest", None),
    "a common tag, deep": ({"tags": ("common",), "status": "succeeded"}, "newest", Cursor(job_id(FINISHED // 2))),
    "both tags": ({"tags": ("rare", "common")}, "oldest", None),
    "any tag": ({"any_tags": ("rare", "common", "none")}, "newest", None),
    "no such tag": ({"tags": ("none",), "status": "dead"}, "oldest", None),
    "the oldest": ({}, "oldest", Cursor(job_id(FINISHED // 2))),
    "the oldest dead": ({"status": "dead"}, "oldest", Cursor(job_id(FINISHED // 2))),
    "a line": ({"queue": "bulk"}, "run", None),
    "a line, deep": ({"queue": "bulk"}, "run", Cursor(job_id(0), 100, Crowd.queued[QUEUED // 2] * 1024)),
}


@pytest.mark.parametrize("name", INDEXED)
def test_a_page_by_tags_or_in_another_order_touches_about_a_page_on_postgres(crowded, pg_ops, name):
    where, order, after = INDEXED[name]
    cost = measure(crowded, pg_ops.find(Filter(**where), limit=50, order=order, after=after))
    assert cost.scanned == 0, f"{cost}\n{cost.plan}"
    assert cost.fetched <= 500, f"{cost}\n{cost.plan}"
    assert cost.pages <= 2_000, f"{cost}\n{cost.plan}"


@pytest.mark.parametrize("read", ["get", "attempts", "results", "audit", "ahead"])
def test_a_read_by_id_touches_only_that_on_postgres(crowded, pg_ops, read):
    ids = [job_id(n) for n in range(0, FINISHED, FINISHED // 10)]
    op = {
        "get": lambda: pg_ops.get(ids, tenant_id=None),
        "results": lambda: pg_ops.results(ids, tenant_id=None),
        "attempts": lambda: pg_ops.attempts(ids[0], tenant_id=None),
        "audit": lambda: pg_ops.audit(ids[0], tenant_id=None),
        "ahead": lambda: pg_ops.ahead(job_id(Crowd.queued[1_000])),
    }[read]()
    cost = measure(crowded, op)
    assert cost.scanned == 0, f"{cost}\n{cost.plan}"
    assert cost.pages <= 2_000, f"{cost}\n{cost.plan}"


# SQLite


@pytest.fixture(scope="module")
def sqlite_crowd(tmp_path_factory: pytest.TempPathFactory, held: Any) -> Iterator[tuple[Any, Any]]:
    """A store with the same crowd, and a connection that counts its steps."""
    import apsw

    from headway.store.sqlite.store import SqliteStore

    path = str(tmp_path_factory.mktemp("crowd") / "headway.db")
    store = SqliteStore(path, clock=held.held)
    store.run(store.ops.counts(tenant_id=None))
    with closing(apsw.Connection(path)) as conn:
        conn.execute("pragma synchronous = off")
        conn.execute("begin immediate")
        indexes = list(
            conn.execute(
                "select name, sql from sqlite_schema where type = 'index' and tbl_name = 'jobs' and sql not null"
            )
        )
        for name, _ in indexes:
            conn.execute(f"drop index {name}")
        now = held.held.now()
        for text in _SQLITE_ROWS:
            conn.execute(text.replace("{now}", str(now)))
        for _, sql in indexes:
            conn.execute(sql)
        conn.execute("commit")
        yield store, conn
    store.close()


_SERIES = "with recursive s (n) as (select {start} union all select n + 1 from s where n < {stop} - 1)\n"
_LITE_ID = "printf('0190%04x-%04x-7000-8000-%012x', n >> 16, n & 65535, n)"
_LITE_WORKER = f"printf('01900000-0000-7000-9000-%012x', n % {WORKERS})"
_LITE_JOBS = """
insert into jobs (
  id, tenant_id, kind, queue, status, priority, position, payload, fence, unique_key, unique_scope, scheduled_for,
  expires_at, created_at, queued_at, started_at, finished_at, worker_id, attempt_started_at,
  max_attempts, max_losses, backoff_base_ms, backoff_cap_ms, delivery, source)
"""
_LITE_REST = "5, 5, 1000, 3600000, 'at_least_once', 'manual'"
_LITE_SCOPE = """'["queued","scheduled","held","running","waiting"]'"""
_SQLITE_ROWS = [
    f"""{_SERIES.format(start=0, stop=FINISHED)} {_LITE_JOBS}
    select {_LITE_ID}, '{DEFAULT_TENANT_ID}', 'kind' || n % 7, 'queue' || n % 5,
           case n % 30 when 1 then 'dead' when 2 then 'canceled' when 3 then 'failed' else 'succeeded' end,
           100, n * 1024, '{{}}', 1, case when n % 10 = 0 then 'key' || n end, {_LITE_SCOPE}, null, null, t, t, t, t,
           null, null, {_LITE_REST}
      from (select n, {{now}} - ({FINISHED} - n) * 8000000 as t from s)""",
    f"""insert into attempts (job_id, fence, status, started_at, finished_at, worker_id)
    select id, 1, 'succeeded', started_at, finished_at, '{worker_id(1)}' from jobs""",
    f"""{_SERIES.format(start=Crowd.running.start, stop=Crowd.running.stop)} {_LITE_JOBS}
    select {_LITE_ID}, '{DEFAULT_TENANT_ID}', 'kind' || n % 7, 'default', 'running', 100, n * 1024, '{{}}', 1,
           null, {_LITE_SCOPE}, null, null, {{now}}, {{now}}, {{now}}, null, {_LITE_WORKER}, {{now}}, {_LITE_REST}
      from s""",
    f"""{_SERIES.format(start=Crowd.scheduled.start, stop=Crowd.scheduled.stop)} {_LITE_JOBS}
    select {_LITE_ID}, '{DEFAULT_TENANT_ID}', 'kind' || n % 7, 'default', 'scheduled', 100, null, '{{}}', 0,
           null, {_LITE_SCOPE}, {{now}} + (n - {Crowd.scheduled.start + Crowd.due}) * 60000000, null, {{now}},
           null, null, null, null, null, {_LITE_REST}
      from s""",
    f"""{_SERIES.format(start=Crowd.queued.start, stop=Crowd.queued.stop)} {_LITE_JOBS}
    select {_LITE_ID}, '{DEFAULT_TENANT_ID}', 'kind' || n % 7, case when n % 3 = 0 then 'bulk' else 'default' end,
           'queued', 100 + n % 2, n * 1024, '{{}}', 0, 'key' || n, {_LITE_SCOPE}, null,
           case when n >= {Crowd.queued.stop - Crowd.expired} then {{now}} - 1000000
                when n % 10 = 0 then {{now}} + 86400000000 end,
           {{now}}, {{now}}, null, null, null, null, {_LITE_REST}
      from s""",
    f"""{_SERIES.format(start=0, stop=WORKERS)}
    insert into workers (id, hostname, pid, version, queues, kinds, concurrency, lease_ms, late_ms, started_at,
                         heartbeat_at, steady_since, lease_expires_at, metadata)
    select printf('01900000-0000-7000-9000-%012x', n), 'host', n, '1', '{{"default":100}}', '["kind0"]', 100, 60000,
           60000, {{now}}, {{now}}, {{now}}, {{now}} + case n when 0 then -1 else 1 end * 3600000000, '{{}}'
      from s""",
    f"""{_SERIES.format(start=0, stop=FINISHED // 25)}
    update jobs set tags = case when s.n = 0 then '["common","rare"]' else '["common"]' end
      from (select n % 1000 as n, {_LITE_ID} as id from (select n * 25 as n from s)) as s where jobs.id = s.id""",
    """insert into job_tags (tag, job_id, tenant_id)
    select tags.value, jobs.id, tenant_id from jobs join json_each(jobs.tags) as tags where jobs.tags is not null""",
    "update counters set value = 4000000000 where name = 'position'",
]


def steps_of(store: Any, conn: Any, op: Any) -> int:
    """How many steps of SQLite's virtual machine an op takes, by the hundred; undone afterwards."""
    hundreds = 0

    def count() -> bool:
        nonlocal hundreds
        hundreds += 1
        return False

    conn.execute("begin immediate")
    conn.set_progress_handler(count, 100)
    try:
        store.run_in(conn, op)
    finally:
        conn.set_progress_handler(None)
        conn.execute("rollback")
    return hundreds * 100


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_takes_steps_for_its_batch_only_on_sqlite(sqlite_crowd, make, held, verb):
    store, conn = sqlite_crowd
    op, batch = _verbs(store.ops, make, 0, held)[verb]
    if verb == "reap":
        batch = RUNNING  # it looks at the worker of everything that runs: on one machine that is little
    steps = steps_of(store, conn, op)
    assert steps <= 1_000 * batch + 5_000, f"{verb}: {steps} steps"


@pytest.mark.parametrize("tenant", [DEFAULT_TENANT_ID, None], ids=["tenant", "everybody"])
@pytest.mark.parametrize("where", LISTS)
def test_a_page_of_a_list_takes_steps_for_about_a_page_on_sqlite(sqlite_crowd, where, tenant):
    store, conn = sqlite_crowd
    chosen = Filter(tenant_id=tenant, status=None if where == "all" else where)
    steps = steps_of(store, conn, store.ops.find(chosen, limit=50))
    assert steps <= 100_000, f"{steps} steps"


@pytest.mark.parametrize("name", INDEXED)
def test_a_page_by_tags_or_in_another_order_takes_steps_for_about_a_page_on_sqlite(sqlite_crowd, name):
    store, conn = sqlite_crowd
    where, order, after = INDEXED[name]
    steps = steps_of(store, conn, store.ops.find(Filter(**where), limit=50, order=order, after=after))
    assert steps <= 50_000, f"{steps} steps"


HOT = [f"jobs/{name}" for name in ("enqueue", "claim", "settle", "ending", "reap")]
HOT += [
    "jobs/claim_under_limits",
    "jobs/cancel",
    "jobs/early_end",
    "jobs/unique",
    "jobs/promote",
    "jobs/prune",
    "fleet/workers",
]
HOT += [f"machines/{name}" for name in ("turns", "wake", "signals", "inbox", "children", "spawn", "fork")]


@pytest.mark.parametrize("file", HOT)
def test_no_statement_of_a_hot_verb_scans_a_table_on_sqlite(sqlite_crowd, file):
    from headway.store.sqlite.engine.statements import statements

    _, conn = sqlite_crowd
    for name, sql in statements(file).items():
        if name.startswith(("prunable_", "any_")):
            continue  # counted only when somebody asks; or the first row found is enough
        plan = [row[3] for row in conn.execute("explain query plan " + sql, _nulls(sql))]
        scans = [line for line in plan if line.startswith(("SCAN jobs", "SCAN attempts", "SCAN signals", "SCAN edges"))]
        # what runs is little, and the first rows of an index, or the last ones of the table itself, are no scan:
        # nothing keeps a row back, and nothing is sorted
        by_rowid = "order by rowid desc limit" in sql and "where" not in sql and len(plan) == 1
        scans = [line for line in scans if "jobs_running" not in line and ("USING" not in line or "limit" not in sql)]
        assert scans == [] or by_rowid, f"{file}.{name}: {plan}"


def _nulls(sql: str) -> list[None]:
    import re

    return [None] * max((int(number) for number in re.findall(r"\?(\d+)", sql)), default=0)
