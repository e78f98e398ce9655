"""Databases of versions before the first release: adopted if their tables are version 1's, else refused."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import pytest

from headway.errors import SchemaOutdated
from headway.model.ids import new_id
from headway.model.job import NewJob
from headway.store.ops import Op
from headway.store.postgres.engine.migrate import VERSION, migrate, plan

MIGRATIONS = files("headway.store.postgres") / "engine" / "migrations"


def record(store: Any, version: int) -> None:
    """Make its tables those of version 1, under another version."""
    store.run_script(Op(lambda: migrate(1), writes=True))
    store.side.execute(f"comment on table headway.jobs is 'headway schema version {version} functions 0123'")


def recorded(store: Any) -> str:
    ((text,),) = store.side.execute("select obj_description('headway.jobs'::regclass)").fetchall()
    return str(text)


def test_the_stored_fingerprint_is_that_of_a_new_database(postgres_store: Any) -> None:
    postgres_store.run_script(Op(lambda: migrate(1), writes=True))
    ((found,),) = postgres_store.side.execute((MIGRATIONS / "fingerprint.sql").read_text()).fetchall()
    assert (MIGRATIONS / "0001.fingerprint").read_text().strip() == found


def test_the_fingerprint_is_the_same_wherever_names_are_looked_up(postgres_store: Any) -> None:
    sql = (MIGRATIONS / "fingerprint.sql").read_text()
    ((plain,),) = postgres_store.side.execute(sql).fetchall()
    postgres_store.side.execute("set search_path = headway, public")
    ((within,),) = postgres_store.side.execute(sql).fetchall()
    postgres_store.side.execute("reset search_path")
    assert within == plain


@pytest.mark.parametrize("version", [2, 9])
def test_the_same_tables_are_adopted_with_their_jobs(postgres_store: Any, version: int) -> None:
    job = NewJob(id=new_id(), kind="k")
    postgres_store.run(postgres_store.ops.enqueue([job]))
    record(postgres_store, version)
    titles = [title for title, _ in postgres_store.run_script(Op(plan, writes=False))]
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
        "alter table headway.jobs add column other text",
        "alter table headway.audit drop column detail",
        "alter table headway.jobs alter column priority type integer",
        "alter table headway.jobs alter column kind drop not null",
        "alter table headway.jobs alter column priority set default 7",
        "alter table headway.fires drop constraint fires_status",
        "drop index headway.jobs_due",
        "drop trigger jobs_values on headway.jobs",
        "drop policy tenant_isolation on headway.events",
        "alter table headway.events disable row level security",
        "create or replace function headway.tenant() returns uuid language sql as 'select null::uuid'",
    ],
)
def test_other_tables_are_refused_and_left_as_they_are(postgres_store: Any, change: str) -> None:
    record(postgres_store, 7)
    postgres_store.side.execute(change)
    before = recorded(postgres_store)
    for steps in (migrate, plan):
        with pytest.raises(SchemaOutdated, match=r"version 7 of an unreleased Headway.*migrate --to 0.*Nothing"):
            postgres_store.run_script(Op(steps, writes=True))
    assert recorded(postgres_store) == before


def test_a_store_says_how_an_unreleased_version_is_adopted(postgres_store: Any) -> None:
    record(postgres_store, 9)
    with pytest.raises(SchemaOutdated, match=r"has schema version 9 of an unreleased Headway: run headway .*migrate"):
        postgres_store.run(postgres_store.ops.now())
