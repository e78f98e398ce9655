"""Examples of what a request may say, by the name of its route; a test sends each of them."""

from __future__ import annotations

from typing import Any

_WELCOME = {"kind": "welcome", "payload": {"user_id": 7}}

EXAMPLES: dict[str, Any] = {
    "create_job": _WELCOME | {"delay": "5m", "unique_key": "welcome-7", "tags": ["signup"]},
    "create_jobs": {"jobs": [_WELCOME, _WELCOME | {"priority": 10}]},
    "act_on_jobs": {"action": "cancel", "filter": {"status": ["queued"], "kind": ["welcome"]}, "dry_run": True},
    "cancel_job": {"reason": "no longer needed"},
    "change_job": {"priority": 10, "tags": ["urgent"]},
    "move_job": {"first": True},
    "signal_job": {"name": "paid", "payload": {"amount": 12.50}},
    "fork_job": {"at": 2, "state": {"step": "again"}},
    "emit": {"name": "user.signed_up", "payload": {"user_id": 7}},
    "emit_many": {"events": [{"name": "user.signed_up", "payload": {"user_id": 7}}]},
    "create_key": {"name": "shop", "role": "producer"},
}
