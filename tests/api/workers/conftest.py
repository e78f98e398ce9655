"""A worker over HTTP, by hand."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from headway import Headway


@pytest.fixture
def work(app: Headway, client: Any) -> Any:
    """Asks as a worker of all tenants: `work("claim", queues=["mail"])`, `work("complete", job, result=1)`."""
    return Worker(client(app.create_api_key("worker", "worker", tenant=None).text))


class Worker:
    def __init__(self, ask: Any) -> None:
        self.ask, self.id = ask, str(uuid4())

    def claim(self, *queues: str, limit: int = 10, **more: Any) -> list[dict[str, Any]]:
        said = self.ask.post(
            "/worker/jobs/claim", json={"worker_id": self.id, "queues": queues or ["mail"], "limit": limit, **more}
        )
        assert said.status_code == 200, said.text
        return said.json()["jobs"]

    def say(self, what: str, job: dict[str, Any], **more: Any) -> Any:
        body = {"worker_id": self.id, "fence": job["fence"], **more}
        return self.ask.post(f"/worker/jobs/{job['id']}/{what}", json=body)

    def many(self, what: str, **more: Any) -> Any:
        return self.ask.post(f"/worker/{what}", json={"worker_id": self.id, **more})
