"""Jobs over HTTP."""

from __future__ import annotations

from typing import Any

from headway import Headway


def test_a_job_is_enqueued_and_found(app: Headway, client: Any, keys: dict[str, str]) -> None:
    producer = client(keys["producer"])
    made = producer.post("/jobs", json={"kind": "welcome", "payload": {"user_id": 7}})
    assert made.status_code == 201, made.text
    body = made.json()
    assert (body["created"], body["queue"], body["status"]) == (True, "mail", "queued")
    shown = producer.get(f"/jobs/{body['id']}")
    assert shown.json()["payload"] == {"user_id": 7}
    assert producer.get("/jobs").status_code == 403
    listed = client(keys["viewer"]).get("/jobs?status=queued&status=dead&limit=1")
    assert [each["id"] for each in listed.json()["items"]] == [body["id"]], listed.text
    assert (
        client(keys["operator"]).post(f"/jobs/{body['id']}/cancel", json={"reason": "no"}).json()["status"]
        == "canceled"
    )
    assert app.get(body["id"]).created_by.startswith("key:")
