"""A kind that is for other tenants: every route answers as for a kind that there is not."""

from __future__ import annotations

from typing import Any

import pytest

from headway import Headway
from headway.errors import NotFound, UnknownKind
from headway.testing import drain

NOWHERE = "nowhere"  # no kind has this name


@pytest.fixture
def hidden(app: Headway) -> str:
    """A kind of globex's, which acme has no part in."""
    app.change_definition("welcome", tenants=["globex"], enqueuer_may={"timeout": "5m"})
    app.tenant("globex").enqueue("welcome", {"user_id": 1})
    return "welcome"


def answers(response: Any, kind: str) -> tuple[int, str]:
    return response.status_code, response.text.replace(kind, "KIND").partition('"request_id"')[0]


NEW_JOB = {"payload": {"user_id": 1}}
ROUTES: list[tuple[str, str, Any]] = [
    ("POST", "/jobs", {"kind": "KIND", **NEW_JOB}),
    ("POST", "/jobs", {"kind": "KIND", **NEW_JOB, "timeout": "1m"}),
    ("POST", "/jobs/batch", {"jobs": [{"kind": "order", "payload": {"n": 1}}, {"kind": "KIND", **NEW_JOB}]}),
    ("POST", "/jobs/triggers", {"name": "nightly", "trigger_type": "schedule", "cron": "0 2 * * *", "kind": "KIND"}),
    ("POST", "/jobs/triggers", {"name": "paid", "trigger_type": "event", "event_name": "order.paid", "kind": "KIND"}),
    ("POST", "/templates", {"name": "t-KIND", "kind": "KIND", "options": {"timeout": "1m"}}),
    ("GET", "/definitions/KIND", None),
]


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route[0]} {route[1]}")
@pytest.mark.parametrize("role", ["producer", "admin"])
def test_it_is_as_if_there_were_none(client: Any, keys: dict[str, str], hidden: str, role: str, route: Any) -> None:
    method, path, body = route
    asks = client(keys[role])
    found = []
    for kind in (hidden, NOWHERE):
        sent = None if body is None else {"json": _named(body, kind)}
        found.append(answers(asks(method, path.replace("KIND", kind), **(sent or {})), kind))
    assert found[0] == found[1]
    assert found[0][0] in (403, 404, 422)


def _named(body: Any, kind: str) -> Any:
    if isinstance(body, dict):
        return {name: _named(each, kind) for name, each in body.items()}
    if isinstance(body, list):
        return [_named(each, kind) for each in body]
    return body.replace("KIND", kind) if isinstance(body, str) else body


def test_lists_leave_it_out_and_name_no_tenant(app: Headway, client: Any, keys: dict[str, str], hidden: str) -> None:
    app.change_definition("order", tenants=["globex", "acme"])
    for role in ("viewer", "admin"):
        listed = client(keys[role]).get("/definitions").json()["items"]
        assert {each["kind"] for each in listed} == {"order", "report"}
        assert {(each["tenants"], each["tenant_ids"]) for each in listed} == {(None, None)}
    assert client(keys["admin"]).get("/definitions/order").json()["tenants"] is None
    whole = client(keys["superadmin"]).get("/definitions").json()["items"]
    assert {each["kind"]: each["tenants"] for each in whole} == {
        "order": ["acme", "globex"],
        "report": None,
        "welcome": ["globex"],
    }
    with pytest.raises(NotFound):
        app.tenant("acme").get_definition(hidden)
    assert [each.kind for each in app.tenant("acme").definitions()] == ["order", "report"]


def test_a_super_admin_says_whose_it_is(app: Headway, client: Any, keys: dict[str, str]) -> None:
    root = client(keys["superadmin"])
    changed = root("PATCH", "/admin/jobs/definitions/order", json={"tenants": ["acme"]})
    assert (changed.status_code, changed.json()["tenants"], changed.json()["changed"]) == (200, ["acme"], ["tenants"])
    job = {"kind": "order", "payload": {"n": 1}}
    assert client(keys["producer"]).post("/jobs", json=job).status_code == 201
    for headers in ({"Headway-Tenant": "default"}, {}):
        assert root.post("/jobs", json=job, headers=headers).json()["code"] == "UnknownKind"
    for wrong in ([], "acme", ["Not A Name"], [1]):
        assert root("PATCH", "/admin/jobs/definitions/order", json={"tenants": wrong}).status_code == 422
    assert root("PATCH", "/admin/jobs/definitions/order", json={"tenants": None}).json()["tenants"] is None
    assert root("PATCH", "/admin/jobs/definitions/order", json={"reset": ["tenants"]}).json()["changed"] == []


def test_what_others_stored_makes_no_job(app: Headway, client: Any, keys: dict[str, str]) -> None:
    """A template or trigger from before; the engine's own tick; a callback of a group; a worker's children."""
    acme = app.tenant("acme")
    acme.create_template("greeting", "welcome", {"user_id": 1})
    trigger = acme.create_trigger("hello", "order.paid", kind="welcome", payload={"user_id": 1})
    app.change_definition("welcome", tenants=["globex"])
    refused = client(keys["producer"]).post("/jobs", json={"template": "greeting"})
    assert (refused.status_code, refused.json()["code"]) == (422, "UnknownKind")
    acme.emit("order.paid", {})
    drain(app)
    (fire,) = acme.fires(trigger=trigger.name)
    assert (fire.status, fire.job_id) == ("failed", None)
    assert "has no definition" in str(fire.error)
    group = {"jobs": [{"kind": "order", "payload": {"n": 1}}], "callback": {"kind": "welcome"}}
    assert client(keys["producer"]).post("/groups", json=group).json()["code"] == "UnknownKind"
    with pytest.raises(UnknownKind):
        acme.enqueue("welcome", {"user_id": 1})
    with pytest.raises(UnknownKind):
        app.enqueue("welcome", {"user_id": 1}, tenant="acme")
    assert [job.kind for job in acme.jobs()] == []
