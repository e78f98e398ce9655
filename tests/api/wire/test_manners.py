"""Bad requests get a clear problem, and change nothing."""

from __future__ import annotations

import asyncio
import gzip
import re
from pathlib import Path
from typing import Any

import jsonschema_rs
import psycopg
import pytest

from headway import Headway
from headway.api import Api
from headway.api.chapters import ROUTES
from headway.api.document.examples import EXAMPLES
from headway.api.document.openapi import document
from headway.api.wire import bodies, problems
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
    (b'{"kind": "welcome", "payload": {"user_id": "\xff"}}', 400, "UTF-8"),
    (b'{"kind": "welcome", "payload": {"user_id": ' + b"9" * 5000 + b"}}", 422, "out of range"),
    (b'{"kind": "welcome", "payload": {"a": "\\u0000"}}', 422, "NUL"),
    (b'{"kind": "welcome", "tags": ["\\u0000"]}', 422, "NUL"),
    (b'{"kind": "welcome", "payload": {"a": "\\ud800"}}', 400, "half of a surrogate pair"),
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
    ("/jobs/summary?by=null", 422),
    ("/jobs/nonsense/result?wait=nan", 422),
    ("/jobs?" + "a&" * 10_000, 400),
    ("/jobs?cursor=" + "A" * 5000, 422),
    ("/jobs?cursor=WyJqb2JzLCBuZXdlc3QiLCJub25zZW5zZSJd", 422),  # as ours are made, of what we never gave
    ("/jobs?q=%00", 422),
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


def test_a_refusal_points_at_every_fault_of_the_body(app: Headway, client: Any, keys: dict[str, str]) -> None:
    ask = client(keys["producer"])
    wrong = {"kind": "welcome", "payload": {"user_id": "seven"}}
    good = {"kind": "welcome", "payload": {"user_id": 7}}
    for path, body, pointers in (
        ("/jobs", {"kind": "report", "colour": 1, "a/b": 2}, ["/colour", "/a~1b"]),
        ("/jobs/batch", {"jobs": [good, {"size": 1} | good], "shape": 2}, ["/jobs/1/size", "/shape"]),
        ("/jobs/batch", {"jobs": [good, {"priority": "x"} | good]}, ["/jobs/1/priority"]),
        ("/jobs", wrong, ["/payload/user_id"]),
        ("/jobs", good | {"queue": "Not A Queue"}, ["/queue"]),
        ("/jobs", good | {"definition_key": "report"}, ["/definition_key"]),
        ("/jobs/batch", {"jobs": [good, good, wrong]}, ["/jobs/2/payload/user_id"]),
        ("/jobs/batch", {"jobs": [good, {"kind": "nope"}]}, ["/jobs/1/kind"]),
        ("/jobs/batch", {"jobs": [good, good | {"priority": 10**9}]}, ["/jobs/1/priority"]),
        ("/jobs/batch", {"jobs": [good, good | {"train": ""}]}, ["/jobs/1/train"]),
        ("/jobs", good | {"meta": {"n": 10**30}}, ["/meta"]),
        ("/jobs", good | {"after": ["me"]}, ["/after"]),
        ("/jobs/batch", {"jobs": []}, ["/jobs"]),
        ("/groups", {"jobs": [good], "callback": wrong}, ["/callback/payload/user_id"]),
    ):
        said = ask.post(path, json=body)
        assert (said.status_code, [each["pointer"] for each in said.json()["errors"]]) == (422, pointers), said.text
    many = {f"f{n}": n for n in range(20)}
    assert len(ask.post("/jobs", json={"kind": "report", **many}).json()["errors"]) == 10
    assert app.counts() == {}


def test_a_payload_is_as_deep_in_a_batch_as_alone(app: Headway, client: Any, keys: dict[str, str]) -> None:
    ask = client(keys["producer"])
    for levels, status in ((64, 201), (65, 422), (70, 400)):
        payload = b'{"a":' * levels + b"1" + b"}" * levels
        job = b'{"kind": "report", "payload": ' + payload + b"}"
        for path, body in (("/jobs", job), ("/jobs/batch", b'{"jobs": [' + job + b"]}")):
            said = ask.post(path, content=body, headers={"Content-Type": "application/json"})
            assert said.status_code == status, said.text
    assert app.counts() == {"queued": 2}


def test_compressed_bodies_are_refused_with_the_reason(app: Headway, client: Any, keys: dict[str, str]) -> None:
    ask, packed = client(keys["producer"]), gzip.compress(b'{"kind": "report"}')
    for coding, status in (("gzip", 415), ("br", 415), ("identity", 400)):
        headers = {"Content-Type": "application/json", "Content-Encoding": coding}
        said = ask.post("/jobs", content=packed, headers=headers)
        assert said.status_code == status, said.text
        assert ("Content-Encoding" in said.json().get("fix", "")) == (status == 415)
    assert app.counts() == {}


def test_bad_paths_and_queries(client: Any, keys: dict[str, str]) -> None:
    ask = client(keys["viewer"])
    for path, status in PATHS:
        said = ask.get(path)
        assert said.status_code == status, said.text
        assert said.json()["status"] == status


def test_a_parameter_that_a_path_does_not_take_is_refused_by_every_method(client: Any, keys: dict[str, str]) -> None:
    ask = client(keys["admin"])
    for method, path in (("POST", "/jobs"), ("GET", "/jobs/0/why"), ("DELETE", "/jobs/0"), ("PATCH", "/jobs/0")):
        said = ask(method, f"{path}?dry_run=true")
        assert said.status_code == 422, said.text
        assert said.json()["detail"] == "'dry_run' is not a parameter here"
        assert said.json()["fix"] == "known: none"


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


def test_the_openapi_document_has_every_route(client: Any, keys: dict[str, str]) -> None:
    document = client(keys["viewer"]).get("/openapi.json").json()
    assert document["openapi"] == "3.1.0"
    found = {(path, method) for path, methods in document["paths"].items() for method in methods}
    assert found == {(f"/api/v1{route.path}", route.method.lower()) for route in ROUTES}


def test_a_body_that_never_ends_or_is_too_long_is_refused(
    app: Headway, api: Api, loop: Any, keys: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "BODY_S", 0.05)
    sent: list[Any] = []
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/api/v1/jobs",
        "query_string": b"",
        "headers": [(b"host", b"127.0.0.1"), (b"authorization", f"Bearer {keys['producer']}".encode())],
        "client": ("127.0.0.1", 1),
    }

    async def ask(receive: Any, *headers: tuple[bytes, bytes]) -> int:
        sent.clear()

        async def send(message: Any) -> None:
            sent.append(message)

        await api(scope | {"headers": scope["headers"] + list(headers)}, receive, send)
        return int(sent[0]["status"])

    async def drip() -> Any:
        await asyncio.sleep(0.01)
        return {"type": "http.request", "body": b" ", "more_body": True}

    async def flood() -> Any:
        return {"type": "http.request", "body": b" " * 100_000, "more_body": True}

    async def unread() -> Any:
        raise AssertionError("it was read")

    async def gone() -> Any:
        return {"type": "http.disconnect"}

    assert loop.run_until_complete(ask(drip)) == 408
    assert loop.run_until_complete(ask(flood)) == 413
    assert loop.run_until_complete(ask(unread, (b"content-length", b"99999999"))) == 413
    assert loop.run_until_complete(ask(gone)) == 400
    assert app.counts() == {}


def test_a_database_that_comes_back_is_used_again(postgres_migrated_url: str) -> None:
    """The server finds its database away, and well again without being told."""
    loop, app = asyncio.new_event_loop(), Headway(postgres_migrated_url)
    api = Api(app)
    ask = Client(api, loop, app.create_api_key("root", "superadmin").text)
    app.close()
    name = psycopg.conninfo.conninfo_to_dict(postgres_migrated_url)["dbname"]
    with psycopg.connect(postgres_migrated_url, dbname="postgres", autocommit=True) as elsewhere:

        def allow(what: str) -> None:
            elsewhere.execute(f'alter database "{name}" allow_connections {what}')
            elsewhere.execute("select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", (name,))

        assert ask.get("/queues").status_code == 200
        allow("false")
        for method, path in (("GET", "/queues"), ("POST", "/events")):
            said = ask(method, path, json={"name": "sold"} if method == "POST" else None)
            assert (said.status_code, said.headers["retry-after"]) == (503, "1"), said.text
        allow("true")
        assert ask.get("/queues").status_code == 200
    loop.run_until_complete(api.aclose())
    loop.run_until_complete(app.aclose())
    loop.close()


def test_the_page_for_people_has_everything_and_loads_nothing(client: Any, keys: dict[str, str]) -> None:
    said = client(keys["viewer"]).get("/docs")
    page = said.text
    assert said.headers["content-type"].startswith("text/html")
    assert said.headers["content-security-policy"].startswith("default-src 'none'")
    for route in ROUTES:
        assert f'id="{route.name}"' in page
    assert set(re.findall(r"https?://[^&/]+", page)) == {"https://billing.example"}, "the URL of an example, as text"
    assert re.search(r"""=["']?https?:|url\(|@import""", page) is None
    assert "<script" not in page
    assert "with its revision as <code>ETag</code>." in page
    assert "`" not in page
    problem = client(None).get("/jobs").json()
    assert f'id="{problem["type"].partition("#")[2]}"' in page
    sources = [each.read_text("utf-8") for each in Path(problems.__file__).parents[1].rglob("*.py")]
    codes = {code for source in sources for code in re.findall(r'code="(\w+)"', source)}
    assert len(codes) > 5
    assert {code for code in codes if f'id="problem-{problems.slug_of(code)}"' not in page} == set()


def test_a_method_that_is_not_there_names_those_that_are(client: Any, keys: dict[str, str]) -> None:
    ask = client(keys["viewer"])
    for path, allowed in (
        ("/jobs", "GET, HEAD, POST"),
        ("/jobs/batch", "POST"),
        ("/jobs/x", "DELETE, GET, HEAD, PATCH"),
    ):
        assert ask("OPTIONS", path).headers["allow"] == allowed


def test_every_answer_has_an_example_that_fits_its_schema() -> None:
    described = document(ROUTES)
    schemas = described["components"]["schemas"]
    refs = {
        content["schema"]["$ref"].rpartition("/")[2]
        for methods in described["paths"].values()
        for operation in methods.values()
        for answer in operation["responses"].values()
        for kind, content in answer.get("content", {}).items()
        if "json" in kind and "$ref" in content["schema"]
    }
    assert len(refs) > 70
    for name in refs:
        schema = {"$ref": f"#/components/schemas/{name}", "components": described["components"]}
        (example,) = schemas[name]["examples"]
        jsonschema_rs.validator_for(schema).validate(example)


def test_every_example_of_the_document_is_accepted(app: Headway, client: Any, keys: dict[str, str]) -> None:
    root, tenant = client(keys["superadmin"]), {"Headway-Tenant": "acme"}
    made: dict[str, str] = {}
    # they are about a job, flow, car or worker that is not there, or not theirs
    refused = {"fork_job", "accept_flow", "skip_car", "change_worker", "heartbeat_job", "complete_job", "fail_job"} | {
        "rotate_connector"  # this server has no key to seal secrets with
    }
    for route in ROUTES:
        if route.body is None:
            continue
        ids = [made[path] for path in sorted(made, key=len) if route.path.startswith(f"{path}/{{")]
        params = {
            "id": ids[-1] if ids else app.tenant("acme").enqueue("welcome", {"user_id": 1}).id,
            "name": "mail",
            "key": "user_7",
        }
        if route.name == "retry_job":
            app.cancel(params["id"])
        if route.name == "hold_train":
            app.tenant("acme").enqueue("welcome", {"user_id": 1}, train="user_7")
        headers = {} if route.name == "change_tenant" else tenant
        said = root(route.method, route.path.format(**params), json=EXAMPLES[route.name], headers=headers)
        expected = (404, 409) if route.name in refused else (200, 201)
        assert said.status_code in expected, (route.name, said.text)
        if said.status_code == 201 and "{" not in route.path and route.path != "/jobs":
            answer = said.json()
            made[route.path] = answer.get("group", answer).get("id", "")
    assert {route.name for route in ROUTES if route.body is not None} == EXAMPLES.keys()


def test_a_body_of_white_space_is_not_json(client: Any, keys: dict[str, str]) -> None:
    ask = client(keys["operator"])
    headers = {"Content-Type": "application/json"}
    made = ask.post("/jobs", json={"kind": "report"}).json()["id"]
    assert ask.post(f"/jobs/{made}/cancel", content=b" \n", headers=headers).status_code == 400
    assert ask.post(f"/jobs/{made}/cancel", content=b"", headers=headers).status_code == 200
