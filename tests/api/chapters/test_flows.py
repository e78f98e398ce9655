"""Flows over HTTP: their journals, page by page."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from headway import Flow, Headway
from headway.testing import drain


@pytest.fixture
def flow_id(app: Headway) -> str:
    @app.job(queue="packing")
    def pack() -> str:
        return "parcel"

    def number(n: int) -> str:
        return str(n) * 2

    @app.flow(queue="orders")
    async def checkout(flow: Flow) -> None:
        for n in range(5):
            await flow.step(number, n)
        await flow.call(pack)
        await flow.receive("go")

    job = app.tenant("acme").enqueue("checkout")
    for _ in range(2):
        drain(app, "orders")
        drain(app, "packing")
    drain(app, "orders")
    return job.id


def test_a_journal_is_listed(client: Any, keys: dict[str, str], flow_id: str) -> None:
    said = client(keys["viewer"]).get(f"/jobs/{flow_id}/journal")
    assert said.status_code == 200, said.text
    items = said.json()["items"]
    assert [(row["place"], row["kind"]) for row in items] == [
        ("number", "done"),
        *((f"number#{n}", "done") for n in range(2, 6)),
        ("call:pack", "called"),
        ("call:pack", "ended"),
    ]
    assert (items[0]["value"], items[-1]["value"], items[-1]["status"]) == ("00", "parcel", "succeeded")
    assert said.json()["next_cursor"] is None


def test_a_journal_comes_in_pages(client: Any, keys: dict[str, str], flow_id: str) -> None:
    ask = client(keys["viewer"])
    places: list[str] = []
    query: dict[str, Any] = {"limit": 3}
    for _ in range(3):
        said = ask.get(f"/jobs/{flow_id}/journal", params=query).json()
        places += [row["place"] for row in said["items"]]
        query["cursor"] = said["next_cursor"]
    assert said["next_cursor"] is None
    assert places == ["number", "number#2", "number#3", "number#4", "number#5", "call:pack", "call:pack"]
    skipped = ask.get(f"/jobs/{flow_id}/journal?offset=5").json()["items"]
    assert [row["place"] for row in skipped] == ["call:pack", "call:pack"]
    for bad in ({"limit": 0}, {"limit": 201}, {"cursor": "x"}, {"nothing": 1}):
        assert ask.get(f"/jobs/{flow_id}/journal", params=bad).status_code == 422


def test_large_values_end_a_page(app: Headway, client: Any, keys: dict[str, str]) -> None:
    def much(n: int) -> str:
        return "x" * 900_000

    @app.flow
    async def large(flow: Flow) -> None:
        for n in range(7):
            await flow.step(much, n)

    job = app.tenant("acme").enqueue("large")
    drain(app)
    ask = client(keys["viewer"])
    first = ask.get(f"/jobs/{job.id}/journal").json()
    assert 4 <= len(first["items"]) < 7
    rest = ask.get(f"/jobs/{job.id}/journal", params={"cursor": first["next_cursor"]}).json()
    assert len(first["items"]) + len(rest["items"]) == 7


def test_what_was_taken_back_is_shown_if_asked_for(
    app: Headway, client: Any, keys: dict[str, str], flow_id: str
) -> None:
    app.accept(flow_id, 1)
    ask = client(keys["viewer"])
    assert ask.get(f"/jobs/{flow_id}/journal").json()["items"] == []
    every = ask.get(f"/jobs/{flow_id}/journal?everything=true").json()["items"]
    assert {row["counts"] for row in every if row["place"].startswith("number")} == {False}


def test_whose_journal_it_is(app: Headway, client: Any, keys: dict[str, str], flow_id: str) -> None:
    other = app.create_api_key("other", "admin", tenant="globex").text
    assert client(other).get(f"/jobs/{flow_id}/journal").status_code == 404
    plain = app.tenant("acme").enqueue("pack")
    assert client(keys["viewer"]).get(f"/jobs/{plain.id}/journal").status_code == 409
    narrow = app.create_api_key("narrow", "viewer", tenant="acme", kinds=["checkout"]).text
    called, ended = client(narrow).get(f"/jobs/{flow_id}/journal").json()["items"][-2:]
    assert (called["job_id"], ended["job_id"], ended["value"]) == (None, None, None)


def test_signals_of_the_engine_are_not_shown(client: Any, keys: dict[str, str], flow_id: str) -> None:
    ask = client(keys["viewer"])
    assert ask.get(f"/jobs/{flow_id}").json()["awaiting"] == ["go"]
    assert "$child" not in ask.get("/jobs").text + ask.get(f"/jobs/{flow_id}/signals").text
    assert ask.get("/machines").json()["items"] == []


def test_a_flow_is_accepted_and_forked(app: Headway, client: Any, keys: dict[str, str], flow_id: str) -> None:
    ask = client(keys["operator"])
    query = {"before": "number#4", "results": {"number": "first"}}
    made = ask.post(f"/jobs/{flow_id}/fork", json=query)
    assert (made.status_code, made.json()["forked_from"]) == (201, flow_id), made.text
    assert [row.value for row in app.journal(made.json()["id"])] == ["first", "1" * 2, "2" * 2]
    assert ask.post(f"/jobs/{flow_id}/fork", json={"before": "nothing"}).status_code == 404
    assert ask.post(f"/jobs/{flow_id}/accept", json={}).status_code == 409
    assert ask.post(f"/jobs/{flow_id}/accept", json={"from_seq": 1}).json() == {"id": flow_id, "from_seq": 1}
    assert client(keys["viewer"]).post(f"/jobs/{flow_id}/accept", json={"from_seq": 1}).status_code == 403
    assert ask.post(f"/jobs/{flow_id}/cancel", json={"at_once": True}).json()["status"] == "canceled"


def test_no_worker_over_http_gets_a_flow(app: Headway, client: Any, flow_id: str) -> None:
    app.accept(flow_id, 1)
    app.enqueue("pack", queue="orders")
    for tenant in (None, "acme", "default"):
        ask = client(app.create_api_key(f"worker of {tenant}", "worker", tenant=tenant).text)
        body = {"worker_id": str(uuid4()), "queues": ["orders"], "limit": 10}
        said = ask.post("/worker/jobs/claim", json=body).json()["jobs"]
        assert [job["kind"] for job in said] == (["pack"] if tenant is None else [])
    assert app.get(flow_id).status == "queued"
