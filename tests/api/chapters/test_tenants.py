"""Tenants over HTTP: a super admin creates, renames, suspends and deletes them."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from headway import Headway
from headway.api.chapters import ROUTES


def test_tenants_are_listed_created_renamed_and_deleted(app: Headway, client: Any, keys: dict[str, str]) -> None:
    ask = client(keys["superadmin"])
    made = ask.post("/admin/tenants", json={"slug": "globex"}).json()
    assert (made["slug"], made["suspended_at"]) == ("globex", None)
    page = ask.get("/admin/tenants?limit=2").json()
    rest = ask.get(f"/admin/tenants?limit=2&cursor={page['next_cursor']}").json()
    assert [each["slug"] for each in page["items"] + rest["items"]] == ["acme", "default", "globex"]
    assert rest["next_cursor"] is None
    assert ask("PATCH", f"/admin/tenants/{made['id']}", json={"slug": "initech"}).json()["slug"] == "initech"
    assert ask.get("/admin/tenants/globex").status_code == 404
    said = ask.post("/admin/tenants", json={"slug": "globex"})
    assert (said.status_code, said.json()["code"]) == (409, "Duplicate")
    app.tenant("initech").enqueue("report")
    counted = ask("DELETE", "/admin/tenants/initech?dry_run=true").json()
    assert (counted["dry_run"], counted["rows"]["jobs"]) == (True, 1)
    assert ask("DELETE", "/admin/tenants/initech").json()["rows"]["jobs"] == 1
    assert ask.get("/admin/tenants/initech").status_code == 404
    assert ask("DELETE", "/admin/tenants/default").status_code == 409
    entries = [each for each in app.audit_log() if each.action.startswith("tenant.")]
    assert [each.action for each in entries] == [
        f"tenant.{did}" for did in ("deleted", "suspended", "renamed", "created")
    ]
    assert entries[0].request_id
    assert entries[0].address == "127.0.0.1"


def test_a_suspended_tenant_reads_everything_and_writes_nothing(
    app: Headway, client: Any, keys: dict[str, str]
) -> None:
    acme, root = client(keys["admin"]), client(keys["superadmin"])
    job = acme.post("/jobs", json={"kind": "report"}).json()["id"]
    claim = {"worker_id": str(uuid4()), "queues": ["mail"]}  # so that there is a worker to look at
    assert client(keys["worker"]).post("/worker/jobs/claim", json=claim).json()["jobs"] == []
    assert root.post("/admin/tenants/acme/suspend").json()["suspended_at"]
    writes = {
        "/jobs": {"kind": "report"},
        "/jobs/batch": {"jobs": [{"kind": "report"}]},
        f"/jobs/{job}/cancel": {},
        f"/jobs/{job}/run": None,
        f"/jobs/{job}/signal": {"name": "paid"},
        "/events": {"name": "paid"},
        "/keys": {"name": "new", "role": "viewer"},
    }
    for path, body in writes.items():
        said = acme.post(path, json=body)
        assert (said.status_code, said.json()["code"]) == (403, "TenantSuspended"), (path, said.text)
    assert acme("PATCH", f"/jobs/{job}", json={"priority": 1}).status_code == 403
    assert root.post("/jobs", json={"kind": "report"}, headers={"Headway-Tenant": "acme"}).status_code == 403
    assert acme.get(f"/jobs/{job}").json()["status"] == "queued"
    assert len(acme.get("/jobs").json()["items"]) == 1
    for route in ROUTES:
        if route.method == "GET" and "admin" in route.roles and not route.streams:
            path = route.path.replace("/jobs/{id}", f"/jobs/{job}").format(**dict.fromkeys(route.params, "default"))
            said = acme.get(path)
            assert said.status_code in (200, 202, 404, 409, 422), (path, said.text)
    assert root.post("/admin/tenants/acme/resume").json()["suspended_at"] is None
    assert acme.post(f"/jobs/{job}/cancel", json={}).status_code == 200
