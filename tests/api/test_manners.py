"""Bad requests get a clear problem, and change nothing."""

from __future__ import annotations

import asyncio
from typing import Any

from headway import Headway
from headway.api import Api
from headway.model.key_text import new_key
from tests.api.conftest import Client

BODIES = [
    (b"", 422, "which kind"),
    (b"{", 400, "not JSON"),
    (b"[]", 422, "Expected `object`"),
    (b'{"kind": "welcome", "payload": {"user_id": NaN}}', 400, "not JSON"),
    (b'{"kind": "welcome", "kind": "report"}', 400, "names 'kind' twice"),
    (b'{"kind": "welcome", "payload": {"user_id": 1, "user_id": 2}}', 400, "names 'user_id' twice"),
    ('{"kind": "welcome"}'.encode("utf-16"), 400, "not JSON"),
    (b'{"kind": "welcome", "colour": 7}', 422, "colour"),
    (b'{"kind": "welcome", "priority": "high"}', 422, "Expected `int"),
    (b'{"kind": "wlecome", "payload": {}}', 422, "no definition"),
    (b'{"kind": "welcome", "payload": {"user_id": "seven"}}', 422, "user_id"),
    (b'{"kind": "welcome", "payload": {"user_id": 7}, "queue": "Not A Queue"}', 422, "queue"),
    (b'{"kind": "welcome", "payload": ' + b'{"a":' * 90 + b"1" + b"}" * 90 + b"}", 400, "deep"),
    (b'{"kind": "' + b"x" * (2 * 2**20) + b'"}', 413, "larger than"),
    (b'{"kind": "welcome", "definition_key": "report"}', 422, "mean the same"),
]


def test_bad_bodies(app: Headway, client: Any, keys: dict[str, str]) -> None:
    for body, status, says in BODIES:
        said = client(keys["producer"]).post("/jobs", content=body, headers={"Content-Type": "application/json"})
        assert said.status_code == status, said.text
        assert said.headers["content-type"] == "application/problem+json"
        problem = said.json()
        assert says in problem["detail"] + str(problem.get("errors"))
        assert problem["status"] == status
        assert problem["request_id"] == said.headers["x-request-id"]
    assert app.counts() == {}


PATHS = [
    ("/jobs?limit=0", 422),
    ("/jobs?limit=201", 422),
    ("/jobs?offset=10001", 422),
    ("/jobs?order=random", 422),
    ("/jobs?order=run", 422),
    ("/jobs?group=nonsense", 422),
    ("/jobs?unique_key=a&dedupe_key=b", 422),
    ("/jobs/summary?by=colour", 422),
    ("/jobs?limit=ten", 422),
    ("/jobs?colour=red", 422),
    ("/jobs?status=lost", 422),
    ("/jobs?cursor=nonsense", 422),
    ("/jobs?created_after=yesterday", 422),
    ("/jobs?limit=1&limit=2", 422),
    ("/jobs?" + "&".join("status=dead" for _ in range(200)), 400),
    ("/jobs/nonsense", 404),
    ("/jobs/00000000-0000-0000-0000-000000000000", 404),
    ("/jobs/%00", 404),
    ("/jobs/nonsense/result?wait=99", 422),
    ("/nowhere", 404),
]


def test_bad_paths_and_queries(client: Any, keys: dict[str, str]) -> None:
    ask = client(keys["viewer"])
    for path, status in PATHS:
        said = ask.get(path)
        assert said.status_code == status, said.text
        assert said.json()["status"] == status


def test_a_cursor_of_another_list_is_refused(app: Headway, client: Any, keys: dict[str, str]) -> None:
    acme = app.tenant("acme")
    for number in range(3):
        acme.enqueue("welcome", {"user_id": number})
        acme.emit("sold")
    ask = client(keys["viewer"])
    page = ask.get("/jobs?limit=2").json()
    rest = ask.get(f"/jobs?limit=2&cursor={page['next_cursor']}").json()
    assert [each["payload"]["user_id"] for each in page["items"] + rest["items"]] == [2, 1, 0]
    assert rest["next_cursor"] is None
    cursor = ask.get("/events?limit=1").json()["next_cursor"]
    assert ask.get(f"/jobs?cursor={cursor}").status_code == 422


def test_a_method_that_a_path_does_not_have(client: Any, keys: dict[str, str]) -> None:
    said = client(keys["admin"])("DELETE", "/jobs")
    assert (said.status_code, said.json()["code"]) == (405, "MethodNotAllowed")


def test_a_database_that_is_away_is_503() -> None:
    loop = asyncio.new_event_loop()
    nobody = Headway("postgresql://nobody@127.0.0.1:1/none")
    api = Api(nobody)
    ask = Client(api, loop, new_key().text)
    said = ask.get("/queues")
    assert (said.status_code, said.headers["retry-after"], said.json()["code"]) == (503, "1", "StoreUnavailable")
    assert ask.get("/readyz").status_code == 503
    assert ask.get("/healthz").status_code == 200
    loop.run_until_complete(api.aclose())
    loop.run_until_complete(nobody.aclose())
    loop.close()


def test_the_openapi_document_has_every_route(client: Any) -> None:
    from headway.api.chapters import ROUTES

    document = client(None).get("/openapi.json").json()
    assert document["openapi"] == "3.1.0"
    found = {(path, method) for path, methods in document["paths"].items() for method in methods}
    assert found == {(f"/api/v1{route.path}", route.method.lower()) for route in ROUTES}
