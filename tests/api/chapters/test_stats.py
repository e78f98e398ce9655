"""Numbers and problems over HTTP."""

from __future__ import annotations

from typing import Any

from headway import Headway


def test_a_tenant_sees_its_own_numbers_and_problems(app: Headway, client: Any, keys: dict[str, str]) -> None:
    acme = app.tenant("acme")
    acme.enqueue("welcome", {"user_id": 7})
    app.enqueue("report", queue="slow")
    for key, seen in (("viewer", {"welcome": 1}), ("superadmin", {"welcome": 1, "report": 1})):
        said = client(keys[key]).get("/stats?every=day&by=kind")
        assert said.status_code == 200, said.text
        assert {each["kind"]: each["enqueued"] for each in said.json()["items"]} == seen
        whole = client(keys[key]).get("/overview").json()
        assert whole["pulse"]["enqueued"] == len(seen)
        assert len(whole["problems"]) == len(seen)
        assert whole["problems"][0]["what"] == "no_worker"
    assert client(keys["viewer"]).get("/stats?queue=slow").json()["items"] == []
    assert client(keys["viewer"]).get("/stats?since=2020-01-01T00:00:00Z").status_code == 422
    tenants = client(keys["superadmin"]).get("/admin/overview").json()["tenants"]
    assert {each["tenant"] for each in tenants} == {"acme", "default"}
