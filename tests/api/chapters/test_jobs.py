"""Jobs over HTTP."""

from __future__ import annotations

import asyncio
from typing import Any

from headway import Headway
from headway.model.job import Settlement
from tests.store.db import new_worker


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


TEXT = '{"user_id": 123456789012345678901234567890, "price": 1.10, "token": "s3cret", "b": [ 1E2, "\\u00e9" ]}'


def test_a_wait_for_a_result_ends_with_the_server(
    app: Headway, api: Any, loop: Any, client: Any, keys: dict[str, str]
) -> None:
    job_id, ask = app.tenant("acme").enqueue("report").id, client(keys["viewer"])
    path = f"/api/v1/jobs/{job_id}/result?wait=30"

    async def go() -> Any:
        waiting = asyncio.create_task(ask._ask("GET", path, ask._headers, {}))
        done, _ = await asyncio.wait({waiting}, timeout=0.2)
        assert not done
        api.stopping.set()
        return await asyncio.wait_for(waiting, 20)

    said = loop.run_until_complete(go())
    assert (said.status_code, said.json()["status"]) == (202, "queued")


def test_json_passes_through_as_text(app: Headway, client: Any, keys: dict[str, str]) -> None:
    ask = client(keys["operator"])
    json = {"Content-Type": "application/json"}
    body = f'{{"kind": "report", "payload": {TEXT}, "train": "t"}}'
    made = ask.post("/jobs", content=body, headers=json).json()["id"]
    batch = ask.post("/jobs/batch", content=f'{{"jobs": [{body}, {body}]}}', headers=json).json()["jobs"][1]["id"]
    other = ask.post("/jobs", json={"kind": "report"}).json()["id"]
    changed = ask("PATCH", f"/jobs/{other}", content=f'{{"payload": {TEXT}}}', headers=json)
    assert changed.status_code == 200, changed.text
    for job_id in (made, batch, other):
        assert f'"payload":{TEXT},' in ask.get(f"/jobs/{job_id}").text
    assert ask.get("/jobs").text.count(TEXT) == 4
    assert ask.get("/queues/default/jobs").text.count(TEXT) == 2  # the others come later in the train
    assert ask.get("/trains/t").text.count(TEXT) == 3
    event = ask.post("/events", content=f'{{"name": "sold", "payload": {TEXT}}}', headers=json).json()["id"]
    assert TEXT in ask.get(f"/events/{event}").text
    assert TEXT in ask.get("/events").text
    sent = ask.post(f"/jobs/{made}/signal", content=f'{{"name": "paid", "payload": {TEXT}}}', headers=json)
    assert sent.status_code == 201, sent.text
    assert TEXT in ask.get(f"/jobs/{made}/signals").text
    assert app.get(made, raw=True).payload == app.get(other, raw=True).payload
    for bad in ('{"a": 1e400}', '{"a": "\\u0000"}', '{"a": "\\ud800 "}', "[]", "7"):
        said = ask.post("/jobs", content=f'{{"kind": "report", "payload": {bad}}}', headers=json)
        assert said.status_code in (400, 422), (bad, said.text)


def test_a_result_passes_through_as_text(app: Headway, client: Any, keys: dict[str, str]) -> None:
    acme = app.tenant("acme")
    made = acme.enqueue("report").id
    store = app.store
    worker = new_worker(queues={"default": 1})
    store.run(store.ops.register(worker))
    (claim,) = store.run(store.ops.claim(worker.id, "default", 1))
    done = Settlement(id=made, fence=claim.fence, status="succeeded", to="succeeded", charge=1, result=TEXT)
    store.run(store.ops.settle(worker.id, [done]))
    ask = client(keys["producer"])
    assert f'"result":{TEXT},' in ask.get(f"/jobs/{made}").text
    assert f'"result":{TEXT},' in ask.get(f"/jobs/{made}/result?wait=1").text


def test_if_match_is_compared_with_the_job_as_it_is(app: Headway, client: Any, keys: dict[str, str]) -> None:
    acme, ask = app.tenant("acme"), client(keys["admin"])
    job_id = acme.enqueue("report").id
    path = f"/jobs/{job_id}"
    etag = ask.get(path).headers["etag"]
    assert ask.get(path).headers["etag"] == etag
    fields = {"priority": 3, "tags": ["a"], "meta": {"b": 1}, "max_losses": 9, "timeout": None, "expires_at": None}
    changed = ask("PATCH", path, json=fields, headers={"If-Match": etag})
    assert changed.status_code == 200, changed.text
    assert (changed.json()["tags"], changed.json()["meta"], changed.json()["max_losses"]) == (["a"], {"b": 1}, 9)
    assert changed.headers["etag"] == ask.get(path).headers["etag"] != etag
    stale = {"If-Match": f'"other", {etag}'}
    for method, action, body in (
        ("PATCH", "", {"priority": 1}),
        ("POST", "/cancel", {}),
        ("POST", "/run", None),
        ("POST", "/retry", None),
        ("POST", "/move", {"first": True}),
        ("DELETE", "", None),
    ):
        said = ask(method, path + action, json=body, headers=stale)
        assert (said.status_code, said.json()["code"]) == (412, "ChangedMeanwhile"), (action, said.text)
    assert acme.get(job_id).priority == 3
    fresh = {"If-Match": f'"other", {changed.headers["etag"]}'}
    assert ask.post(f"{path}/cancel", json={}, headers=fresh).json()["status"] == "canceled"
    assert ask("DELETE", path, headers={"If-Match": "*"}).status_code == 204


def test_what_does_not_run_can_be_deleted(app: Headway, client: Any, keys: dict[str, str]) -> None:
    acme, ask = app.tenant("acme"), client(keys["admin"])
    waits, runs = (acme.enqueue("report", queue=queue).id for queue in ("a", "b"))
    follower = acme.enqueue("report", after=[waits]).id
    assert ask("DELETE", f"/jobs/{waits}").status_code == 204
    assert ask.get(f"/jobs/{waits}").status_code == 404
    app.run(queues=["none"], until_idle=True)
    assert acme.get(follower).status == "canceled"  # as after a cancel: whatever waited for it is told
    claim = {"worker_id": "01900000-0000-4000-8000-0000000000ab", "queues": ["b"], "limit": 1}
    (claimed,) = client(keys["worker"]).post("/worker/jobs/claim", json=claim).json()["jobs"]
    assert claimed["id"] == runs
    said = ask("DELETE", f"/jobs/{runs}")
    assert (said.status_code, said.json()["code"]) == (409, "NotAllowed")
    assert not acme.get(runs).cancel_requested_at
