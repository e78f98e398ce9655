"""`headway serve` as a process: it says where it listens, answers, and ends in good order."""

from __future__ import annotations

import json
import signal
import socket
import sqlite3
import sys
import urllib.parse
import urllib.request
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest

from headway import Headway
from tests.crash.processes import until


def ask(url: str, key: str, **headers: str) -> tuple[int, Any]:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {key}", **headers})
    with urllib.request.urlopen(request, timeout=180) as answer:
        return answer.status, json.load(answer)


def test_it_serves_until_it_is_told_to_stop(cli: Any, start: Any, app: Headway, url: str) -> None:
    key = cli("--url", url, "keys", "create", "root", "--role", "superadmin").stdout.strip()
    server = start("--url", url, "--log-format", "json", "serve", "--port", "0", "--metrics", "0")
    lines = (json.loads(line) for line in server.stderr)
    metrics = next(line["url"] for line in lines if line["event"] == "serving metrics")
    assert b"headway_up 1.0" in urllib.request.urlopen(metrics, timeout=180).read()
    where = next(line["url"] for line in lines if line["event"] == "serving")
    assert ask(f"{where}/api/v1/queues", key, **{"X-Forwarded-For": "203.0.113.9"})[1]["items"] == []
    logged = next(line for line in lines if line["event"] == "request")
    assert (logged["status"], logged["path"], logged["key_id"]) == (200, "/api/v1/queues", key.split("_")[2])
    assert logged["address"] == "127.0.0.1", "X-Forwarded-For is believed only from a trusted proxy"
    server.send_signal(signal.SIGTERM)
    assert server.wait(180) == 0
    assert app.api_keys()[0].last_used_at is not None


def test_several_processes_behind_a_proxy_finish_what_is_under_way(
    cli: Any, start: Any, app: Headway, url: str, monkeypatch: Any
) -> None:
    monkeypatch.setenv("HEADWAY_SERVER_TRUSTED_PROXIES", "127.0.0.0/8")
    key = cli("--url", url, "keys", "create", "root", "--role", "superadmin").stdout.strip()
    options = ("--port", "0", "--workers=2", "--prefix", "/work", "--root-path", "/proxied")
    server = start("--url", url, "--log-format", "json", "serve", *options)
    lines = (json.loads(line) for line in server.stderr)
    where = next(line["url"] for line in lines if line["event"] == "serving")
    assert where.endswith("/work")
    processes = {each["pid"] for each in islice((line for line in lines if line["event"] == "ready"), 2)}
    assert len(processes) == 2
    port = urllib.parse.urlsplit(where).port
    with ExitStack() as stack:
        for _ in range(20):
            conn = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=180))
            conn.sendall(b"GET /work/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert conn.recv(1_000).startswith(b"HTTP/1.1 200")
        assert {_connections(each, port) >= 6 for each in processes} == {True}, "each has its share of those that stay"
    document = ask(f"{where}/api/v1/openapi.json", key, **{"X-Forwarded-For": "203.0.113.9"})[1]
    assert document["servers"] == [{"url": "/proxied/work"}]
    logged = next(line for line in lines if line["event"] == "request" and "openapi" in line["path"])
    assert logged["address"] == "203.0.113.9"
    with socket.create_connection(("127.0.0.1", port), timeout=180) as conn:
        body = b'{"name": "late", "role": "superadmin"}'
        head = f"POST /work/api/v1/keys HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n"
        conn.sendall(f"{head}Content-Length: {len(body)}\r\nExpect: 100-continue\r\n\r\n".encode())
        assert b"100 Continue" in conn.recv(1_000), "the request is under way"
        server.send_signal(signal.SIGTERM)
        conn.sendall(body)
        assert conn.recv(1_000).startswith(b"HTTP/1.1 201")
    assert server.wait(180) == 0
    assert [each.name for each in app.api_keys()] == ["root", "late"]


@pytest.mark.parametrize("ticks", [True, False])
def test_schedules_fire_and_delayed_jobs_are_queued_where_no_worker_runs(
    cli: Any, start: Any, app: Headway, url: str, ticks: bool
) -> None:
    cli("--url", url, "keys", "create", "root", "--role", "superadmin")
    app.change_definition("report", queue="default")  # nobody's code is here
    app.create_schedule("often", every="1s", kind="report")
    job = app.enqueue("report", delay="200ms")
    server = start("--url", url, "--log-format", "json", "serve", "--port", "0", *([] if ticks else ["--no-tick"]))
    lines = (json.loads(line) for line in server.stderr)
    next(line for line in lines if line["event"] == "serving")
    if ticks:
        until(lambda: app.get(job.id).status == "queued", "the delayed job is due")
        until(lambda: len(app.jobs(kind="report")) > 1, "the schedule has fired")
    else:
        next(line for line in lines if line["event"] == "ready")
    server.send_signal(signal.SIGTERM)
    assert server.wait(180) == 0
    assert (app.get(job.id).status, app.workers()) == ("queued" if ticks else "scheduled", [])


def _connections(pid: int, port: int) -> int:
    found = psutil.Process(pid).net_connections("tcp")
    return sum(each.status == psutil.CONN_ESTABLISHED and each.laddr[1] == port for each in found)


def test_what_it_refuses(cli: Any, app: Headway, url: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*options: str, code: int = 2) -> str:
        return str(cli.refused("--url", url, "serve", "--port", "0", *options, code=code))

    assert "there is no key yet" in refused("--host", "0.0.0.0")
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "httptools", None)
        assert "packages are not installed" in refused(), "nothing else has a deadline for the head of a request"
    assert "go together" in refused("--tls-key", "shopapp.py")
    assert "cannot be used" in refused("--tls-key", "shopapp.py", "--tls-cert", "shopapp.py")
    assert "not an address" in refused("--host", "no such host")
    assert "neither an address nor a network" in refused("--trusted-proxy", "proxy.example")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = cli("--url", url, "serve", "--port", str(port))
        assert said.exit_code == 2
        assert f"cannot listen on 127.0.0.1, port {port}: another program listens there" in said.stderr
        (folder / "headway.toml").write_text('[oidc]\nissuer = "https://login.example"\naudience = "headway"\n')
        let_in = cli("--url", url, "serve", "--host", "0.0.0.0", "--port", str(port)).stderr
        assert ("no key yet" in let_in, "cannot listen on 0.0.0.0" in let_in) == (False, True), (
            "an issuer lets people in"
        )
    assert "make one: headway" in said.stderr, "nobody can ask an empty database"
    app.create_api_key("root", "superadmin")
    (folder / "headway.toml").write_text('[oidc]\nissuer = "https://login.example"\n')
    unserved = cli("--url", url, "serve", "--port", "0")
    assert (unserved.exit_code, "needs audience" in unserved.stderr) == (2, True)
    assert '"serving"' not in unserved.stdout + unserved.stderr, "it does not say what it does not do"
    (folder / "headway.toml").unlink()
    if app.store.dialect == "sqlite":
        app.close()
        for version, says in ((99, "newer than this library's"), (7, "of an unreleased Headway")):
            with sqlite3.connect(url.removeprefix("sqlite:///")) as conn:
                conn.execute("delete from schema_version")
                conn.execute("insert into schema_version (version) values (?)", (version,))
            conn.close()
            assert says in refused(code=1)


def test_it_says_that_there_is_one_wall_and_refuses_an_old_schema(cli: Any, postgres_migrated_url: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ask = ("--url", postgres_migrated_url, "serve", "--port", str(taken.getsockname()[1]))
        assert "one wall between tenants" in cli(*ask).stderr
        cli.ok("--url", postgres_migrated_url, "migrate", "--roles")
        assert "wall" not in cli(*ask).stderr
    with psycopg.connect(postgres_migrated_url, autocommit=True) as conn:
        conn.execute("drop schema headway cascade")
    assert "has no Headway schema: run headway" in cli.refused(
        "--url", postgres_migrated_url, "serve", "--port", "0", code=1
    )


def test_it_uses_the_database_of_the_app_that_is_named(
    cli: Any, start: Any, app: Headway, url: str, tmp_path: Path
) -> None:
    (tmp_path / "shop.py").write_text(f"from headway import Headway\napp = Headway({url!r})\n")
    cli("--url", url, "keys", "create", "root", "--role", "superadmin")
    server = start("--app-dir", str(tmp_path), "--log-format", "json", "serve", "shop:app", "--port", "0")
    lines = map(json.loads, server.stderr)
    assert next(line["database"] for line in lines if line["event"] == "serving") == app.store.describe()
    assert next(line for line in lines if line["event"] == "ready")
    server.send_signal(signal.SIGTERM)
    assert server.wait(180) == 0


@pytest.mark.parametrize("command", [("dev", "shopapp:app"), ("demo", "--web"), ("serve",)])
def test_missing_packages_are_named_before_anything_is_done(
    cli: Any, folder: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    for name in ("starlette", "uvicorn"):
        monkeypatch.setitem(sys.modules, name, None)
    before = sorted(folder.iterdir())
    said = cli.refused(*command, code=2)
    assert "(starlette, uvicorn): pip install 'headway-engine[server]'" in said
    assert "filling" not in said
    assert sorted(folder.iterdir()) == before
