"""The file: where it may be, who may read it, what is synced, and what is not taken for a database of ours."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from headway.errors import StoreError
from headway.model.retry import succeeded
from headway.store.sqlite import SqliteStore
from headway.store.sqlite.engine.connection import connect
from tests.store.engine.sqlite.sqlite_processes import count, enqueue, job, worker


def test_the_constructor_touches_nothing(tmp_path, library):
    store = SqliteStore(str(tmp_path / "missing" / "headway.db"), library=library)
    assert store.describe() == str(tmp_path / "missing" / "headway.db")
    assert os.listdir(tmp_path) == []


def test_a_relative_path_stays_where_it_was_given(tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    store = SqliteStore("headway.db")
    monkeypatch.chdir(tmp_path / "elsewhere")
    enqueue(store)
    store.close()
    assert (tmp_path / "headway.db").exists()


def test_a_missing_directory_is_named_and_not_made(tmp_path, library):
    store = SqliteStore(str(tmp_path / "missing" / "headway.db"), library=library)
    with pytest.raises(StoreError, match=re.escape(f"mkdir -p {tmp_path}/missing")):
        enqueue(store)
    assert os.listdir(tmp_path) == []


def test_a_directory_and_memory_are_no_place_for_jobs(tmp_path, library):
    with pytest.raises(StoreError, match="is not a file"):
        enqueue(SqliteStore(str(tmp_path), library=library))
    with pytest.raises(StoreError, match="in memory"):
        enqueue(SqliteStore(":memory:", library=library))


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def _modes(path: Path) -> dict[str, int]:
    return {file.name.removeprefix(path.name): stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}


@pytest.mark.usefixtures("open_umask")
def test_a_new_file_is_its_owners_alone(store: SqliteStore, path: Path) -> None:
    enqueue(store)
    assert _modes(path) == {"": 0o600, "-wal": 0o600, "-shm": 0o600}


@pytest.mark.usefixtures("open_umask")
def test_a_file_that_exists_keeps_its_mode(store: SqliteStore, path: Path) -> None:
    path.touch(0o640)
    enqueue(store)
    assert _modes(path) == {"": 0o640, "-wal": 0o640, "-shm": 0o640}


def test_a_file_may_have_any_name(tmp_path: Path, library: Any) -> None:
    path = tmp_path / "a ?b#c%41&mode=ro é.db"
    with closing(SqliteStore(str(path), library=library)) as store:
        enqueue(store)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_what_is_not_a_database_is_left_as_it_is(store, path):
    path.write_bytes(b"my diary\n" * 100)
    with pytest.raises(StoreError, match="not a SQLite database"):
        enqueue(store)
    assert path.read_bytes() == b"my diary\n" * 100


def test_tables_of_others_are_not_taken_for_ours(store, path, library):
    conn = connect(str(path), library)
    conn.execute("create table jobs (mine text)")
    conn.close()
    with pytest.raises(StoreError, match=r"did not make \(jobs\)"):
        enqueue(store)


def test_commits_are_synced_and_logged_ahead(store):
    enqueue(store)
    conn = store._live.writer._conn
    assert conn.execute("pragma journal_mode") == [("wal",)]
    assert conn.execute("pragma synchronous") == [(2,)]


def test_a_statement_is_compiled_once(store):
    """SQLite would plan by the value of a bound limit, and compile anew for each run."""
    me = worker()
    store.run(store.ops.register(me))
    compiled: list[object] = []

    def work() -> None:
        enqueue(store)
        enqueue(store, 40)
        for claim in store.run(store.ops.claim(me.id, "default", 50)):
            store.run(store.ops.settle(me.id, [succeeded(claim, None)]))

    work()
    store._live.writer._conn._conn.set_authorizer(lambda *said: compiled.append(said) or 0)
    work()  # an authorizer has everything compiled once more
    assert compiled
    compiled.clear()
    work()
    assert not compiled


@pytest.mark.parametrize("many", [1, 16, 53])
@pytest.mark.parametrize("tied", [{}, {"partition": "p"}, {"train": "t"}], ids=["plain", "tied", "train"])
def test_a_batch_of_any_size_goes_in_whole_in_its_order_and_meets_what_is_there(store, many, tied):
    (known,) = store.run(store.ops.enqueue([job(unique_key="7")]))
    batch = [job(payload=f'{{"n":{n}}}', unique_key=str(n), priority=n, **tied) for n in range(many)]
    found = store.run(store.ops.enqueue(batch))
    expected = [known.id if n == 7 else one.id for n, one in enumerate(batch)]
    assert [one.id for one in found] == expected
    assert [one.created for one in found] == [one_id != known.id for one_id in expected]
    stored = [store.run(store.ops.get([one.id], tenant_id=None))[0] for one in found if one.created]
    assert [(one.payload, one.priority) for one in stored] == [({"n": n}, n) for n in range(many) if n != 7]
    positions = [one.position for one in stored]
    assert positions == sorted(set(positions))
    assert count(store) == 1 + many - (many > 7)


def test_a_file_that_is_replaced_is_not_written_to_any_more(store, path):
    enqueue(store, 3)
    assert count(store) == 3
    for suffix in ("", "-wal", "-shm"):
        os.unlink(f"{path}{suffix}")
    assert count(store) == 0
    enqueue(store)
    assert path.exists()
    assert count(store) == 1


def test_a_closed_store_leaves_one_file_and_opens_again(store, path):
    enqueue(store)
    count(store)
    store.close()
    assert [file.name for file in path.parent.iterdir()] == ["headway.db"]  # the log was written back and removed
    enqueue(store)
    assert count(store) == 2


def test_one_process_uses_one_library_for_a_file(path):
    store = SqliteStore(str(path), library="apsw")
    enqueue(store)
    other = SqliteStore(str(path), library="stdlib")
    with pytest.raises(StoreError, match="two SQLite libraries on one file"):
        count(other)
    with pytest.raises(StoreError, match="two SQLite libraries on one file"):
        enqueue(other)
    store.close()
    assert count(other) == 1
    other.close()
