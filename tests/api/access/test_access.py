"""Who may do what: every route for every role, in its own tenant and in another. A route without a row here fails."""

from __future__ import annotations

from collections import defaultdict
from itertools import product
from typing import Any
from uuid import uuid4

import pytest

from headway import Headway
from headway.api.access.rates import Strangers
from headway.api.chapters import ROUTES
from headway.api.routes import Route
from headway.model.access import ROLES, Role
from headway.model.artifact import NewArtifact
from headway.model.ids import new_id
from headway.model.key_text import new_key
from tests.store.db import new_worker

READ: tuple[Role, ...] = ("viewer", "operator", "admin", "superadmin")
NAMED: tuple[Role, ...] = ("producer", *READ)
PRODUCE: tuple[Role, ...] = ("producer", "operator", "admin", "superadmin")
OPERATE: tuple[Role, ...] = ("operator", "admin", "superadmin")
ADMIN: tuple[Role, ...] = ("admin", "superadmin")
ROOT: tuple[Role, ...] = ("superadmin",)
WORK: tuple[Role, ...] = ("worker", "superadmin")

WORKER = "01900000-0000-4000-8000-0000000000aa"  # that is not registered

# the contract, written out: method and path, who may, a body that fits, what it answers for a queued job of the tenant
MATRIX: dict[str, tuple[tuple[Role, ...], Any, tuple[int, ...]]] = {
    "POST /jobs": (PRODUCE, {"kind": "welcome", "payload": {"user_id": 1}}, (201,)),
    "POST /jobs/batch": (PRODUCE, {"jobs": [{"kind": "welcome", "payload": {"user_id": 1}}]}, (201,)),
    "POST /jobs/actions": (OPERATE, {"action": "cancel", "filter": {"kind": ["welcome"]}, "dry_run": True}, (200,)),
    "GET /jobs": (READ, None, (200,)),
    "GET /jobs/summary": (READ, None, (200,)),
    "GET /jobs/{id}": (NAMED, None, (200,)),
    "PATCH /jobs/{id}": (OPERATE, {"priority": 2}, (200,)),
    "DELETE /jobs/{id}": (ADMIN, None, (204,)),
    "POST /jobs/{id}/cancel": (OPERATE, {}, (200,)),
    "POST /jobs/{id}/retry": (OPERATE, None, (409,)),
    "POST /jobs/{id}/run": (OPERATE, None, (200,)),
    "POST /jobs/{id}/move": (OPERATE, {"last": True}, (200,)),
    "POST /jobs/{id}/signal": (PRODUCE, {"name": "paid"}, (201,)),
    "POST /jobs/{id}/fork": (OPERATE, {}, (409,)),
    "POST /jobs/{id}/accept": (OPERATE, {}, (409,)),  # a plain job
    "GET /jobs/{id}/attempts": (NAMED, None, (200,)),
    "GET /jobs/{id}/result": (NAMED, None, (202,)),
    "GET /artifacts": (READ, None, (200,)),
    "GET /artifacts/{id}": (NAMED, None, (200,)),
    "GET /artifacts/{id}/content": (NAMED, None, (409,)),  # its bytes are elsewhere
    "POST /worker/jobs/{id}/artifacts": (WORK, None, (422,)),  # it does not say which worker
    "GET /jobs/{id}/chain": (READ, None, (200,)),
    "GET /jobs/{id}/logs": (NAMED, None, (200,)),
    "GET /jobs/{id}/stream": (NAMED, None, (200,)),
    "GET /jobs/{id}/why": (READ, None, (200,)),
    "GET /jobs/{id}/history": (READ, None, (200,)),
    "GET /jobs/{id}/journal": (READ, None, (409,)),  # a plain job has none
    "GET /jobs/{id}/signals": (READ, None, (200,)),
    "GET /jobs/{id}/children": (NAMED, None, (200,)),
    "POST /events": (PRODUCE, {"name": "paid"}, (201,)),
    "POST /events/batch": (PRODUCE, {"events": [{"name": "paid"}]}, (201,)),
    "GET /events": (READ, None, (200,)),
    "GET /events/{id}": (READ, None, (200,)),
    "GET /events/{id}/fires": (READ, None, (200,)),
    "POST /events/{id}/retry": (OPERATE, None, (409,)),  # it has not failed
    "GET /queues": (READ, None, (200,)),
    "POST /queues/{name}/pause": (ROOT, None, (200,)),
    "POST /queues/{name}/resume": (ROOT, None, (200,)),
    "GET /workers": (ROOT, None, (200,)),
    "POST /worker/jobs/claim": (WORK, {"queues": ["none"]}, (200,)),  # with a worker_id of its own
    "POST /worker/jobs/{id}/heartbeat": (WORK, {"worker_id": WORKER, "fence": 1}, (409,)),  # it does not run the job
    "POST /worker/jobs/{id}/complete": (WORK, {"worker_id": WORKER, "fence": 1}, (409,)),
    "POST /worker/jobs/{id}/fail": (WORK, {"worker_id": WORKER, "fence": 1, "error": "boom"}, (409,)),
    "POST /worker/heartbeat": (WORK, {"worker_id": WORKER, "jobs": []}, (409,)),
    "POST /worker/settle": (WORK, {"worker_id": WORKER, "jobs": [{"id": WORKER, "fence": 1}]}, (409,)),
    "POST /worker/release": (WORK, {"worker_id": WORKER}, (409,)),
    "POST /keys": (ADMIN, {"name": "new", "role": "viewer"}, (201,)),
    "GET /keys": (ADMIN, None, (200,)),
    "POST /session": (ROLES, None, (201,)),
    "GET /session": (ROLES, None, (200,)),
    "DELETE /session": (ROLES, None, (204,)),
    "GET /keys/{id}": (ADMIN, None, (200,)),
    "DELETE /keys/{id}": (ADMIN, None, (200,)),
    "GET /definitions": (ROLES, None, (200,)),
    "GET /definitions/{id}": (ROLES, None, (200,)),
    "GET /admin/jobs/definitions": (ROOT, None, (200,)),
    "POST /admin/jobs/definitions": (ROOT, {"key": "sync-dropbox"}, (201,)),
    "GET /admin/jobs/definitions/{id}": (ROOT, None, (200,)),
    "PATCH /admin/jobs/definitions/{id}": (ROOT, {"description": "hello"}, (200,)),
    "GET /jobs/triggers": (READ, None, (200,)),
    "POST /jobs/triggers": (
        ADMIN,
        {"label": "Nightly", "trigger_type": "schedule", "cron_expr": "@daily", "definition_key": "report"},
        (201,),
    ),
    "POST /jobs/triggers/test": (ADMIN, {"event_name": "paid", "definition_key": "report"}, (200,)),
    "POST /jobs/triggers/preview": (READ, {"cron_expr": "@daily"}, (200,)),
    "GET /jobs/triggers/{id}": (READ, None, (200,)),
    "PATCH /jobs/triggers/{id}": (ADMIN, {"label": "Daily"}, (200,)),
    "DELETE /jobs/triggers/{id}": (ADMIN, None, (204,)),
    "POST /jobs/triggers/{id}/pause": (OPERATE, None, (200,)),
    "POST /jobs/triggers/{id}/resume": (OPERATE, None, (200,)),
    "POST /jobs/triggers/{id}/run": (OPERATE, {}, (201,)),
    "POST /jobs/triggers/{id}/test": (OPERATE, {}, (200,)),
    "GET /jobs/triggers/{id}/fires": (READ, None, (200,)),
    "GET /jobs/triggers/{id}/preview": (READ, None, (200,)),
    "GET /templates": (READ, None, (200,)),
    "POST /templates": (ADMIN, {"name": "new", "kind": "report"}, (201, 409)),
    "GET /templates/{id}": (READ, None, (200,)),
    "PATCH /templates/{id}": (ADMIN, {"description": "hello"}, (200,)),
    "DELETE /templates/{id}": (ADMIN, None, (204,)),
    "GET /connectors": (READ, None, (200,)),
    "POST /connectors": (ADMIN, {"name": "new", "url": "https://shop.example"}, (201, 409)),
    "GET /connectors/{id}": (READ, None, (200,)),
    "PATCH /connectors/{id}": (ADMIN, {"description": "hello"}, (200,)),
    "DELETE /connectors/{id}": (ADMIN, None, (204,)),
    "POST /connectors/{id}/rotate": (ADMIN, {}, (409, 422)),  # no master secret, or no webhook endpoint
    "POST /connectors/{id}/test": (ADMIN, None, (422,)),  # no webhook endpoint
    "POST /templates/{id}/run": (PRODUCE, {}, (201,)),
    "GET /trains": (READ, None, (200,)),
    "GET /trains/{key}": (READ, None, (200,)),
    "POST /trains/{key}/hold": (OPERATE, {"reason": "wait"}, (200,)),
    "POST /trains/{key}/resume": (OPERATE, None, (200,)),
    "POST /trains/{key}/skip": (OPERATE, {"job_id": "nonsense"}, (404,)),
    "POST /trains/{key}/clear": (OPERATE, None, (200,)),
    "POST /groups": (PRODUCE, {"jobs": [{"kind": "report"}], "callback": {"kind": "report"}}, (201,)),
    "GET /groups": (READ, None, (200,)),
    "GET /groups/{id}": (NAMED, None, (200,)),
    "POST /groups/{id}/cancel": (OPERATE, {}, (200,)),
    "POST /groups/{id}/retry": (OPERATE, None, (200,)),
    "GET /limits": (ROOT, None, (200,)),
    "GET /limits/{scope}/{name}": (ROOT, None, (404,)),
    "POST /limits": (ROOT, {"kind": "report", "max_running": 5}, (200,)),
    "GET /reservations": (ROOT, None, (200,)),
    "POST /reservations": (ROOT, {"queue": "gpu"}, (201, 409)),
    "DELETE /reservations/{id}": (ROOT, None, (204,)),
    "GET /queues/{name}": (READ, None, (200,)),
    "GET /queues/{name}/jobs": (READ, None, (200,)),
    "PATCH /queues/{name}": (ROOT, {"fair": True}, (200,)),
    "POST /queues/pause": (ROOT, None, (200,)),
    "POST /queues/resume": (ROOT, None, (200,)),
    "GET /workers/{id}": (ROOT, None, (200,)),
    "PATCH /workers/{id}": (ROOT, {"concurrency": 2}, (200,)),
    "POST /workers/{id}/dead": (ROOT, None, (200,)),
    "GET /machines": (READ, None, (200,)),
    "GET /machines/{kind}/graph": (READ, None, (404,)),  # this server has no code
    "GET /audit": (READ, None, (200,)),
    "GET /audit/export": (READ, None, (200,)),
    "GET /doctor": (ROOT, None, (200,)),
    "GET /stats": (READ, None, (200,)),
    "GET /errors": (READ, None, (200,)),
    "GET /errors/{fingerprint}": (READ, None, (404,)),  # there is none
    "GET /overview": (READ, None, (200,)),
    "GET /admin/overview": (ROOT, None, (200,)),
    "GET /jobs/{id}/audit": (READ, None, (200,)),
    "GET /admin/tenants": (ROOT, None, (200,)),
    "POST /admin/tenants": (ROOT, {"slug": "new"}, (201,)),
    "GET /admin/tenants/{id}": (ROOT, None, (200,)),
    "PATCH /admin/tenants/{id}": (ROOT, {"slug": "renamed"}, (200,)),
    "POST /admin/tenants/{id}/suspend": (ROOT, None, (200,)),
    "POST /admin/tenants/{id}/resume": (ROOT, None, (200,)),
    "DELETE /admin/tenants/{id}": (ROOT, None, (200,)),
}


SHARED = (
    *("/definitions/{id}", "/admin/jobs/definitions/{id}", "/reservations/{id}"),
    *("/workers/{id}", "/workers/{id}/dead"),
)
"""What all tenants share."""


def _name(route: Route) -> str:
    return f"{route.method} {route.path}"


def test_every_route_has_a_row() -> None:
    assert {_name(route) for route in ROUTES} == MATRIX.keys()


def _grouped(owner: Any) -> str:
    """The id of a group of one job."""
    return str(owner.group([owner._definitions.build("report", {}, {}, now=0, limit=2**20)]).id)


def _stored(app: Headway, owner: Any) -> str:
    """The id of an artifact in another host's folder."""
    ops, worker, artifact_id = app.store.ops, new_id(), new_id()
    app.store.run(ops.register(new_worker(id=worker)))
    claim = app.store.run(ops.take(worker, owner.enqueue("report").id, reservation_id=None))
    assert claim is not None
    made = NewArtifact(
        id=artifact_id,
        tenant_id=claim.tenant_id,
        job_id=claim.id,
        fence=claim.fence,
        name="report.csv",
        content_type="text/csv",
        store="folder:elsewhere@other:/var",
        path=artifact_id,
    )
    app.store.run(ops.keep_artifact(made, size=1, sha256="ab"))
    return artifact_id


@pytest.fixture
def ask(app: Headway, client: Any, keys: dict[str, str]) -> Any:
    def ask(route: Route, role: Role, *, of: str = "acme", named: str | None = None) -> int:
        """The status of a request by acme's key of this role about something that the tenant `of` has."""
        owner = app.tenant(of)
        params = {"name": "mail", "scope": "queue", "key": f"t/{of}", "kind": "order", "fingerprint": 16 * "0"}
        if "{key}" in route.path:
            owner.enqueue("report", train=params["key"])
        if route.path.startswith("/jobs/triggers/{id}"):
            params["id"] = owner.create_schedule(f"s-{new_id()}", "@daily", kind="report").id
        elif route.path.startswith("/templates/{id}"):
            params["id"] = owner.create_template(f"t-{new_id()}", "report").id
        elif route.path.startswith("/connectors/{id}"):
            params["id"] = owner.create_connector(f"c-{new_id()}", "https://shop.example").id
        elif route.path.startswith("/artifacts/{id}"):
            params["id"] = _stored(app, owner)
        elif route.path.startswith("/groups/{id}"):
            params["id"] = _grouped(owner)
        elif route.path.startswith("/reservations/{id}"):
            params["id"] = app.reserve_queue(f"q-{new_id()}").id
        elif route.path.startswith("/workers/{id}"):
            params["id"] = new_id()
            app.store.run(app.store.ops.register(new_worker(id=params["id"])))
        elif route.path in SHARED:
            params["id"] = "welcome"
        elif route.path.startswith(("/jobs/{id}", "/worker/jobs/{id}")):
            params["id"] = owner.enqueue("welcome", {"user_id": 7}).id
        elif route.path.startswith("/events/{id}"):
            params["id"] = owner.emit("sold")
        elif route.path.startswith("/keys/{id}"):
            params["id"] = owner.create_api_key("other", "viewer").key.id
        elif route.path.startswith("/admin/tenants/{id}"):
            params["id"] = app.create_tenant(f"{of}-{new_id()[-8:]}").slug
            if named == of:
                named = params["id"]
        headers = {} if named is None else {"Headway-Tenant": named}
        body = MATRIX[_name(route)][1]
        if route.path == "/worker/jobs/claim":
            body = body | {"worker_id": str(uuid4())}
        said = client(keys[role])(route.method, route.path.format(**params), json=body, headers=headers)
        assert said.headers["x-request-id"]
        return int(said.status_code)

    return ask


def test_own_tenant(ask: Any) -> None:
    wrong = {}
    for route, role in product(ROUTES, ROLES):
        roles, _, answers = MATRIX[_name(route)]
        named = "acme" if role == "superadmin" else None
        found = ask(route, role, named=named)
        expected = answers if role in roles else (403,)
        if found not in expected:
            wrong[role, _name(route)] = (found, expected)
    assert wrong == {}


def test_what_is_another_tenants_is_not_there(ask: Any) -> None:
    wrong = {}
    for route, role in product(ROUTES, ROLES):
        roles, _, _ = MATRIX[_name(route)]
        if role not in roles:
            continue
        named = "acme" if role == "superadmin" else None
        if (
            "{id}" in route.path
            and route.path not in SHARED
            and (found := ask(route, role, of="other", named=named)) != 404
        ):
            wrong[role, _name(route)] = found
        if role != "superadmin" and (found := ask(route, role, named="other")) != 404:
            wrong[role, f"{_name(route)} of a named tenant"] = found
    assert wrong == {}


def test_nobody_gets_in_without_a_key(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Strangers, "take", lambda *_: None)  # else most of them are refused as too many
    for key in (None, "nonsense", new_key().text, new_key().text[:-1]):
        stranger = client(key)
        for route in ROUTES:
            assert stranger(route.method, route.path.format_map(defaultdict(lambda: "x"))).status_code == 401
        assert [stranger.get(path).status_code for path in ("/openapi.json", "/docs")] == [401, 401]
        assert stranger.get("/healthz").status_code == 200
        assert stranger.get("/readyz").status_code == 200


def test_a_revoked_and_an_expired_key_are_refused(app: Headway, client: Any, api: Any) -> None:
    made = app.create_api_key("root", "superadmin")
    ask = client(made.text)
    assert ask.get("/jobs").status_code == 200
    app.revoke_api_key(made.key.id)
    api.keys.forget(made.key.id)  # it would look again after five seconds
    assert ask.get("/jobs").status_code == 401


def test_a_key_for_one_queue_sees_and_touches_only_that(app: Headway, client: Any) -> None:
    acme = app.tenant("acme")
    ask = client(acme.create_api_key("mailer", "operator", queues=["mail"]).text)
    mine, other = acme.enqueue("welcome", {"user_id": 7}).id, acme.enqueue("report").id
    assert [each["id"] for each in ask.get("/jobs").json()["items"]] == [mine]
    assert ask.get(f"/jobs/{other}").status_code == 404
    assert ask.post(f"/jobs/{other}/cancel", json={}).status_code == 404
    assert ask.post("/jobs", json={"kind": "report"}).status_code == 403
    assert ask.post("/jobs", json={"kind": "welcome", "payload": {"user_id": 8}}).status_code == 201
    assert ask("PATCH", f"/jobs/{mine}", json={"queue": "default"}).status_code == 403
    assert [each["name"] for each in ask.get("/queues").json()["items"]] == ["mail"]


def test_a_caller_keeps_within_the_bounds_of_the_definition(app: Headway, client: Any, keys: dict[str, str]) -> None:
    job = {"kind": "welcome", "payload": {"user_id": 7}}
    ask, root = client(keys["operator"]), client(keys["superadmin"])
    for option in ({"queue": "default"}, {"timeout": "9h"}, {"partition": "x"}):
        said = ask.post("/jobs", json=job | option)
        assert (said.status_code, said.json()["code"]) == (403, "NotAllowed"), said.text
        assert next(iter(option)) in said.json()["detail"]
        assert root.post("/jobs", json=job | option, headers={"Headway-Tenant": "acme"}).status_code == 201
    made = ask.post("/jobs", json=job | {"queue": "mail"}).json()["id"]
    assert ask("PATCH", f"/jobs/{made}", json={"queue": "default"}).status_code == 403
    app.change_definition("welcome", active=False)
    app._definitions.expire()
    assert ask.post("/jobs", json=job).status_code == 422
    assert app.counts() == {"queued": 4}


def test_an_admin_makes_no_wider_key(client: Any, keys: dict[str, str]) -> None:
    ask = client(keys["admin"])
    assert ask.post("/keys", json={"name": "root", "role": "superadmin"}).status_code == 403
    assert ask.post("/keys", json={"name": "more", "role": "admin"}).status_code == 201
    assert len(ask.get("/keys").json()["items"]) == 6
