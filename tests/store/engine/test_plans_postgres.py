"""What a verb costs on PostgreSQL depends on its batch, never on the backlog or on history: at 100,000 finished and
30,000 queued rows (ten times as many in a full run), pages and tuples touched. Never time."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.types.string import TextLoader

from headway.model.fleet import MOST_QUEUED
from headway.model.ids import DEFAULT_TENANT_ID
from headway.model.listing import Filter
from tests.store.engine.crowd import FINISHED, POSTGRES_ROWS, Crowd, job_id
from tests.store.engine.crowd_verbs import INDEXED, LISTS, PAGE_READS, SEARCHES, VERBS, page_reads, verbs
from tests.tenant_ids import tenant_id

MODES = ["auto", "force_custom_plan", "force_generic_plan"]


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
            for text in POSTGRES_ROWS:
                conn.execute(text.replace("{now}", f"timestamptz '{held.now().isoformat()}'"))
        for table in ("jobs", "attempts", "job_tags", "job_errors", "flow_journal"):
            _vacuum(conn, table)
        conn.execute("checkpoint")
        conn.autocommit = False
        for kind in ("uuid", "json", "jsonb"):
            conn.adapters.register_loader(kind, TextLoader)
        yield conn
    databases.drop(name)


def _vacuum(conn: psycopg.Connection[Any], table: str) -> None:
    """Until every row is known to be visible to all: a session that begins just then, even in another database, keeps a
    vacuum from it, and scans of an index alone would read the table, too."""
    end = time.monotonic() + 60
    while True:
        conn.execute(sql.SQL("vacuum analyze headway.{}").format(sql.Identifier(table)))
        found = conn.execute(_VISIBLE, [f"headway.{table}"]).fetchone()
        if found == (True,):
            return
        assert time.monotonic() < end, "a transaction is open all the time"


_VISIBLE = "select relallvisible = relpages from pg_class where oid = %s::regclass"


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
 where schemaname = 'headway' and relname in ('jobs', 'job_tags', 'job_errors', 'attempts')
"""


def measure(conn: psycopg.Connection[Any], op: Any, *, skip: int = 0) -> Cost:
    """Run an op's statement in the open transaction: what it read, by its own account and the server's. `skip` is how
    many statements come before it."""
    cursor = psycopg.RawCursor(conn)
    steps = op.steps()
    statement = next(steps)
    for _ in range(skip):
        statement = steps.send(cursor.execute(statement.sql, statement.params).fetchall())
    steps.close()
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


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_touches_only_its_batch_on_postgres(crowded, pg_ops, make, held, verb, mode):
    crowded.execute(f"set local plan_cache_mode = {mode}")
    crowded.execute("savepoint cold")
    cold = measure(crowded, verbs(pg_ops, make, 0, held)[verb][0])  # its pages are the catalogue's, too
    assert cold.scanned == 0, f"{verb}: {cold}\n{cold.plan}"
    crowded.execute("rollback to savepoint cold")
    for n in range(7):  # a cached plan may turn generic after five
        op, batch = verbs(pg_ops, make, n, held)[verb]
        cost = measure(crowded, op)
        assert cost.scanned == 0, f"{verb} #{n}: {cost}\n{cost.plan}"
        assert cost.fetched <= 20 * batch + 50, f"{verb} #{n}: {cost}\n{cost.plan}"
        assert cost.pages <= 150 * batch + 300, f"{verb} #{n}: {cost}\n{cost.plan}"


@pytest.mark.parametrize("tenant", [DEFAULT_TENANT_ID, None], ids=["tenant", "everybody"])
@pytest.mark.parametrize("where", LISTS)
def test_a_page_of_a_list_touches_about_a_page_on_postgres(crowded, pg_ops, where, tenant):
    chosen = Filter(tenant_id=tenant, status=None if where == "all" else where)
    cost = measure(crowded, pg_ops.find(chosen, limit=50))
    assert cost.scanned == 0, f"{cost}\n{cost.plan}"
    assert cost.pages <= 2_000, f"{cost}\n{cost.plan}"


@pytest.mark.parametrize("name", INDEXED)
def test_a_page_by_tags_or_in_another_order_touches_about_a_page_on_postgres(crowded, pg_ops, name):
    where, order, after = INDEXED[name]
    op = pg_ops.find(Filter(**where), limit=50, order=order, after=after)
    cost = measure(crowded, op, skip=1 if "error" in where else 0)
    assert cost.scanned == 0, f"{cost}\n{cost.plan}"
    assert cost.fetched <= 500, f"{cost}\n{cost.plan}"
    assert cost.pages <= 2_000, f"{cost}\n{cost.plan}"


@pytest.mark.parametrize("name", SEARCHES)
def test_a_search_touches_what_it_may_look_at_on_postgres(crowded, pg_ops, name):
    where, order = SEARCHES[name]
    op = pg_ops.find(Filter(**where), limit=50, order=order, search_limit=100)
    for skip in range(3 if "error" in where else 2):
        cost = measure(crowded, op, skip=skip)
        assert cost.scanned == 0, f"{cost}\n{cost.plan}"
        assert cost.fetched <= 1_000, f"{cost}\n{cost.plan}"
        assert cost.pages <= 2_000, f"{cost}\n{cost.plan}"


def test_the_overview_counts_the_first_of_each_queue_on_postgres(crowded, pg_ops):
    cost = measure(crowded, pg_ops.queues(tenant_id=None, most=MOST_QUEUED))
    assert cost.scanned == 0, f"{cost}\n{cost.plan}"
    assert cost.fetched <= 3 * MOST_QUEUED, f"{cost}\n{cost.plan}"


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


@pytest.mark.parametrize("tenant", [DEFAULT_TENANT_ID, None, tenant_id("nobody")], ids=["default", "all", "nobody"])
@pytest.mark.parametrize("name", PAGE_READS)
def test_what_a_page_counts_touches_what_it_shows_on_postgres(crowded, pg_ops, name, tenant):
    cost = measure(crowded, page_reads(pg_ops, tenant)[name])
    assert cost.scanned == 0, f"{cost}\n{cost.plan}"
    assert cost.fetched <= 10_000, f"{cost}\n{cost.plan}"
