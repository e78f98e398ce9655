"""No callback of ours takes over 20 ms of the event loop's own CPU time, whatever a request asks: every route, with
the largest input that it allows (all of it with --full), on data as large as it may be."""

from __future__ import annotations

import gc
import time
import weakref
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx2 as httpx
import msgspec
import pytest

from headway import Await, Context, Headway, Machine, Registry, Spawn, step
from headway.api import application
from headway.api.application import _large_response
from headway.api.chapters import ROUTES
from headway.api.document.examples import EXAMPLES
from headway.api.serving.server import _collect_rarely
from headway.api.wire.views import LargeList
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


@pytest.fixture
def code() -> Registry:
    """A machine with many children, which then waits."""
    code = Registry()

    @code.job(queue="surveys")
    async def answer() -> None: ...

    @code.machine
    class Survey(Machine, name="survey", queue="surveys"):
        @step
        async def start(self, ctx: Context) -> Spawn:
            return Spawn([answer.build() for _ in range(200)], then=self.wait)

        @step
        async def wait(self, ctx: Context) -> Await:
            return Await("never", timeout="1h")

    return code


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
        first = None
        for _ in range(_TRIES):
            self._held.clear()
            content = None if body is None else body() if callable(body) else body
            if content is not None and not isinstance(content, bytes):
                content = msgspec.json.encode(content)
            headers = {} if content is None else {"Content-Type": "application/json"}
            answer = self.client.request(method, path, params=query, content=content, headers=headers)
            time.sleep(0.02)  # the watchdog tells of a callback when it looks again
            worst = max((each for each in list(self._held) if each[1] == "engine"), default=None)
            first = first or answer
            if answer.status_code != first.status_code:
                break  # such as what is deleted already: asking again says nothing of the first time
            if worst is None:
                self.faults.pop(name, None)
                break
            self.faults[name] = f"{name} ({answer.status_code}): {worst[0] * 1_000:.0f} ms\n{worst[2]}"
        assert first is not None
        self.statuses[name] = first.status_code
        return first

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


def make_jobs(ask: Asker) -> dict[str, str]:
    """As large and as many as one request may make; gives the ids of one that is a megabyte, and of a group."""
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
    group = ask.one("POST", "/groups", {**jobs_of(ask.many, long), "mode": "sequential"})
    ask("POST", "/groups", {"jobs": [{"kind": "report", "payload": {"rows": ask.rows}}] * ask.dense}, "dense")
    job = ask.one("POST", "/jobs", {"kind": "report", "payload": {"rows": ask.rows}})
    return {"queued": job["id"], "/groups": group["group"]["id"]}


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
    ids["schedule"] = ask.one("POST", "/jobs/triggers", EXAMPLES["create_trigger"], "schedule")["id"]
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
    ids |= {"job": one["id"], "worker": worker["worker_id"]}
    by_id = dict(worker, fence=one["fence"])
    ask("POST", "/worker/jobs/{id}/heartbeat", {**by_id, "log": "token=abc " * 200_000}, id=one["id"])
    ask("POST", "/worker/jobs/{id}/complete", {**by_id, "result": {"rows": ask.rows}}, id=one["id"])
    bad = {"error": 'pwd="' + "a" * 2_000_000, "stdout_tail": "x"}
    ask("POST", "/worker/jobs/{id}/fail", {**by_id, "fence": two["fence"], **bad}, id=two["id"])
    ids["artifact"] = ask.one(
        "POST",
        "/worker/jobs/{id}/artifacts",
        b"x" * 3_000_000,
        id=three["id"],
        query={**worker, "fence": three["fence"], "name": "a"},
    )["id"]
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


def make_the_rest(ask: Asker, app: Headway, code: Registry, ids: dict[str, str]) -> None:
    """One of everything else, by the examples of the document; and a machine with signals, children and a past."""
    for route in ROUTES:
        if route.method == "POST" and not route.params and (route.method, route.path) not in ask.asked:
            answer = ask("POST", route.path, EXAMPLES.get(route.name))
            said = msgspec.json.decode(answer.content)
            for each in (said, *said.values()):
                if isinstance(each, dict) and "id" in each:
                    ids[route.path] = each["id"]
    worker = Headway(app.url, tenant="acme")
    worker.include(code)
    ids["machine"] = worker.enqueue("survey").id
    worker.run(queues=["surveys"], until_idle=True)
    worker.close()
    for _ in range(10):
        ask("POST", "/jobs/{id}/signal", {"name": "said", "payload": {"rows": ask.rows[:9_000]}}, id=ids["machine"])


def parts_of(ask: Asker, route: Any, ids: dict[str, str]) -> dict[str, str]:
    """What the path is about: something that is there."""
    if route.path.startswith(("/jobs/{id}", "/machines/")):
        of_machine = {"fork_job", "signal_job", "list_signals", "list_children", "list_history", "list_attempts"}
        of_queued = {"change_job", "move_job", "explain_job"}
        which = "machine" if route.name in of_machine else "queued" if route.name in of_queued else "job"
        return {"id": ids[which], "kind": "survey"}
    if route.path == "/admin/tenants/{id}":
        return {"id": "acme"}
    if route.name == "preview_trigger":
        return {"id": ids["schedule"]}
    words = ("triggers", "templates", "definitions", "events", "artifacts", "workers")
    if "id" in route.params:
        own = next((ids[word[:-1]] for word in words if f"/{word}/" in route.path), None)
        return {"id": own or ids[route.path.partition("/{")[0]]}
    if "fingerprint" in route.params:
        return {"fingerprint": ask.one("GET", "/errors")["items"][0]["fingerprint"]}
    return {"name": "welcome" if route.path.startswith("/limits") else "default", "key": "t", "scope": "kind"}


def ask_the_rest(ask: Asker, ids: dict[str, str]) -> None:
    """Every other route: with the largest page, and the example of the document. What ends something comes last."""
    ask("POST", "/trains/{key}/skip", {"job_id": ask.one("GET", "/trains/{key}", key="t")["cars"][0]["id"]}, key="t")
    ends = ("dead", "clear", "cancel", "retry", "run")
    rank = {"GET": 0, "PATCH": 1, "POST": 1, "DELETE": 3}
    for route in sorted(ROUTES, key=lambda each: rank[each.method] + each.path.endswith(ends)):
        if (route.method, route.path) in ask.asked and route.method != "GET":
            continue
        if route.path.endswith("/stream") or (route.method != "GET" and route.path.startswith("/admin/tenants/")):
            continue
        parts = parts_of(ask, route, ids) if route.params else {}
        names = () if route.query is None else route.query.__struct_fields__
        pages: list[dict[str, int]] = [{}]
        if "limit" in names:
            pages = [{"limit": 200}, {}, {"limit": 200, "offset": 10_000}]
            pages = pages if "offset" in names else pages[:2]
        if "count" in names:
            pages = [{"count": 100}, {}]
        for query in pages if ask.full else pages[:1]:
            ask(route.method, route.path, EXAMPLES.get(route.name), str(query) if query else "", query=query, **parts)


def test_no_request_holds_the_event_loop(app: Headway, code: Registry, ask: Asker) -> None:
    ids = make_jobs(ask)
    ids |= make_rows(ask)
    run_jobs(ask, ids)
    make_the_rest(ask, app, code, ids)
    ask_the_rest(ask, ids)
    tenant = "/admin/tenants/{id}"
    ask.one("PATCH", tenant, {"tz": "Europe/Paris"}, id="acme")
    for verb in ("suspend", "resume", "suspend"):
        ask.one("POST", f"{tenant}/{verb}", id="acme")
    ask.one("DELETE", tenant, id="acme", query={"dry_run": "true"})
    ask("DELETE", tenant, id="acme")
    for path in ("/openapi.json", "/docs"):
        ask("GET", path)
    assert not ask.faults, "\n\n".join(ask.faults.values())
    assert {name: status for name, status in ask.statuses.items() if status >= 500} == {}
    assert {name: status for name, status in ask.statuses.items() if status == 404} == {}
    assert {(route.method, route.path) for route in ROUTES} - ask.asked == {("GET", "/jobs/{id}/stream")}


def test_a_server_does_not_look_at_all_objects_because_of_one_large_list() -> None:
    """Every request would wait for it: with twenty lists of 60,000 rows in memory it takes tens of milliseconds."""
    before = gc.get_threshold()
    looked: list[int] = []

    def count(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            looked.append(info["generation"])

    try:
        gc.set_threshold(700, 10, 10)
        _collect_rarely()
        gc.callbacks.append(count)
        kept = [[[n] for n in range(60_000)] for _ in range(5)]
        assert len(kept) == 5
    finally:
        gc.callbacks.remove(count)
        gc.set_threshold(*before)
        gc.unfreeze()
    assert 2 not in looked


def test_the_items_of_a_large_list_are_freed_where_it_is_encoded() -> None:
    """In a thread: a page of large templates has hundreds of thousands of objects, and freeing those at once takes
    longer than an event loop may be held up."""

    class Item(msgspec.Struct, weakref=True):
        n: int

    answer = LargeList([Item(1), Item(2)], "after")
    items = [weakref.ref(each) for each in answer.items]
    assert bytes(_large_response(answer).body) == b'{"items":[{"n":1},{"n":2}],"next_cursor":"after"}'
    assert [each() for each in items] == [None, None]
