"""Idempotency-Key: the same request, sent again, has the same answer and no effect."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2 as httpx

from headway import Headway
from headway.api import Api

WELCOME = {"kind": "welcome", "payload": {"user_id": 7}}


def test_a_repeated_request_has_the_same_answer(app: Headway, client: Any, keys: dict[str, str]) -> None:
    ask = client(keys["operator"])
    machine = ask.post("/jobs", json=WELCOME | {"unique_key": "m"}).json()["id"]
    app.tenant("acme").create_template("t", "welcome")
    for path, body in (
        ("/jobs", WELCOME),
        ("/jobs", WELCOME | {"unique_key": "m"}),  # it meets a job, and answers 200
        ("/jobs/batch", {"jobs": [WELCOME, WELCOME | {"unique_key": "m"}]}),
        ("/events", {"name": "sold"}),
        ("/events/batch", {"events": [{"name": "sold"}, {"name": "sold"}]}),
        (f"/jobs/{machine}/signal", {"name": "paid"}),
        ("/groups", {"jobs": [WELCOME, WELCOME]}),
        ("/templates/t/run", {"payload": {"user_id": 8}}),
    ):
        key = {"Idempotency-Key": f"k-{len(str(body))}"}
        first = ask.post(path, json=body, headers=key)
        again = ask.post(path, json=body, headers=key)
        assert (again.status_code, again.json()) == (first.status_code, first.json()), first.text
        assert "idempotent-replayed" not in first.headers
        assert again.headers["idempotent-replayed"] == "true"
        other = ask.post(path, json=body | {"colour": 1}, headers=key)
        assert other.status_code == 422  # its own faults come first
        other = ask.post(path, content=httpx.Request("POST", "http://x", json=body).content + b" ", headers=key)
        assert (other.status_code, other.json()["code"]) == (409, "Duplicate"), other.text
        assert client(keys["admin"]).post(path, json=body, headers=key).status_code == first.status_code
    assert app.counts() == {"queued": 11}
    assert len(app.events()) == 6
    assert len(app.signals(machine)) == 2


def test_a_schedule_run_again_with_its_key_fires_once(app: Headway, client: Any, keys: dict[str, str]) -> None:
    ask, key = client(keys["operator"]), {"Idempotency-Key": "k"}
    made = app.tenant("acme").create_schedule("daily", "@daily", kind="report")
    run = f"/jobs/triggers/{made.id}/run"
    first = ask.post(run, json={}, headers=key)
    ask.post(run, json={})  # another fire, and newer
    again = ask.post(run, json={}, headers=key)
    assert (first.status_code, again.json(), again.headers["idempotent-replayed"]) == (201, first.json(), "true")
    assert ask.post(run, json={"payload": {"n": 2}}, headers=key).status_code == 409
    assert app.counts() == {"queued": 2}
    app.tenant("acme").delete_schedule("daily")
    assert ask.post(run, json={}, headers=key).status_code == 201, "never a second fire"
    assert ask.post(run, json={}).status_code == 404


def test_a_job_that_was_deleted_meanwhile_is_named(app: Headway, client: Any, keys: dict[str, str]) -> None:
    ask, key = client(keys["operator"]), {"Idempotency-Key": "k1"}
    made = ask.post("/jobs", json=WELCOME, headers=key).json()["id"]
    app.cancel(made)
    app.delete(made)
    said = ask.post("/jobs", json=WELCOME, headers=key)
    assert (said.status_code, said.json()["job_id"]) == (409, made)
    for bad in ("", "a b", "x" * 256):
        assert ask.post("/jobs", json=WELCOME, headers={"Idempotency-Key": bad}).status_code == 400
    assert app.counts() == {}


def test_many_at_once_with_one_key_have_one_effect(app: Headway, api: Api, loop: Any, keys: dict[str, str]) -> None:
    async def ask_all() -> list[httpx.Response]:
        transport = httpx.ASGITransport(app=api)
        headers = {"Authorization": f"Bearer {keys['producer']}", "Idempotency-Key": "k1"}
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=headers) as client:
            return await asyncio.gather(*(client.post("/api/v1/jobs", json=WELCOME) for _ in range(20)))

    said = loop.run_until_complete(ask_all())
    assert {each.status_code for each in said} == {201}
    assert len({each.json()["id"] for each in said}) == 1
    assert sum("idempotent-replayed" not in each.headers for each in said) == 1
    assert app.counts() == {"queued": 1}


def test_a_replay_does_not_depend_on_what_changed_since(app: Headway, client: Any, keys: dict[str, str]) -> None:
    ask, root = client(keys["operator"]), client(keys["superadmin"])
    once = {"Idempotency-Key": "first"}
    body = {"kind": "welcome", "payload": {"user_id": 7}}
    made = ask.post("/jobs", json=body, headers=once).json()
    signal = ask.post(f"/jobs/{made['id']}/signal", json={"name": "go"}, headers=once).json()
    root("PATCH", "/admin/jobs/definitions/welcome", json={"is_active": False})
    app._definitions.expire()
    assert ask.post("/jobs", json=body).status_code == 422
    assert ask.post("/jobs", json=body, headers={"Idempotency-Key": "second"}).status_code == 422
    again = ask.post("/jobs", json=body, headers=once)
    assert (again.status_code, again.json()["id"], again.headers["idempotent-replayed"]) == (201, made["id"], "true")
    assert ask.post("/jobs", json=body | {"payload": {}}, headers=once).status_code == 409
    root("PATCH", "/admin/jobs/definitions/welcome", json={"is_active": True})
    app._definitions.expire()
    assert ask.post("/jobs", json=body, headers={"Idempotency-Key": "second"}).status_code == 201, (
        "a refusal is not kept"
    )
    ask.post(f"/jobs/{made['id']}/cancel")
    client(keys["admin"])("DELETE", f"/jobs/{made['id']}")
    again = ask.post(f"/jobs/{made['id']}/signal", json={"name": "go"}, headers=once)
    assert (again.status_code, again.json()) == (201, signal)


def test_requests_with_keys_of_their_own_are_stored_together(
    app: Headway, api: Api, loop: Any, keys: dict[str, str], monkeypatch: Any
) -> None:
    """What each created is kept in the transaction of all: done again, each has its own answer."""
    sizes: list[int] = []
    once_each = type(app.store.ops).once_each

    def counted(self: Any, requests: Any, effect: Any) -> Any:
        sizes.append(len(requests))
        return once_each(self, requests, effect)

    monkeypatch.setattr(type(app.store.ops), "once_each", counted)

    async def ask_all(names: list[str | None], user_id: int = 7) -> list[httpx.Response]:
        body = {"kind": "welcome", "payload": {"user_id": user_id}}
        transport, known = httpx.ASGITransport(app=api), {"Authorization": f"Bearer {keys['producer']}"}
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=known) as client:
            return await asyncio.gather(
                *(
                    client.post("/api/v1/jobs", json=body, headers={} if name is None else {"Idempotency-Key": name})
                    for name in names
                )
            )

    names = [f"k{n}" for n in range(20)]
    first = loop.run_until_complete(ask_all([*names, None]))
    assert {each.status_code for each in first} == {201}
    assert max(sizes) > 1, "they were stored one by one"
    again = loop.run_until_complete(ask_all([*names, "new"]))
    assert [each.json()["id"] for each in again[:20]] == [each.json()["id"] for each in first[:20]]
    assert [each.headers.get("idempotent-replayed") for each in again] == ["true"] * 20 + [None]
    assert app.counts() == {"queued": 22}
    # one of them has another body than the request whose key it has: the others are not its business
    mixed = loop.run_until_complete(ask_all(["k3", "other", "other", "another"], user_id=8))
    assert [each.status_code for each in mixed] == [409, 201, 201, 201]
    assert mixed[1].json()["id"] == mixed[2].json()["id"] != mixed[3].json()["id"]
    assert app.counts() == {"queued": 24}
