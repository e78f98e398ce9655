"""What only the SQLite store promises: its file, its locks, its group commit, its forks and its migrations."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from headway.errors import ConfigError, Duplicate, SchemaOutdated, StoreError, StoreUnavailable
from headway.model.fleet import NewWorker
from headway.model.ids import new_id
from headway.model.job import Filter, NewJob
from headway.model.retry import succeeded
from headway.model.status import MOVES
from headway.store.ops import Op
from headway.store.run import drive
from headway.store.sqlite import SqliteStore
from headway.store.sqlite.engine import migrate
from headway.store.sqlite.engine.connection import connect
from headway.store.sqlite.engine.migrate import read_version
from headway.store.sqlite.engine.statements import ROOT

LIBRARIES = ("apsw", "stdlib")

WORKER = """
import sys
from headway.model.ids import new_id
from headway.model.job import NewJob
from headway.store.sqlite import SqliteStore

store = SqliteStore(sys.argv[1], library=sys.argv[2])
ops = store.ops
"""


@pytest.fixture(params=LIBRARIES)
def library(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "headway.db"


@pytest.fixture
def store(path: Path, library: Any) -> Iterator[SqliteStore]:
    store = SqliteStore(str(path), library=library)
    yield store
    store.close()


def job(**values: Any) -> NewJob:
    return NewJob(**{"id": new_id(), "kind": "k", **values})


def worker(worker_id: str | None = None) -> NewWorker:
    return NewWorker(
        id=worker_id or new_id(), hostname="h", pid=1, machine=None, process_started=None, version="1",
        queues={"default": 10}, kinds=("k",), concurrency=10, lease_ms=60_000,
    )  # fmt: skip


def enqueue(store: SqliteStore, count: int = 1) -> list[str]:
    return [found.id for found in store.run(store.ops.enqueue([job() for _ in range(count)]))]


def count(store: SqliteStore) -> int:
    return sum(store.run(store.ops.counts(tenant_id=None)).values())


def process(code: str, *args: object, **options: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WORKER + code, *map(str, args)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options,
    )  # fmt: skip


def wait(*processes: subprocess.Popen[str]) -> list[str]:
    said = []
    for one in processes:
        out, err = one.communicate(timeout=120)
        assert one.returncode == 0, err
        said.append(out)
    return said


FORKS = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


def in_child(work: Callable[[], None]) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except BaseException as error:
            print(f"in the child: {error!r}", file=sys.stderr)
            os._exit(1)
        os._exit(0)
    return pid


def join(pid: int) -> None:
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


class Locked:
    """Another process that holds the file's write lock until it is let go."""

    def __init__(self, path: Path, library: str) -> None:
        self._process = process(
            "from headway.store.sqlite.engine.connection import connect\n"
            "conn = connect(sys.argv[1], sys.argv[2])\n"
            "conn.execute('begin immediate')\n"
            "print('locked', flush=True)\n"
            "sys.stdin.readline()\n"
            "conn.execute('rollback')\n",
            path, library, stdin=subprocess.PIPE,
        )  # fmt: skip
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "locked\n"

    def __enter__(self) -> Locked:
        return self

    def let_go(self) -> None:
        self._process.communicate("\n", timeout=60)

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()


# the file


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


# contention


@FORKS
def test_processes_that_make_one_file_at_once_all_succeed(path, library):
    go = os.pipe()

    def work() -> None:
        store = SqliteStore(str(path), library=library)
        os.close(go[1])
        os.read(go[0], 1)
        enqueue(store)

    children = [in_child(work) for _ in range(8)]
    os.close(go[1])
    for child in children:
        join(child)
    store = SqliteStore(str(path), library=library)
    assert count(store) == 8
    store.close()


@FORKS
def test_processes_share_a_file_without_a_locked_error_and_without_a_job_run_twice(path, library, tmp_path):
    def work() -> None:
        store = SqliteStore(str(path), library=library)
        me = worker()
        store.run(store.ops.register(me))
        with open(tmp_path / f"ran-{me.id}", "w") as ran:
            for _ in range(40):
                enqueue(store, 2)
                claims = store.run(store.ops.claim(me.id, "default", 5))
                settlements = [succeeded(claim, None) for claim in claims]
                assert store.run(store.ops.settle(me.id, settlements)).lost == []
                ran.writelines(f"{claim.id} {claim.fence}\n" for claim in claims)
        store.close()

    for child in [in_child(work) for _ in range(8)]:
        join(child)
    ran = [line for file in tmp_path.glob("ran-*") for line in file.read_text().splitlines()]
    assert len(ran) == len(set(ran)) > 0
    assert {line.split()[1] for line in ran} == {"1"}
    store = SqliteStore(str(path), library=library)
    counts = store.run(store.ops.counts(tenant_id=None))
    store.close()
    assert sum(counts.values()) == 8 * 80
    assert counts["succeeded"] == len(ran)


def test_a_writer_waits_for_another_process(store, path, library):
    enqueue(store)
    with Locked(path, library) as other:
        done: list[str] = []
        waiting = threading.Thread(target=lambda: done.extend(enqueue(store)))
        waiting.start()
        waiting.join(0.3)
        assert done == []
        other.let_go()
        waiting.join(10)
    assert len(done) == 1


def test_a_file_that_stays_locked_is_unavailable_and_says_why(path, library):
    with closing(SqliteStore(str(path), library=library, timeout_s=0.2)) as store:
        enqueue(store)
        with Locked(path, library), pytest.raises(StoreUnavailable, match="holds a write transaction open"):
            enqueue(store)
        assert len(enqueue(store)) == 1
        assert count(store) == 2


def test_reads_and_empty_polls_do_not_wait_for_a_writer(store, path, library):
    enqueue(store, 3)
    me = worker()
    store.run(store.ops.register(me))
    with Locked(path, library):
        began = time.monotonic()
        assert count(store) == 3
        assert len(store.run(store.ops.find(Filter(), limit=10, before_id=None))) == 3
        assert store.run(store.ops.claim(me.id, "empty", 10)) == []
        assert store.run(store.ops.promote(limit=10)).queued == 0
        assert store.run(store.ops.reap([], limit=10)) == []
        assert store.run(store.ops.prune("dead", older_than_ms=0, limit=10)) == 0
        assert store.run(store.ops.report(me.id, [])) == []
        assert time.monotonic() - began < 5


def test_an_event_loop_goes_on_while_a_write_waits(store, path, library):
    enqueue(store)

    async def main() -> None:
        with Locked(path, library) as other:
            write = asyncio.ensure_future(store.arun(store.ops.enqueue([job()])))
            for _ in range(20):
                await asyncio.sleep(0.01)
            assert not write.done()
            assert sum((await store.arun(store.ops.counts(tenant_id=None))).values()) == 1
            await asyncio.to_thread(other.let_go)
            assert (await write)[0].created

    asyncio.run(main())
    assert count(store) == 2


# group commit


class Commits:
    """Counts the commits of a store's writer."""

    def __init__(self, store: SqliteStore) -> None:
        enqueue(store)
        writer = store._live.writer
        self._conn, writer._conn = writer._conn, self
        self.count = 0
        self.before: Callable[[], None] = lambda: None

    def execute(self, sql: str, params: Any = ()) -> Any:
        if sql == "commit":
            self.before()
            self.count += 1
        return self._conn.execute(sql, params)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._conn, name)


def test_waiting_ops_share_one_commit_and_one_that_fails_fails_alone(store):
    commits = Commits(store)
    store.run(store.ops.enqueue([job(unique_key="taken")]))
    before = commits.count
    batches = [[job()], [job(), job(unique_key="taken", on_conflict="raise")], [job(), job()], [job(id=None)]]
    batches += [[job()] for _ in range(20)]

    async def main() -> list[Any]:
        writer = store._live.writer
        assert writer.hold(1)
        waiting = [asyncio.ensure_future(store.arun(store.ops.enqueue(batch))) for batch in batches]
        await asyncio.sleep(0.05)
        assert not any(one.done() for one in waiting)
        writer.let_go()
        return await asyncio.gather(*waiting, return_exceptions=True)

    answers = asyncio.run(main())
    assert commits.count - before <= 2
    assert isinstance(answers[1], Duplicate)
    assert isinstance(answers[3], StoreError)
    assert [len(answer) for answer in answers[4:]] == [1] * 20
    assert count(store) == 2 + 1 + 2 + 20


def test_nothing_is_answered_before_its_commit(store):
    commits = Commits(store)
    done = threading.Event()
    early: list[bool] = []
    commits.before = lambda: early.append(done.wait(0.2))
    assert store._live.writer.hold(1)
    thread = threading.Thread(target=lambda: (enqueue(store), done.set()))
    thread.start()
    time.sleep(0.05)
    store._live.writer.let_go()
    thread.join(10)
    assert done.is_set()
    assert early == [False]


def test_threads_that_write_at_once_are_all_answered(store):
    commits = Commits(store)
    ids: list[str] = []

    def write() -> None:
        for _ in range(50):
            ids.extend(enqueue(store))

    threads = [threading.Thread(target=write) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(set(ids)) == 400
    assert count(store) == 401
    assert commits.count < 400


def test_an_op_that_nobody_awaits_any_more_harms_nobody(store):
    enqueue(store)

    async def main() -> None:
        writer = store._live.writer
        assert writer.hold(1)
        first = asyncio.ensure_future(store.arun(store.ops.enqueue([job()])))
        await asyncio.sleep(0.05)  # the writer has taken this one: the next two are a group
        gone = asyncio.ensure_future(store.arun(store.ops.enqueue([job()])))
        kept = asyncio.ensure_future(store.arun(store.ops.enqueue([job()])))
        await asyncio.sleep(0.05)
        gone.cancel()
        writer.let_go()
        assert (await asyncio.wait_for(kept, 10))[0].created
        await first

    asyncio.run(main())
    enqueue(store)
    assert count(store) == 4  # it had not begun, and was not done


def test_what_was_acknowledged_survives_a_kill(path, library):
    code = """
while True:
    print(store.run(ops.enqueue([NewJob(id=new_id(), kind="k")]))[0].id, flush=True)
"""
    victim = process(code, path, library)
    assert victim.stdout is not None
    ids = [victim.stdout.readline().strip() for _ in range(50)]
    victim.send_signal(signal.SIGKILL)
    ids += [line.strip() for line in victim.communicate()[0].splitlines() if line.endswith("\n")]
    store = SqliteStore(str(path), library=library)
    assert {found.id for found in store.run(store.ops.get(ids, tenant_id=None))} == set(ids)
    store.close()


def test_a_full_disk_fails_what_does_not_fit_and_passes(path, library):
    code = """
import asyncio, resource, signal
from headway.errors import StoreUnavailable
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
store.run(ops.enqueue([NewJob(id=new_id(), kind="k")]))
resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, resource.RLIM_INFINITY))
big = [NewJob(id=new_id(), kind="k", payload='"' + "x" * 100_000 + '"') for _ in range(20)]
try:
    store.run(ops.enqueue(big))
except StoreUnavailable as error:
    print(error)
else:
    raise SystemExit("it fitted")
assert sum(store.run(ops.counts(tenant_id=None)).values()) == 1

async def group():
    writer = store._live.writer
    assert writer.hold(1)
    small = [[NewJob(id=new_id(), kind="k")] for _ in range(3)]
    waiting = [asyncio.ensure_future(store.arun(ops.enqueue(jobs))) for jobs in (*small, big, small[0])]
    await asyncio.sleep(0.05)
    writer.let_go()
    return await asyncio.gather(*waiting, return_exceptions=True)

answers = asyncio.run(group())
assert isinstance(answers.pop(3), StoreUnavailable), answers
assert [answer[0].created for answer in answers] == [True, True, True, False], answers
assert sum(store.run(ops.counts(tenant_id=None)).values()) == 4
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
assert all(found.created for found in store.run(ops.enqueue(big)))
"""
    (said,) = wait(process(code, path, library))
    assert "Nothing was written" in said
    store = SqliteStore(str(path), library=library)
    assert count(store) == 24
    store.close()


# forks


@FORKS
def test_a_store_goes_on_in_parent_and_child_after_a_fork(store):
    enqueue(store)
    assert count(store) == 1
    child = in_child(lambda: [enqueue(store) for _ in range(20)] and None)
    for _ in range(20):
        enqueue(store)
    join(child)
    assert count(store) == 41


@FORKS
def test_a_child_keeps_what_it_wrote_when_its_parent_closes_first(store, path, library):
    enqueue(store)
    closed = os.pipe()

    def work() -> None:
        enqueue(store, 5)
        os.read(closed[0], 1)
        enqueue(store, 5)

    child = in_child(work)
    while count(store) < 6:
        time.sleep(0.01)
    store.close()
    os.write(closed[1], b"!")
    join(child)
    assert count(store) == 11
    assert connect(str(path), library).execute("pragma integrity_check") == [("ok",)]


@FORKS
def test_a_fork_beside_a_busy_writer_leaves_the_child_a_store_that_works(store):
    enqueue(store)
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            enqueue(store)
            count(store)

    threads = [threading.Thread(target=write) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(10):
            join(in_child(lambda: enqueue(store) and None))
    finally:
        stop.set()
        for thread in threads:
            thread.join(60)
    assert connect(store.describe(), store._library).execute("pragma integrity_check") == [("ok",)]


# the schema


def test_the_moves_of_the_trigger_are_those_of_the_model():
    text = (ROOT / "engine/migrations" / "0001.up.sql").read_text()
    assert {(a, b) for a, b in re.findall(r";(\w+)>(\w+);", text)} == MOVES


def test_a_move_that_does_not_exist_is_refused(store, path, library):
    (job_id,) = enqueue(store)
    conn = connect(str(path), library)
    with pytest.raises(Exception, match="a job cannot make this move"):
        conn.execute("update jobs set status = 'succeeded', finished_at = 1 where id = ?1", (job_id,))
    conn.close()
    assert store.run(store.ops.results([job_id], tenant_id=None))[job_id].status == "queued"


def test_an_older_schema_is_refused_with_the_command_that_fixes_it(store, path, library, monkeypatch):
    enqueue(store)
    store.close()
    monkeypatch.setattr(migrate, "VERSION", migrate.VERSION + 1)  # as if this library were the next one
    with pytest.raises(SchemaOutdated, match=re.escape(f"headway --url sqlite:///{path} migrate")):
        enqueue(store)
    assert store.run(store.ops.version()) == migrate.VERSION - 1


def test_a_newer_schema_is_refused(store, path, library):
    enqueue(store)
    store.close()
    conn = connect(str(path), library)
    conn.execute("insert into schema_version (version) values (7)")
    conn.close()
    with pytest.raises(SchemaOutdated, match="upgrade it here"):
        enqueue(store)
    with pytest.raises(SchemaOutdated, match="upgrade it here"):
        store.migrate()


def test_the_version_is_read_without_making_the_file(store, path):
    assert store.run(store.ops.version()) == 0
    assert not path.exists()
    enqueue(store)
    assert store.run(store.ops.version()) == migrate.VERSION
    assert asyncio.run(store.arun(store.ops.version())) == migrate.VERSION


def test_migrations_go_up_and_down_and_leave_nothing_behind(store, path, library):
    assert store.migrate() == [f"migrate up to version {n}" for n in range(1, migrate.VERSION + 1)]
    assert store.migrate() == []
    enqueue(store)
    store.close()
    assert store.migrate(0) == [f"migrate down from version {n}" for n in range(migrate.VERSION, 0, -1)]
    conn = connect(str(path), library)
    assert conn.execute("select name from sqlite_master where name not like 'sqlite_%'") == []
    conn.close()
    with pytest.raises(ConfigError, match="no schema version 99"):
        store.migrate(99)
    enqueue(store)
    assert count(store) == 1


def test_a_migration_s_script_makes_the_schema_that_the_migration_makes(store, path, tmp_path, library):
    store.migrate()
    by_script = connect(str(tmp_path / "script.db"), library)
    for step in migrate.plan(0):
        for sql in migrate.split(step.script()):
            by_script.execute(sql)
    by_store = connect(str(path), library)
    schema = "select type, name, sql from sqlite_master order by type, name"
    assert by_script.execute(schema) == by_store.execute(schema)
    assert drive(read_version(), by_script.run) == migrate.VERSION
    by_script.close()
    by_store.close()


def test_a_failed_migration_leaves_the_file_as_it_was(store, path, library, monkeypatch):
    broken = migrate.Migration.statements

    def statements(self: Any) -> Any:
        yield from broken(self)
        yield migrate.Statement("insert into nowhere values (1)")

    monkeypatch.setattr(migrate.Migration, "statements", statements)
    with pytest.raises(StoreError, match="was undone"):
        store.migrate()
    monkeypatch.undo()
    assert store.run(store.ops.version()) == 0
    enqueue(store)


def test_a_callers_transaction_makes_the_schema_along_with_its_first_job(store, path, library):
    import sqlite3

    import apsw

    conn = apsw.Connection(str(path)) if library == "apsw" else sqlite3.connect(path, isolation_level=None)
    conn.execute("begin immediate")
    assert store.run_in(conn, store.ops.enqueue([job()]))[0].created
    conn.execute("rollback")
    conn.execute("begin immediate")
    assert store.run_in(conn, store.ops.enqueue([job()]))[0].created
    conn.execute("commit")
    conn.close()
    assert count(store) == 1


# a file that somebody deletes or replaces while it is in use


def _delete(path):
    for suffix in ("", "-wal", "-shm"):
        os.unlink(f"{path}{suffix}")


def test_a_file_that_is_deleted_is_said_to_be(store, path, caplog):
    enqueue(store, 3)
    _delete(path)
    enqueue(store)
    assert count(store) == 1
    (line,) = [record for record in caplog.records if "was deleted while it was in use" in record.getMessage()]
    assert line.levelname == "WARNING"


def test_a_replaced_file_never_gets_the_log_of_the_old_one(store, path, library, tmp_path, caplog):
    old = enqueue(store, 3)
    other = SqliteStore(str(tmp_path / "other.db"), library=library)
    new = set(enqueue(other, 40))
    other.close()
    os.replace(tmp_path / "other.db", path)
    assert {found.id for found in store.run(store.ops.get([*old, *new], tenant_id=None))} == new
    enqueue(store)
    assert count(store) == 41
    assert "was replaced while it was in use" in caplog.text
    (log,) = tmp_path.glob("*-wal.replaced-*")
    assert log.stat().st_size > 0
    with closing(connect(str(path), library)) as conn:
        assert conn.execute("pragma integrity_check") == [("ok",)]


def test_what_is_written_while_the_file_is_replaced_is_in_the_new_one(store, path):
    enqueue(store, 3)
    new = job()
    inner = store.ops.enqueue([new])
    runs = []

    def steps():
        runs.append(1)
        answer = yield from inner.steps()
        if len(runs) == 1:
            _delete(path)
        return answer

    assert store.run(Op(steps, writes=True))[0].id == new.id
    assert len(runs) == 2
    assert count(store) == 1


def test_a_file_that_was_closed_may_be_replaced_in_silence(store, path, caplog):
    enqueue(store, 3)
    store.close()
    os.unlink(path)
    enqueue(store)
    assert count(store) == 1
    assert "in use" not in caplog.text
