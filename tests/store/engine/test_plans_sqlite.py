"""What a verb costs on SQLite depends on its batch, never on the backlog or on history: at 100,000 finished and 30,000
queued rows (ten times as many in a full run), steps of the virtual machine. Never time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from headway.model.fleet import MOST_QUEUED
from headway.model.ids import DEFAULT_TENANT_ID
from headway.model.listing import Filter
from tests.store.engine.crowd import RUNNING, SQLITE_ROWS
from tests.store.engine.crowd_verbs import INDEXED, LISTS, PAGE_READS, SEARCHES, VERBS, page_reads, verbs
from tests.tenant_ids import tenant_id


@pytest.fixture(scope="module")
def held(new_clock: Any) -> Any:
    return new_clock()


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
        for text in SQLITE_ROWS:
            conn.execute(text.replace("{now}", str(now)))
        for _, sql in indexes:
            conn.execute(sql)
        conn.execute("commit")
        yield store, conn
    store.close()


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
    op, batch = verbs(store.ops, make, 0, held)[verb]
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


@pytest.mark.parametrize("name", SEARCHES)
def test_a_search_takes_steps_for_what_it_may_look_at_on_sqlite(sqlite_crowd, name):
    store, conn = sqlite_crowd
    where, order = SEARCHES[name]
    steps = steps_of(store, conn, store.ops.find(Filter(**where), limit=50, order=order, search_limit=100))
    assert steps <= 50_000, f"{steps} steps"


def test_the_overview_counts_the_first_of_each_queue_on_sqlite(sqlite_crowd):
    store, conn = sqlite_crowd
    steps = steps_of(store, conn, store.ops.queues(tenant_id=None, most=MOST_QUEUED))
    assert steps <= 200_000, f"{steps} steps"


@pytest.mark.parametrize("tenant", [DEFAULT_TENANT_ID, None, tenant_id("nobody")], ids=["default", "all", "nobody"])
@pytest.mark.parametrize("name", PAGE_READS)
def test_what_a_page_counts_takes_steps_for_what_it_shows_on_sqlite(sqlite_crowd, name, tenant):
    store, conn = sqlite_crowd
    steps = steps_of(store, conn, page_reads(store.ops, tenant)[name])
    assert steps <= 150_000, f"{steps} steps"


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
HOT += [f"flows/{name}" for name in ("record", "read", "children", "journal", "tell", "forget", "fork")]
HOT += [f"machines/{name}" for name in ("turns", "wake", "signals", "inbox", "children", "spawn", "fork")]

TABLES = tuple(f"SCAN {table}" for table in ("jobs", "attempts", "signals", "edges", "flow_journal", "f ", "e ", "j "))


@pytest.mark.parametrize("file", HOT)
def test_no_statement_of_a_hot_verb_scans_a_table_on_sqlite(sqlite_crowd, file):
    from headway.store.sqlite.engine.statements import statements

    _, conn = sqlite_crowd
    for name, sql in statements(file).items():
        if name.startswith(("prunable_", "any_")):
            continue  # counted only when somebody asks; or the first row found is enough
        plan = [row[3] for row in conn.execute("explain query plan " + sql, _nulls(sql))]
        scans = [line for line in plan if line.startswith(TABLES)]
        # what runs is little, and the first rows of an index, or the last ones of the table itself, are no scan:
        # nothing keeps a row back, and nothing is sorted
        by_rowid = "order by rowid desc limit" in sql and "where" not in sql and len(plan) == 1
        scans = [line for line in scans if "jobs_running" not in line and ("USING" not in line or "limit" not in sql)]
        assert scans == [] or by_rowid, f"{file}.{name}: {plan}"


def _nulls(sql: str) -> list[None]:
    return [None] * max((int(number) for number in re.findall(r"\?(\d+)", sql)), default=0)
