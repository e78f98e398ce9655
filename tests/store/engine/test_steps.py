"""The steps of a version: each is committed and recorded by itself, so a killed migration goes on where it was; and
what builds of other versions do beside it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

import headway
from headway.app.doctor.database import _schema
from headway.errors import SchemaOutdated
from headway.store import migrate
from headway.store.ops import Op
from headway.store.postgres.engine import catalogue as postgres_catalogue
from headway.store.postgres.engine import migrate as postgres_migrate
from headway.store.sqlite.engine import catalogue as sqlite_catalogue
from headway.store.sqlite.engine import migrate as sqlite_migrate
from headway.store.sqlite.engine.prefix import renamed
from headway.store.steps import Header, Step, read_steps
from tests.store.engine.other_steps import add_version, ended_by_itself

FOLDERS = {
    "sqlite": sqlite_migrate._FOLDER,
    "postgres": postgres_migrate._FOLDER / "engine/migrations",
}
STEPS = [(dialect, step) for dialect, folder in FOLDERS.items() for step in read_steps(folder) if step.name]


@pytest.mark.parametrize(("dialect", "step"), STEPS, ids=lambda each: each if isinstance(each, str) else each.name)
def test_every_step_says_what_it_locks_and_can_be_undone(dialect: str, step: Any) -> None:
    text = (FOLDERS[dialect] / step.file("up")).read_text()
    header = Header.of(text)
    assert header.locks, f"{step.file('up')} needs a line such as: -- locks: jobs, for a moment"
    assert (FOLDERS[dialect] / step.file("down")).is_file()
    if dialect == "postgres":
        statements = postgres_catalogue.script(f"engine/migrations/{step.file('up')}")
        for name in re.findall(r"create (?:unique )?index concurrently (\w+)", text):
            assert header.outside
            assert f"drop index concurrently if exists headway.{name};" in text, "what a kill left is not valid"
    else:
        statements = sqlite_catalogue.script(step.file("up"))
    assert len(statements) == 1 or not header.batches


def scripts(dialect: str) -> dict[str, str]:
    """Steps of every sort: a column, a backfill of two rows at a time, and an index that no transaction may make."""
    jobs, index = ("headway.jobs", "headway.jobs_colour") if dialect == "postgres" else ("jobs", "jobs_colour")
    concurrently = "concurrently " if dialect == "postgres" else ""
    return {
        "10_colour.up.sql": f"-- locks: jobs, for a moment\nalter table {jobs} add column colour text;\n",
        "10_colour.down.sql": f"alter table {jobs} drop column colour;\n",
        "11_backfill.up.sql": "-- locks: two jobs at a time\n-- batches\n"
        f"update {jobs} set colour = 'blue' where id in "
        f"(select id from {jobs} where colour is null limit 2) returning id;\n",
        "11_backfill.down.sql": "",
        "12_index.up.sql": "-- locks: nothing\n-- outside a transaction\n"
        f"drop index {concurrently}if exists {index};\ncreate index {concurrently}jobs_colour on {jobs} (colour);\n",
        "12_index.down.sql": f"drop index {index};\n",
        "13_last.up.sql": f"-- locks: jobs, for a moment\nalter table {jobs} add column shade text;\n",
        "13_last.down.sql": f"alter table {jobs} drop column shade;\n",
    }


@pytest.fixture
def patch() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        yield patch


@pytest.fixture
def later(db: Any, patch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """A database of version 10 with seven jobs, under a library of version 20."""
    db.enqueue_ids(7)
    db.store.close()
    add_version(patch, tmp_path / "later", db.dialect, scripts(db.dialect))
    return db


def colours(db: Any) -> list[Any]:
    return db.sql(f"select count(*), min(colour), max(colour) from {db.table('jobs')}")  # type: ignore[no-any-return]


TITLES = [f"migrate up to version 20: {words}" for words in ("colour", "backfill", "index", "last")]


def test_steps_are_done_in_order_and_undone_in_reverse(later: Any) -> None:
    assert [part.title for part in migrate.plan(later.store)][:4] == TITLES
    assert migrate.apply(later.store)[:4] == TITLES
    assert migrate.apply(later.store) == []
    assert colours(later) == [(7, "blue", "blue")]
    down = migrate.apply(later.store, 10)
    assert down[:4] == [title.replace(" up to ", " down from ") for title in reversed(TITLES)]
    assert migrate.current(later.store) == 10
    assert migrate.apply(later.store)[:4] == TITLES


def test_a_migration_killed_after_any_statement_goes_on_where_it_was(later: Any) -> None:
    kills = 0
    while not ended_by_itself(later, kills + 1) and kills < 60:
        kills += 1  # on PostgreSQL the functions come last, and are hundreds of statements
    assert kills > 10
    assert set(migrate.apply(later.store)) <= {"install the functions"}
    assert migrate.apply(later.store) == []
    assert migrate.current(later.store) == 20
    assert colours(later) == [(7, "blue", "blue")]
    assert len(later.sql(f"select name from {later.table('schema_steps')} where version = 20")) == 4
    if later.dialect == "postgres":
        valid = "select indisvalid from pg_index where indexrelid = 'headway.jobs_colour'::regclass"
        assert later.sql(valid) == [(True,)]


def test_in_the_callers_transaction_all_of_it_is_inside(later: Any) -> None:
    if later.dialect == "postgres":
        with psycopg.connect(later.store._url) as conn:
            done = headway.migrate(conn)
            assert migrate.current(later.store) == 10
    else:
        with closing(later.connect()) as conn:
            conn.execute("begin")
            done = headway.migrate(conn, prefix=later.store.prefix)
            conn.execute("commit")
    assert done[:4] == TITLES
    assert colours(later) == [(7, "blue", "blue")]


def test_a_library_works_on_the_next_schema_if_that_only_adds(db: Any, tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        add_version(patch, tmp_path / "later", db.dialect, scripts(db.dialect))
        migrate.apply(db.store)
        db.store.close()
    job = db.enqueue()  # by the library of version 10
    assert db.status(job.id) == "queued"
    db.settle(db.take(), "succeeded")
    assert db.status(job.id) == "succeeded"
    assert (migrate.current(db.store), db.store.run(db.store.ops.version())) == (20, 10)
    (finding,) = _schema(db.store)
    assert "works on it" in finding.detail
    with pytest.raises(SchemaOutdated, match="schema version 20, newer than this library's 10"):
        migrate.apply(db.store)


def test_a_library_refuses_the_next_schema_if_that_needs_a_newer_one(db: Any, tmp_path: Path) -> None:
    texts = scripts(db.dialect)
    texts["13_last.up.sql"] = "-- needs version 20\n" + texts["13_last.up.sql"]
    with pytest.MonkeyPatch.context() as patch:
        add_version(patch, tmp_path / "later", db.dialect, texts)
        migrate.apply(db.store)
        db.store.close()
    with pytest.raises(SchemaOutdated, match="schema version 20, newer than this library's 10"):
        db.enqueue()


def test_an_older_build_leaves_newer_functions_alone(postgres_store: Any) -> None:
    ((said,),) = postgres_store.side.execute("select obj_description('headway.jobs'::regclass)").fetchall()
    newer = re.sub(
        r"functions \w+ generation \d+", f"functions 0123 generation {postgres_migrate.GENERATION + 1}", said
    )
    postgres_store.side.execute(f"comment on table headway.jobs is '{newer}'")
    for attempt in (migrate.apply, migrate.plan):
        with pytest.raises(SchemaOutdated, match=r"newer build .*nothing was changed.*headway migrate --to 10"):
            attempt(postgres_store)
    assert postgres_store.side.execute("select obj_description('headway.jobs'::regclass)").fetchall() == [(newer,)]
    postgres_store.close()
    assert postgres_store.run(postgres_store.ops.version()) == 10
    assert migrate.apply(postgres_store, 10) == ["install the functions"]
    assert migrate.apply(postgres_store) == []


def test_an_older_build_leaves_alone_what_has_a_step_that_it_does_not_know(postgres_store: Any) -> None:
    postgres_store.side.execute(
        "insert into headway.schema_steps (version, name, needs) values (10, '99_of_tomorrow', 1)"
    )
    with pytest.raises(SchemaOutdated, match="newer build"):
        postgres_store.run_script(Op(postgres_migrate.migrate, writes=True))


def test_a_schema_without_all_its_steps_is_refused_until_it_has_them(db: Any) -> None:
    """As a build of yesterday left it while the version grew."""
    db.enqueue()
    step = Step(10, "31_said_logs")
    (down,) = (FOLDERS[db.dialect] / step.file("down")).read_text().strip().split(";")[:-1]
    db.sql(down if db.dialect == "postgres" else renamed(down, db.store.prefix))
    db.sql(f"delete from {db.table('schema_steps')} where name = ?", step.name)
    db.store.close()
    with pytest.raises(SchemaOutdated, match=r"version 10 without all its steps \(31_said_logs\): .*headway .*migrate"):
        db.enqueue()
    assert migrate.apply(db.store)[0] == step.title("up")
    db.enqueue()


def test_the_functions_have_a_generation() -> None:
    recorded = postgres_migrate.GENERATION_FILE.read_text()
    said = "a function changed: run python tools/functions_generation.py"
    assert recorded == f"{postgres_migrate.GENERATION} {postgres_migrate.functions_hash()}\n", said
