"""No callback of ours takes over 20 ms of the event loop's own CPU time, whatever a request asks: every route, with
the largest input that it allows (all of it with --full), on data as large as it may be."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx2 as httpx
import msgspec
import pytest

from headway import Headway
from headway.api import application
from headway.api.chapters import ROUTES
from headway.api.document.examples import EXAMPLES
from headway.worker import watchdog
from headway.worker.watchdog import Watchdog

Held = list[tuple[float, str, str]]
_TRIES = 3  # the clock of a thread on a busy machine counts some of what the neighbours do to its caches
_SMALL: dict[str, Any] = {"a": [{"b": n} for n in range(20)]}


@pytest.fixture
def held(monkeypatch: Any) -> Held:
    found: Held = []
    monkeypatch.setattr(watchdog, "TICK_S", 0.003)  # it must not miss one that comes when the loop was idle
    monkeypatch.setattr(
        application,
        "Watchdog",
        partial(Watchdog, on_held=lambda *said: found.append(said), sample_s=0.003),
    )
    return found


class Asker:
    """Asks the served API as a super admin of acme, and notes what held the loop meanwhile."""

    def __init__(self, url: str, key: str, held: Held, *, full: bool) -> None:
        self.full = full
        self.rows = [{"n": n} for n in range(70_000 if full else 15_000)]  # nearly a megabyte of small values
        self.many, self.dense = (1_000, 16) if full else (100, 2)  # what fits into 16 MiB; a part of it by default
        headers = {"Authorization": f"Bearer {key}", "Headway-Tenant": "acme"}
        self.client = httpx.Client(base_url=f"{url}/api/v1", headers=headers, timeout=120)
        self._held = held
        self.asked: set[tuple[str, str]] = set()
        self.faults: dict[str, str] = {}
        self.statuses: dict[str, int] = {}

    def __call__(self, method: str, route: str, body: Any = None, say: str = "", **parts: Any) -> Any:
        """Ask, again where something held the loop; `parts` are those of the path and, with `query`, the query."""
        query = parts.pop("query", {})
        path = route.format(**parts)
        self.asked.add((method, route))
        name = f"{method} {route} {say}".strip()
        for _ in range(_TRIES):
            self._held.clear()
            content = None if body is None else body() if callable(body) else body
            if content is not None and not isinstance(content, bytes):
                content = msgspec.json.encode(content)
            headers = {} if content is None else {"Content-Type": "application/json"}
            answer = self.client.request(method, path, params=query, content=content, headers=headers)
            time.sleep(0.02)  # the watchdog tells of a callback when it looks again
            worst = max((each for each in list(self._held) if each[1] == "engine"), default=None)
            self.statuses[name] = answer.status_code
            if worst is None:
                self.faults.pop(name, None)
                break
            self.faults[name] = f"{name} ({answer.status_code}): {worst[0] * 1_000:.0f} ms\n{worst[2]}"
        return answer

    def one(self, *asked: Any, **parts: Any) -> Any:
        answer = self(*asked, **parts)
        assert answer.is_success, (asked[:2], answer.text[:500])
        return msgspec.json.decode(answer.content)


@pytest.fixture
def ask(
    app: Headway,
    held: Held,
    served: str,
    keys: dict[str, str],
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: Any,
) -> Iterator[Asker]:
    monkeypatch.chdir(tmp_path)  # where artifacts go
    gc.collect()
    gc.freeze()  # as the server does
    asker = Asker(served, keys["superadmin"], held, full=request.config.option.full)
    yield asker
    asker.client.close()
    gc.unfreeze()


def jobs_of(count: int, payload: Any, **options: Any) -> dict[str, Any]:
    return {"jobs": [{"kind": "report", "payload": payload, **options}] * count}


def make_jobs(ask: Asker) -> str:
    """As large and as many as one request may make; gives the id of one that is a megabyte."""
    long = {"text": "x" * 15_000}
    for say, body in {
        "long": jobs_of(ask.many, long),
        "dense": jobs_of(ask.dense, {"rows": ask.rows}),
        "many": jobs_of(ask.many, _SMALL, tags=["a", "b"], train="t"),
    }.items():
        ask.one("POST", "/jobs/batch", body, say)
    ask("POST", "/jobs/batch", jobs_of(ask.many, long, huh=1, hm=2), "unknown fields")
    ask("POST", "/jobs/batch", jobs_of(ask.many, {"text": "\0" + "x" * 15_000}), "NUL")
    ask("POST", "/jobs/batch", b"[" * (ask.many << 13), "deep")
    ask("POST", "/jobs/batch", b'{"jobs":[' + b"{}," * (ask.many << 11) + b"{}]}", "empty")
    ask.one("POST", "/groups", {**jobs_of(ask.many, long), "mode": "sequential"})
    ask("POST", "/groups", {"jobs": [{"kind": "report", "payload": {"rows": ask.rows}}] * ask.dense}, "dense")
    return str(ask.one("POST", "/jobs", {"kind": "report", "payload": {"rows": ask.rows}})["id"])


def make_rows(ask: Asker) -> dict[str, str]:
    """Something of everything that has an id, as large as it may be, and many."""
    ids: dict[str, str] = {}
    dense = {"rows": ask.rows}
    marks = {"t": ["{{event.n}} and {{event.n}}"] * (len(ask.rows) // 4)}
    event = {"kind": "report", "event_name": "big", "payload": marks}
    ids["template"] = ask.one(
        "POST", "/templates", lambda: {"name": f"t{uuid4()}", "kind": "report", "payload": dense}
    )["id"]
    ask("POST", "/templates/{id}/run", {"payload": dense}, id=ids["template"])
    ask("PATCH", "/templates/{id}", {"payload": dense}, id=ids["template"])
    trigger = {"trigger_type": "event", "label": "big", **event}
    ids["trigger"] = ask.one("POST", "/jobs/triggers", trigger)["id"]
    for n in range(ask.dense):
        ask.one("POST", "/jobs/triggers", {**trigger, "label": f"big {n}"}, "again")
    ask("POST", "/jobs/triggers/test", {**event, "sample": {"n": 1, "rows": ask.rows}})
    ask("POST", "/jobs/triggers/preview", {"cron_expr": "0 0 29 2 *", "timezone": "Europe/Paris", "count": 100})
    ask("POST", "/jobs/triggers/{id}/test", {"payload": {"n": 1, "rows": ask.rows}}, id=ids["trigger"])
    ask("POST", "/jobs/triggers/{id}/run", {"payload": {"n": 1, "rows": ask.rows}}, id=ids["trigger"])
    ask("PATCH", "/jobs/triggers/{id}", {"payload": marks}, id=ids["trigger"])
    ids["event"] = ask.one("POST", "/events", {"name": "big", "payload": {"n": 1, "rows": ask.rows}})["id"]
    for say, count, payload in (
        ("many", ask.many, {"n": 1, "text": "x" * 15_000}),
        ("dense", ask.dense, {"n": 1, "rows": ask.rows}),
    ):
        ask.one("POST", "/events/batch", {"events": [{"name": "big", "payload": payload}] * count}, say)
    schema = {"type": "object", "properties": {f"field_{n}": {"type": "string"} for n in range(2_000)}}
    made = ask.one("POST", "/admin/jobs/definitions", lambda: {"key": f"w{uuid4()}", "arg_schema": schema})
    ids["definition"] = made["id"]
    ask("PATCH", "/admin/jobs/definitions/{id}", {"arg_schema": schema}, id=made["id"])
    fields = {f"field_{n}": "x" * 300 for n in range(2_000)}
    ask("POST", "/jobs", {"kind": made["key"], "payload": fields}, "with a schema")
    return ids


def run_jobs(ask: Asker, ids: dict[str, str]) -> None:
    """As a worker with as many jobs as it may have, and as much to say of each."""
    worker = {"worker_id": str(uuid4())}
    claim = {**worker, "queues": ["default", "mail"], "limit": ask.many}
    jobs = ask.one("POST", "/worker/jobs/claim", claim)["jobs"]
    assert len(jobs) > ask.many // 4
    held = [{"id": job["id"], "fence": job["fence"]} for job in jobs]
    log = "password=hunter2 and so on\n" * 500
    said = {**worker, "jobs": [{**each, "progress": 0.5, "note": "n" * 500, "log": log} for each in held]}
    for say in ("first", "again"):
        ask("POST", "/worker/heartbeat", said, say)
    one, two, three, *rest = held
    ids["job"] = one["id"]
    by_id = dict(worker, fence=one["fence"])
    ask("POST", "/worker/jobs/{id}/heartbeat", {**by_id, "log": "token=abc " * 200_000}, id=one["id"])
    ask("POST", "/worker/jobs/{id}/complete", {**by_id, "result": {"rows": ask.rows}}, id=one["id"])
    bad = {"error": 'pwd="' + "a" * 2_000_000, "stdout_tail": "x"}
    ask("POST", "/worker/jobs/{id}/fail", {**by_id, "fence": two["fence"], **bad}, id=two["id"])
    ask(
        "POST",
        "/worker/jobs/{id}/artifacts",
        b"x" * 3_000_000,
        id=three["id"],
        query={**worker, "fence": three["fence"], "name": "a"},
    )
    error = "://user:secret@host token=abcdef " * 450
    strange = [{"id": str(uuid4()), "fence": 1, "error": error} for _ in range(ask.many)]
    ask("POST", "/worker/settle", {**worker, "jobs": strange}, "strange")
    half = len(rest) // 2
    failed = [{**each, "error": error, "retry": False} for each in rest[:half]]
    ask("POST", "/worker/settle", {**worker, "jobs": failed}, "failed")
    results = [{**each, "result": {"text": "x" * 15_000}} for each in rest[half : -ask.dense]]
    ask("POST", "/worker/settle", {**worker, "jobs": results}, "succeeded")
    dense = [{**each, "result": {"rows": ask.rows}} for each in rest[-ask.dense :]]
    ask("POST", "/worker/settle", {**worker, "jobs": dense}, "dense")
    ask("POST", "/worker/release", {**worker, "jobs": held})


def ask_the_rest(ask: Asker, ids: dict[str, str]) -> None:
    """Every other route: with the largest page, and the example of the document."""
    found = {
        "id": ids["job"],
        "name": "default",
        "key": "t",
        "kind": "report",
        "scope": "kind",
        "fingerprint": "0" * 16,
    }
    for route in ROUTES:
        if (route.method, route.path) in ask.asked and route.method != "GET":
            continue
        if route.streams or route.path.startswith(("/worker/", "/session")):
            continue
        parts = {name: found[name] for name in route.params}
        for word, own in (
            ("triggers", "trigger"),
            ("templates", "template"),
            ("definitions", "definition"),
            ("events", "event"),
        ):
            if f"/{word}/" in route.path:
                parts["id"] = ids[own]
        names = () if route.query is None else route.query.__struct_fields__
        pages = [{}]
        if "limit" in names:
            pages.append({"limit": 200})
        if "offset" in names:
            pages.append({"limit": 200, "offset": 10_000})
        if "count" in names:
            pages.append({"count": 100})
        if route.path == "/admin/tenants/{id}" and route.method == "DELETE":
            continue
        for query in pages if ask.full else pages[-1:]:
            ask(route.method, route.path, EXAMPLES.get(route.name), str(query) if query else "", query=query, **parts)


def test_no_request_holds_the_event_loop(app: Headway, ask: Asker) -> None:
    big = make_jobs(ask)
    ids = make_rows(ask) | {"job": big}
    run_jobs(ask, ids)
    ask_the_rest(ask, ids)
    for path in ("/openapi.json", "/docs"):
        ask("GET", path)
    assert not ask.faults, "\n\n".join(ask.faults.values())
    assert {name: status for name, status in ask.statuses.items() if status >= 500} == {}
    left = {(route.method, route.path) for route in ROUTES} - ask.asked
    assert all(path.endswith(("/logs", "/stream", "/session", "/admin/tenants/{id}")) for _, path in left), left
