"""GET /metrics: for a super admin's key, and for nobody else."""

from __future__ import annotations

from typing import Any

from headway import Headway


def test_a_super_admin_may_scrape(app: Headway, client: Any, keys: dict[str, str]) -> None:
    app.enqueue("welcome", {"user_id": 7})
    said = client(keys["superadmin"]).get("/metrics")
    assert (said.status_code, said.headers["content-type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert "headway_up 1.0" in said.text
    assert 'headway_jobs{queue="mail",status="queued",tenant="default"} 1.0' in said.text
    for role, key in keys.items():
        if role != "superadmin":
            assert client(key).get("/metrics").status_code == 403, role
    assert client(None).get("/metrics").status_code == 401
