"""What clients of earlier releases say is answered with every field that they were answered with then.

The recordings are made by recorded/record.py, with the code of their release.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from headway import Headway

RECORDED = sorted((Path(__file__).parent / "recorded").glob("*.json"))
_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@pytest.mark.parametrize("recording", RECORDED, ids=lambda path: path.stem)
def test_an_earlier_client_is_answered_as_it_was(recording: Path, app: Headway, client: Any) -> None:
    code = Headway(app.url)
    code.job(name="play", queue="plays")(lambda text: text)
    code.run(until_idle=True)
    code.close()
    ask = {"producer": client(app.create_api_key("p", "operator").text)}
    ask["worker"] = client(app.create_api_key("w", "worker").text)
    now: dict[str, str] = {}  # ids of then, and of now
    for said in json.loads(recording.read_text()):
        path = _translated(said["path"], now).removeprefix("/api/v1")
        body = json.loads(_translated(json.dumps(said["body"]), now))
        options = {"headers": said["headers"]} | ({} if body is None else {"json": body})
        answer = ask[said["key"]](said["method"], path, **options)
        what = f"{said['method']} {path}: {answer.text}"
        assert answer.status_code == said["status"], what
        if said["answer"] is not None:
            _compare(said["answer"], answer.json(), now, what)


def _translated(text: str, now: dict[str, str]) -> str:
    return _ID.sub(lambda found: now.get(found[0], found[0]), text)


def _compare(then: Any, today: Any, now: dict[str, str], what: str) -> None:
    """The same fields, of the same types; more is no harm."""
    if isinstance(then, dict):
        assert isinstance(today, dict), what
        assert then.keys() <= today.keys(), f"{sorted(then.keys() - today.keys())} lack in {what}"
        for name, value in then.items():
            _compare(value, today[name], now, f"{name} in {what}")
    elif isinstance(then, list):
        assert len(then) == len(today), what
        for before, after in zip(then, today, strict=True):
            _compare(before, after, now, what)
    elif isinstance(then, str) and _ID.fullmatch(then):
        assert _ID.fullmatch(today), what
        now.setdefault(then, today)
    else:
        assert type(then) is type(today), what
        if isinstance(then, bool) or then in ("succeeded", "queued", "scheduled", "dead", "canceled", "running"):
            assert then == today, what
