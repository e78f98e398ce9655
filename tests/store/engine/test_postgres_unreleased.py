"""Databases of versions before the first release: adopted if their tables are those of a version 1, else refused."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Any

import pytest

from headway.errors import SchemaOutdated
from headway.model.ids import new_id
from headway.model.job import NewJob
from headway.store.ops import Op
from headway.store.postgres.engine import catalogue
from headway.store.postgres.engine.migrate import VERSION, migrate, plan
from headway.store.steps import read_steps


def record(store: Any, version: int) -> None:
    """Make its tables those of version 1, under another version."""
    store.run_script(Op(lambda: migrate(1), writes=True))
    store.side.execute(f"comment on table headway.jobs is 'headway schema version {version} functions 0123'")


def recorded(store: Any) -> str:
    ((text,),) = store.side.execute("select obj_description('headway.jobs'::regclass)").fetchall()
    return str(text)


def test_the_stored_catalogue_is_that_of_a_new_database_at_version_1(postgres_store: Any) -> None:
    postgres_store.run_script(Op(lambda: migrate(1), writes=True))
    assert postgres_store.run_script(Op(catalogue.found, writes=False)) == catalogue.version_1()


def test_the_catalogue_is_the_same_wherever_names_are_looked_up(postgres_store: Any) -> None:
    (sql,) = catalogue.script("engine/migrations/catalogue.sql")
    plain = postgres_store.side.execute(sql).fetchall()
    postgres_store.side.execute("set search_path = headway, public")
    within = postgres_store.side.execute(sql).fetchall()
    postgres_store.side.execute("reset search_path")
    assert within == plain


def test_every_name_of_a_new_database_is_read_from_its_scripts(postgres_store: Any) -> None:
    """A step in another style would not be looked for."""
    parts = postgres_store.run_script(Op(catalogue.found, writes=False))
    kinds = {"table", "column", "index", "trigger", "policy"}
    of_constraints = {
        ("index", "", catalogue.name_of(part)[2])
        for part in parts
        if re.match("constraint .*(PRIMARY KEY|UNIQUE)", part)
    }
    sequences = {catalogue.name_of(part) for part in parts if re.match(r"table \w+ S ", part)}
    there = {each for part in parts if (each := catalogue.name_of(part))[0] in kinds} - of_constraints - sequences
    assert catalogue.names(scripts()) == there


def scripts() -> list[str]:
    found = read_steps(files("headway.store.postgres") / "engine/migrations")
    return [sql for step in found for sql in catalogue.script(f"engine/migrations/{step.file('up')}")]


@pytest.mark.parametrize("version", [2, 9])
def test_the_same_tables_are_adopted_with_their_jobs(postgres_store: Any, version: int) -> None:
    job = NewJob(id=new_id(), kind="k")
    postgres_store.run(postgres_store.ops.enqueue([job]))
    record(postgres_store, version)
    titles = [part.title for part in postgres_store.run_script(Op(plan, writes=False))]
    done = postgres_store.run_script(Op(migrate, writes=True))
    assert done == titles
    assert done[0] == f"adopt the tables of unreleased version {version} as version 1"
    assert done[-1] == "install the functions"
    postgres_store.close()
    assert postgres_store.run(postgres_store.ops.version()) == VERSION
    assert [each.id for each in postgres_store.run(postgres_store.ops.get([job.id], tenant_id=None))] == [job.id]
    assert postgres_store.run_script(Op(migrate, writes=True)) == []


@pytest.mark.parametrize(
    "change",
    [
        "alter table headway.audit drop column detail, add column details json",
        "alter table headway.jobs alter column priority type integer",
        "alter table headway.jobs alter column kind drop not null",
        "alter table headway.attempts drop column started_at",
    ],
)
def test_other_tables_are_refused_and_left_as_they_are(postgres_store: Any, change: str) -> None:
    record(postgres_store, 7)
    postgres_store.side.execute(
        "insert into headway.attempts (job_id, tenant_id, started_at, finished_at, fence, status)"
        " values (gen_random_uuid(), gen_random_uuid(), now(), now(), 1, 'succeeded')"
    )
    postgres_store.side.execute(change)
    before = recorded(postgres_store)
    for steps in (migrate, plan):
        with pytest.raises(SchemaOutdated, match=r"its tables are not version 1's.*migrate --to 0.*Nothing"):
            postgres_store.run_script(Op(steps, writes=True))
    assert recorded(postgres_store) == before


@pytest.mark.parametrize(
    "change",
    [
        "alter table headway.signals drop column created_by",
        "alter table headway.fires drop constraint fires_status",
        "drop index headway.jobs_due",
        "drop trigger jobs_values on headway.jobs",
        "drop policy tenant_isolation on headway.events",
        "drop table headway.errors",
        "create or replace function headway.tenant() returns uuid language sql as 'select null::uuid'",
        "alter table headway.jobs add column mine text",
        "create index mine on headway.jobs (kind, created_at)",
    ],
)
def test_tables_that_lack_something_are_made_whole(postgres_store: Any, change: str) -> None:
    whole = postgres_store.run_script(Op(catalogue.found, writes=False))
    record(postgres_store, 1)
    postgres_store.side.execute(change)
    done = postgres_store.run_script(Op(migrate, writes=True))
    assert done.count("make the tables of version 1 whole") == (0 if "mine" in change else 1)
    assert whole <= postgres_store.run_script(Op(catalogue.found, writes=False))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("alter table headway.signals drop column created_by", "signals lacks created_by"),
        ("drop index headway.jobs_due", "there is no index jobs_due"),
        ("drop policy tenant_isolation on headway.events", "there is no policy tenant_isolation on events"),
        ("drop table headway.errors cascade", "there is no table errors"),
    ],
)
def test_migrate_says_what_a_schema_of_its_version_lacks(postgres_store: Any, change: str, says: str) -> None:
    postgres_store.side.execute(change)
    for steps in (migrate, plan):
        with pytest.raises(SchemaOutdated, match=f"has schema version 10, but its tables are not.*{says}"):
            postgres_store.run_script(Op(steps, writes=True))


def test_a_store_says_how_an_unreleased_version_is_adopted(postgres_store: Any) -> None:
    record(postgres_store, 9)
    with pytest.raises(SchemaOutdated, match=r"has schema version 9 of an unreleased Headway: run headway .*migrate"):
        postgres_store.run(postgres_store.ops.now())
