"""Large bodies are decoded beside the event loop, so that other requests are answered meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from headway import Headway
from headway.api import application
from tests.api.conftest import Client


def test_a_large_batch_is_decoded_in_a_thread(
    app: Headway, client: Callable[[str | None], Client], keys: dict[str, str], monkeypatch: Any
) -> None:
    threads: list[int] = []
    decode = application.decode_body

    def noted(*given: Any, **options: Any) -> Any:
        threads.append(threading.get_ident())
        return decode(*given, **options)

    monkeypatch.setattr(application, "decode_body", noted)
    ask = client(keys["producer"])
    job = {"kind": "report", "payload": {"text": "x" * 2_000}}
    small, large = ask.post("/jobs", json=job), ask.post("/jobs/batch", json={"jobs": [job] * 120})
    assert (small.status_code, large.status_code, len(large.json()["jobs"])) == (201, 201, 120)
    assert ask.post("/jobs/batch", json={"jobs": [job] * 120, "more": 1}).status_code == 422
    here = threading.get_ident()
    assert [each == here for each in threads] == [True, False, False]
