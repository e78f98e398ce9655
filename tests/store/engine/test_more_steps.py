"""More steps of the version that a database has already, as the builds between two releases bring them; and what an
older build of that version does beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headway.app.doctor.database import _schema
from headway.errors import SchemaOutdated
from headway.store import migrate
from headway.store.postgres.engine import migrate as postgres_migrate
from tests.store.engine.other_steps import add_version, ended_by_itself

VERSION = 10
TITLES = [f"migrate up to version 10: {words}" for words in ("shade", "backfill", "other index")]


def scripts(dialect: str) -> dict[str, str]:
    """A column, a backfill, and an index that goes for another one."""
    schema = "headway." if dialect == "postgres" else ""
    jobs, definitions = f"{schema}jobs", f"{schema}definitions"
    return {
        "90_shade.up.sql": f"-- locks: jobs, for a moment\nalter table {jobs} add column shade text;\n",
        "90_shade.down.sql": f"alter table {jobs} drop column shade;\n",
        "91_backfill.up.sql": "-- locks: two jobs at a time\n-- batches\n"
        f"update {jobs} set shade = 'dark' where id in "
        f"(select id from {jobs} where shade is null limit 2) returning id;\n",
        "91_backfill.down.sql": "",
        "92_other_index.up.sql": "-- locks: definitions, for a moment\n"
        f"drop index {schema}definitions_inactive;\ncreate index definitions_idle on {definitions} (active);\n",
        "92_other_index.down.sql": f"drop index {schema}definitions_idle;\n"
        f"create index definitions_inactive on {definitions} (kind) where not active;\n",
    }


@pytest.fixture
def tomorrow(db: Any, tmp_path: Path) -> Iterator[Callable[[], None]]:
    """A database with seven jobs and all of today's steps, under a build that has three more; ends that build."""
    db.enqueue_ids(7)
    db.store.close()
    with pytest.MonkeyPatch.context() as patch:
        add_version(patch, tmp_path / "tomorrow", db.dialect, scripts(db.dialect), VERSION)
        patch.setattr(postgres_migrate, "GENERATION", postgres_migrate.GENERATION + 1)

        def end() -> None:
            patch.undo()
            db.store.close()

        yield end


def shades(db: Any) -> list[Any]:
    return db.sql(f"select count(*), min(shade), max(shade) from {db.table('jobs')}")  # type: ignore[no-any-return]


@pytest.mark.usefixtures("tomorrow")
def test_a_database_of_the_version_gets_its_new_steps(db: Any) -> None:
    with pytest.raises(
        SchemaOutdated, match=r"version 10 without all its steps \(90_shade; 91_backfill; 92_other_index"
    ):
        db.enqueue()
    assert [part.title for part in migrate.plan(db.store)][:3] == TITLES
    assert migrate.apply(db.store)[:3] == TITLES
    assert migrate.apply(db.store) == []
    assert shades(db) == [(7, "dark", "dark")]
    db.settle(db.take(), "succeeded")
    assert [each.status for each in _schema(db.store)] == ["ok"]
    down = migrate.apply(db.store, 1)
    assert down[:3] == [title.replace(" up to ", " down from ") for title in reversed(TITLES)]


@pytest.mark.usefixtures("tomorrow")
def test_it_gets_them_however_often_the_migration_is_killed(db: Any) -> None:
    kills = 0
    while not ended_by_itself(db, kills + 1) and kills < 40:
        kills += 1  # on PostgreSQL the functions come last, and are hundreds of statements
    assert kills > 10
    migrate.apply(db.store)
    assert migrate.apply(db.store) == []
    assert shades(db) == [(7, "dark", "dark")]
    assert new_steps(db) == ["90_shade", "91_backfill", "92_other_index"]


def test_the_older_build_works_on_it(db: Any, tomorrow: Callable[[], None]) -> None:
    migrate.apply(db.store)
    tomorrow()
    db.enqueue()
    db.settle(db.take(), "succeeded")
    (finding,) = _schema(db.store)
    assert (finding.status, "newer build" in finding.detail) == ("ok", True), finding


@pytest.mark.parametrize("is_over", [True, False], ids=["done", "on its way"])
def test_the_older_build_changes_nothing_of_it(db: Any, tomorrow: Callable[[], None], is_over: bool) -> None:
    if is_over:
        migrate.apply(db.store)
    else:
        kills = 0
        while "90_shade" not in new_steps(db):
            kills += 1
            assert not ended_by_itself(db, kills)
    before = new_steps(db)
    assert len(before) == (3 if is_over else 1)
    tomorrow()
    for attempt in (migrate.apply, migrate.plan):
        with pytest.raises(SchemaOutdated, match=r"newer build.*nothing was changed"):
            attempt(db.store)
    for to in (1, 0):
        with pytest.raises(SchemaOutdated, match=r"newer build.*nothing was changed.*let that build take it down"):
            migrate.apply(db.store, to)
    assert new_steps(db) == before
    assert [title for title in migrate.apply(db.store, VERSION) if title != "install the functions"] == []
    db.enqueue()
    assert new_steps(db) == before


def new_steps(db: Any) -> list[str]:
    names = db.sql(f"select name from {db.table('schema_steps')} where name > '9' order by name")
    return [name for (name,) in names]
