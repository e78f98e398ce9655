"""Both stores refuse the same things, with the same type of error and the same words; and no refusal is left out.

The cases are in each chapter's `refusals.py`. Where one of them raises is compared with every `raise` in the source, so
that a new refusal without a case fails here, by name.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from headway.errors import HeadwayError
from tests.conftest import held_by
from tests.store import written_words
from tests.store.access import refusals as of_access
from tests.store.engine import refusals as of_engine
from tests.store.fleet import refusals as of_fleet
from tests.store.flows import refusals as of_flows
from tests.store.jobs import refusals as of_jobs
from tests.store.machines import refusals as of_machines
from tests.store.order import refusals as of_order
from tests.store.refusal_cases import Case, cases
from tests.store.refusal_sites import SOURCE, postgres_site, postgres_sites, python_site, python_sites
from tests.store.triggers import refusals as of_triggers

REFUSED = cases(of_engine, of_jobs, of_order, of_machines, of_flows, of_triggers, of_fleet, of_access)
"""Each asks a store for something that it refuses: the last call raises."""

WRITTEN = cases(written_words)
"""Each gives words that a store writes by itself, or what it answers."""

CHECKED = ("store/sqlite", "model/change.py", "model/checks.py", "model/move.py")
"""Where a call on SQLite is refused: in the store, and in what it asks of the model."""

ONLY_SQLITE = {
    "the file and its schema: PostgreSQL has a server, and words of its own": (
        "store/sqlite/engine/",
        "store/sqlite/store.py",
    ),
}
ONLY_POSTGRES = {
    "logins, which a file does not have": (
        "acting_tenant: ",
        "grant_worker: ",
        "grant_app: ",
        "bound: ",
        "refuse_option: ",
        "restrict_stored: ",
    ),
    "tables that somebody changes by SQL": (
        "keep_slugs: 'the default tenant keeps its name'",
        "refuse_update: ",
        "refuse_move: ",
    ),
    "values that the library checks before it asks a store": (
        "enqueue_many: 'a kind or queue name is missing or not valid",
        "enqueue_many: 'replace names what cannot be replaced",
        "open_windows: 'unique_for is a duration above zero",
        "enqueue: 'a kind or queue name is missing or not valid",
        "emit_many: 'an event name is missing or not valid",
        "signal_many: 'a signal has no name",
        "change_job: 'queue name % is not valid",
        "check_json: ",
        "checked_tags: ",
    ),
    "what the store gives as a value, and SQL, which has none, raises": (
        "complete: 'job % is a machine",
        "fail: 'a failure has an error",
        "fail_many: 'an execution ended",
        "refuse_lost: ",
    ),
    "values that both stores have checked by the model: SQL has its own words for them": (
        "tenants_named: 'a tenant''s name is not valid",
        "change_definition: using errcode",
        "check_bounds: using errcode",
        "declare: using errcode",
        "create_connector: using errcode",
        "change_connector: using errcode",
        "create_template: using errcode",
        "change_template: using errcode",
        "create_trigger: using errcode",
        "record_fires: 'a nominal time and next_fire_at",
    ),
    "where the store looks first, and answers with nothing": (
        "cancel_group: 'there is no group %",
        "retry_group: 'there is no group %",
        "run_trigger: 'job % is not there",
        "backfill: 'a job of this backfill is not there",
    ),
}


@pytest.fixture
def new_pair(
    make_db: Any,
    new_clock: Any,
    reused_databases: Any,
    sqlite_template: Path,
    tmp_path: Path,
) -> Callable[[], Any]:
    """Opens a SQLite and a PostgreSQL store, both empty, as often as a test likes."""
    from headway.store.postgres.store import PostgresStore
    from headway.store.sqlite.store import SqliteStore

    @contextmanager
    def pair() -> Iterator[tuple[Any, Any]]:
        clock = new_clock()
        path = tmp_path / "headway.db"
        shutil.copyfile(sqlite_template, path)
        sqlite: Any = SqliteStore(str(path), clock=clock.held)
        sqlite.path, sqlite.library = str(path), "apsw"
        url = reused_databases.lend()
        postgres: Any = PostgresStore(url)
        postgres.url, postgres.side = url, reused_databases.side(url)
        try:
            with held_by(postgres.side, clock):
                yield make_db(sqlite, clock), make_db(postgres, clock)
        finally:
            sqlite.close()
            path.unlink()
            postgres.close()
            reused_databases.give_back(url)

    return pair


def test_both_stores_refuse_alike(new_pair: Any) -> None:
    of_sqlite, of_postgres = (
        python_sites(*(SOURCE / each for each in CHECKED)),
        postgres_sites(SOURCE / "store/postgres"),
    )
    different: list[str] = []
    hit = set()
    for case in REFUSED:
        with new_pair() as (sqlite, postgres):
            first, second = _refusal(case, sqlite), _refusal(case, postgres)
        if _shown(first) != _shown(second) or not isinstance(first, HeadwayError):
            different.append(f"{case.__name__}:\n  sqlite   {_shown(first)}\n  postgres {_shown(second)}")
        hit |= {python_site(first, of_sqlite), postgres_site(second, of_postgres)}
    assert not different, "\n".join(["refused in different words:", *different])
    for sites, excepted in ((of_sqlite, ONLY_SQLITE), (of_postgres, ONLY_POSTGRES)):
        names = [name for some in excepted.values() for name in some]
        left = [str(site) for site in sites if site not in hit and not site.among(names)]
        assert not left, "\n".join(["no case is refused here:", *left])
        needless = [name for name in names if all(site in hit for site in sites if site.among([name]))]
        assert not needless, f"these are no exceptions: {needless}"


def test_both_stores_write_the_same_words(new_pair: Any) -> None:
    different = []
    for case in WRITTEN:
        with new_pair() as (sqlite, postgres):
            first, second = _answer(case, sqlite), _answer(case, postgres)
        if first != second:
            different.append(f"{case.__name__}:\n  sqlite   {first}\n  postgres {second}")
    assert not different, "\n".join(["different words:", *different])


def _answer(case: Case, db: Any) -> str:
    try:
        return str(case(db))
    except Exception as error:
        return _shown(error)


def _refusal(case: Case, db: Any) -> BaseException:
    try:
        answer = case(db)
    except Exception as error:  # of whatever type: the other store's must be the same
        return error
    return AssertionError(f"it was not refused, but answered with {answer}")


def _shown(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" + (f" [{job_id}]" if (job_id := getattr(error, "job_id", None)) else "")
