"""Worker ids: each belongs to a key and a tenant, and is nobody else's afterwards."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from headway import Headway
from tests.api.workers.conftest import Worker


@pytest.fixture
def thefts() -> dict[str, dict[str, Any]]:
    """What somebody may try who knows a worker's id, its claim's id, and the job: a request of each kind."""
    job = {"id": "$id", "fence": 1}
    worker = {"worker_id": "$worker"}
    return {
        "/worker/jobs/claim": worker | {"claim_id": "known", "queues": ["mail"]},
        "/worker/heartbeat": worker | {"jobs": [job | {"log": "mine now"}]},
        "/worker/settle": worker | {"jobs": [job | {"result": "mine now"}]},
        "/worker/release": worker | {"jobs": [job]},
        "/worker/jobs/$id/heartbeat": worker | {"fence": 1, "log": "mine now"},
        "/worker/jobs/$id/complete": worker | {"fence": 1, "result": "mine now"},
        "/worker/jobs/$id/fail": worker | {"fence": 1, "error": "mine now"},
        "/worker/jobs/$id/artifacts?worker_id=$worker&fence=1&name=a": {},
    }


def _try(ask: Any, thefts: dict[str, dict[str, Any]], worker: str, job: str) -> dict[str, int]:
    said = {}
    for path, body in thefts.items():
        filled = msgspec.json.encode(body).decode().replace("$id", job).replace("$worker", worker)
        where = path.replace("$id", job).replace("$worker", worker)
        answer = ask.post(where, content=filled, headers={"Content-Type": "application/json"})
        said[path] = answer.status_code
        assert "hello" not in answer.text, (path, answer.text)
    return said


def test_no_other_tenant_takes_over_a_worker(app: Headway, client: Any, thefts: dict[str, dict[str, Any]]) -> None:
    acme, other = app.tenant("acme"), app.tenant("other")
    mine = Worker(client(acme.create_api_key("w", "worker").text))
    thief = client(other.create_api_key("w", "worker").text)
    job_id = acme.enqueue("report", {"secret": "hello"}, queue="mail").id
    assert len(mine.claim(claim_id="known")) == 1
    before = app.get(job_id)
    assert set(_try(thief, thefts, mine.id, job_id).values()) <= {403, 404}
    assert mine.many("release", leave=True).status_code == 200  # while its job runs
    before = app.get(job_id)
    assert set(_try(thief, thefts, mine.id, job_id).values()) <= {403, 404, 409}
    assert app.get(job_id) == before


def test_an_id_is_not_used_again(app: Headway, client: Any) -> None:
    acme, other = app.tenant("acme"), app.tenant("other")
    keys = [acme.create_api_key("w", "worker"), acme.create_api_key("v", "worker"), other.create_api_key("w", "worker")]
    workers = [Worker(client(each.text)) for each in keys]
    (own, *others) = workers

    def claims(*, by: Worker, of: Worker) -> int:
        return by.ask.post("/worker/jobs/claim", json={"worker_id": of.id, "queues": ["mail"]}).status_code

    assert claims(by=own, of=own) == 200
    app.declare_dead(own.id)  # its key goes on under this id, as clients do
    assert {claims(by=each, of=own) for each in others} <= {403, 409}
    assert claims(by=own, of=own) == 200
    assert {claims(by=each, of=own) for each in others} == {403}
    assert own.many("release", leave=True).status_code == 200
    assert [claims(by=each, of=own) for each in workers] == [409, 409, 409]
    assert own.id not in [each.id for each in app.workers()]
