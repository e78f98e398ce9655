"""An app does nothing until it is used, finds its database by itself, and survives a fork."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from headway import Headway
from headway.errors import ConfigError, HeadwayError

MAKES_AN_APP = """
import sys
from headway import Context, Headway, Registry
import headway.store.sqlite.store, headway.store.postgres.store

seen = []
sys.addaudithook(lambda event, args: seen.append((event, args)) if event.split(".")[0] in
    ("open", "os", "socket", "sqlite3", "subprocess", "shutil", "glob", "tempfile", "_thread") else None)
for url in (None, "sqlite:///x.db", "sqlite+stdlib:///x.db", "postgresql://nobody@nowhere.invalid/x"):
    app = Headway(url, tenant="acme", lease="30s", concurrency=5, retention={"succeeded": "1d"})
    shop = Registry()

    @shop.job(queue="mail", max_attempts=3, timeout="30s", schema={"type": "object"})
    async def welcome(user_id: int, ctx: Context) -> str: ...

    app.include(shop)
    app.on("job.dead", print)
    app.on_startup(print)
    app.middleware(print)
    welcome.using(priority=1, delay="5m", unique_key="w7")
print(seen)
"""


def test_making_an_app_and_its_kinds_touches_nothing(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    done = subprocess.run(
        [sys.executable, "-c", MAKES_AN_APP], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
    assert list(tmp_path.iterdir()) == []


FORKS = """
import os, sys, threading, traceback
from headway import Headway

app = Headway(sys.argv[1])

@app.job
def work(number: int) -> int:
    return number

first = work.enqueue(0)                                       # the connections are open,
threading.Thread(target=app.result, args=(first.id, 60), daemon=True).start()    # and somebody waits
children, codes = [], []
for number in range(1, 5):
    if number == 4:                                           # which runs a worker: the others look first
        codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
        children = []
    pid = os.fork()
    if not pid:
        code = 1
        try:
            job = work.enqueue(number)
            assert app.get(job.id).status == "queued"
            assert app.result(job.id, timeout="50ms").status == "queued"
            if number == 4:
                app.run(until_idle=True)
                assert app.result(job.id, timeout=120).value == 4
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    children.append(pid)
    work.enqueue(number * 10)                                 # the parent goes on meanwhile
codes += [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
assert codes == [0] * 4, codes
app.run(until_idle=True)
assert sorted(job.result for job in app.jobs()) == [0, 1, 2, 3, 4, 10, 20, 30, 40]
assert app.result(first.id, timeout=120).value == 0
app.close()
print("done")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_an_app_in_use_survives_a_fork(url: str) -> None:
    done = subprocess.run([sys.executable, "-c", FORKS, url], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "done", done.stderr


def test_the_url_comes_from_the_call_the_environment_the_file_or_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("HEADWAY_")]:
        monkeypatch.delenv(name)
    app = Headway()
    assert app.store.describe() == str(tmp_path / "headway.db")
    app.enqueue("work")
    app.close()
    assert (tmp_path / "headway.db").exists()
    (tmp_path / "headway.toml").write_text('url = "sqlite:///file.db"\nlease = "90s"\ntenant = "acme"\n')
    assert Headway().store.describe() == str(tmp_path / "file.db")
    assert Headway().settings.lease_ms == 90_000
    assert Headway(lease="30s").settings.lease_ms == 30_000
    monkeypatch.setenv("HEADWAY_URL", "sqlite:///environment.db")
    monkeypatch.setenv("HEADWAY_LEASE", "45s")
    assert Headway().store.describe() == str(tmp_path / "environment.db")
    assert Headway().settings.lease_ms == 45_000
    assert Headway("sqlite:///given.db").store.describe() == str(tmp_path / "given.db")
    app = Headway()
    assert app.get(app.enqueue("work").id).tenant == "acme"
    app.close()


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("mysql://localhost/x", "mysql:// is not a database that Headway knows: use sqlite:///file.db"),
        ("headway.db", "'headway.db' is not a database URL: use sqlite:///file.db"),
        ("sqlite://file.db", "three slashes"),
        ("sqlite:///", "names no file"),
        ("sqlite:///:memory:", "names no file"),
        ("sqlite:///x.db?mode=ro", "has parameters .* there is ?prefix=headway_"),
        ("sqlite:///x.db?prefix=a-b", "cannot begin the name of a table"),
        ("postgresql+asyncpg://localhost/x", "write postgresql:// here"),
        (7, "a database URL is a string, not int"),
    ],
)
def test_a_url_that_cannot_be_is_answered_with_one_that_can(url: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message.replace("?", r"\?")):
        Headway(url).counts()


@pytest.mark.parametrize("url", ["mysql://localhost/x", "headway.db", "postgresql+asyncpg://localhost/x", 7])
def test_a_url_of_no_known_database_is_refused_at_once(url: str) -> None:
    with pytest.raises(ConfigError):
        Headway(url)
    with pytest.raises(ConfigError):
        Headway().configure(url)


def test_a_database_that_is_not_there_is_named(tmp_path: Path) -> None:
    for url, message in [
        (f"sqlite:///{tmp_path}/nowhere/x.db", "mkdir -p"),
        (f"sqlite:///{tmp_path}", "is not a file"),
        ("postgresql://nobody:pa55word@127.0.0.1:1/x", "cannot be used right now"),
    ]:
        for act in (lambda app: app.enqueue("work"), lambda app: app.run(until_idle=True)):
            with pytest.raises(HeadwayError, match=message) as caught:
                act(Headway(url))
            assert "pa55word" not in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lease": "soon"}, "lease='soon' is not a duration"),
        ({"lease": 0}, "lease=0 must be longer than nothing"),
        ({"lease": "10s", "heartbeat": "9s"}, "too slow for a lease"),
        ({"concurrency": 0}, "concurrency=0 must be a whole number from 1"),
        ({"payload_limit": -1}, "payload_limit=-1 must be a whole number from 1"),
        ({"retention": {"queued": "1d"}}, "must map succeeded, canceled"),
    ],
)
def test_a_setting_that_cannot_be_is_refused_at_once(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Headway("sqlite:///x.db", **settings)  # type: ignore[arg-type]


def test_a_closed_app_opens_again(app: Headway) -> None:
    job = app.enqueue("work")
    app.close()
    app.close()
    assert app.get(job.id).kind == "work"


def test_an_enqueue_that_is_refused_makes_no_file(tmp_path: Path) -> None:
    file = tmp_path / "new.db"
    app = Headway(f"sqlite:///{file}")

    @app.job
    def work(x: int) -> None: ...

    async def unknown() -> None:
        await app.aenqueue("unknown")

    for refused in (
        lambda: app.enqueue("unknown"),
        lambda: work.enqueue("no number"),  # type: ignore[arg-type]
        lambda: asyncio.run(unknown()),
    ):
        with pytest.raises(HeadwayError):
            refused()
    assert not list(tmp_path.iterdir())
    assert work.enqueue(1).created
    assert file.exists()
    app.close()
