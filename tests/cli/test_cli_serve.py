"""`headway serve` as a process: it says where it listens, answers, and ends in good order."""

from __future__ import annotations

import json
import signal
import urllib.request
from typing import Any

from headway import Headway


def test_it_serves_until_it_is_told_to_stop(cli: Any, start: Any, app: Headway, url: str) -> None:
    key = cli("--url", url, "keys", "create", "root", "--role", "superadmin").stdout.strip()
    server = start("--url", url, "--log-format", "json", "serve", "--port", "0")
    lines = (json.loads(line) for line in server.stderr)
    where = next(line["url"] for line in lines if line["event"] == "serving")
    request = urllib.request.Request(f"{where}/api/v1/queues", headers={"Authorization": f"Bearer {key}"})
    with urllib.request.urlopen(request, timeout=180) as answer:
        assert json.load(answer) == {"items": [], "next_cursor": None}
    logged = next(line for line in lines if line["event"] == "request")
    assert (logged["status"], logged["path"], logged["key_id"]) == (200, "/api/v1/queues", key.split("_")[2])
    server.send_signal(signal.SIGTERM)
    assert server.wait(180) in (0, -signal.SIGTERM)
    assert app.api_keys()[0].last_used_at is not None


def test_what_it_refuses(cli: Any, app: Headway, url: str) -> None:
    assert "there is no key yet" in cli.refused("--url", url, "serve", "--host", "0.0.0.0", "--port", "0", code=2)
    assert "go together" in cli.refused("--url", url, "serve", "--tls-key", "shopapp.py", code=2)
    assert "not an address" in cli.refused("--url", url, "serve", "--host", "no such host", code=2)
