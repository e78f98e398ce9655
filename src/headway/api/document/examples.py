"""Examples of what a request may say, by the name of its route, one for each body; a test sends each of them."""

from __future__ import annotations

from typing import Any

_WELCOME = {"kind": "welcome", "payload": {"user_id": 7}}

_NIGHTLY = {"label": "Nightly report", "cron_expr": "0 2 * * *", "timezone": "Europe/Paris", **_WELCOME}
_ON_SIGN_UP = {
    "label": "Welcome",
    "event_name": "user.signed_up",
    "kind": "welcome",
    "payload": {"user_id": "{user_id}"},
}
_JOB = "0197a5c2-7f1e-7c3b-9d52-0c9d8e7f6a5b"
_CLAIM = {"worker_id": "7b1c5a52-0f5e-4d5c-9a49-5e6b0f6f2a02", "fence": 1}
_WORKER = {"worker_id": _CLAIM["worker_id"]}
_HELD = {"id": _JOB, "fence": 1}

EXAMPLES: dict[str, Any] = {
    "create_job": _WELCOME | {"delay": "5m", "unique_key": "welcome-7", "tags": ["signup"]},
    "create_jobs": {"jobs": [_WELCOME, _WELCOME | {"priority": 10}]},
    "act_on_jobs": {"action": "cancel", "filter": {"status": ["queued"], "kind": ["welcome"]}, "dry_run": True},
    "cancel_job": {"reason": "no longer needed"},
    "change_job": {"priority": 10, "tags": ["urgent"]},
    "move_job": {"first": True},
    "signal_job": {"name": "paid", "payload": {"amount": 12.50}},
    "accept_flow": {"from_seq": 3},
    "fork_job": {"at": 2, "state": {"step": "again"}},
    "emit": {"name": "user.signed_up", "payload": {"user_id": 7}},
    "emit_many": {"events": [{"name": "user.signed_up", "payload": {"user_id": 7}}]},
    "create_key": {"name": "shop", "role": "producer"},
    "retry_job": {"delay": "10m", "max_attempts": 3},
    "create_trigger": {"trigger_type": "schedule", **_NIGHTLY},
    "preview_times": {"cron_expr": "0 2 * * *", "timezone": "Europe/Paris", "count": 3},
    "test_unsaved": {**_ON_SIGN_UP, "sample": {"user_id": 7}},
    "change_trigger": {"cron_expr": "30 2 * * *", "is_enabled": True},
    "run_trigger": {"payload": {"user_id": 8}},
    "test_trigger": {"payload": {"user_id": 7}},
    "create_definition": {
        "key": "resize",
        "description": "Resize an image.",
        "arg_schema": {"type": "object", "properties": {"image": {"type": "string"}}, "required": ["image"]},
        "timeout_seconds": 60,
        "max_attempts": 3,
    },
    "change_definition": {"max_attempts": 5, "is_active": True},
    "create_template": {"name": "welcome-7", **_WELCOME, "options": {"priority": 10}},
    "change_template": {"description": "Greets the first user."},
    "run_template": {"payload": {"user_id": 8}},
    "create_connector": {
        "name": "billing",
        "kind": "connector.webhook.deliver",
        "url": "https://billing.example/hooks",
        "events": ["job.dead"],
    },
    "change_connector": {"description": "Tells billing.", "enabled": True},
    "rotate_connector": {"overlap": "1h"},
    "set_limit": {"kind": "welcome", "max_running": 5, "rate": "100/min"},
    "make_reservation": {"queue": "mail", "expires": "10m"},
    "change_queue": {"max_running": 5, "fair": True},
    "change_worker": {"queues": {"mail": 5}, "concurrency": 5},
    "hold_train": {"reason": "the invoice is being checked"},
    "skip_car": {"job_id": _JOB},
    "create_group": {"jobs": [_WELCOME, _WELCOME | {"priority": 10}], "mode": "sequential", "on_failure": "stop"},
    "cancel_group": {"reason": "no longer needed"},
    "create_tenant": {"slug": "newcomer", "tz": "Europe/Paris"},
    "change_tenant": {"slug": "renamed"},
    "claim_jobs": {**_WORKER, "claim_id": "1", "queues": ["mail"], "kinds": ["welcome"], "limit": 5, "wait": 0},
    "heartbeat_job": {**_CLAIM, "progress": 0.5, "note": "connected", "log": "sent 5 of 10\n"},
    "heartbeat": {**_WORKER, "jobs": [_HELD]},
    "complete_job": {**_CLAIM, "result": {"sent": True}},
    "fail_job": {**_CLAIM, "error": "no route to the mail server", "retry": True, "delay": "5m"},
    "settle_jobs": {**_WORKER, "jobs": [{**_HELD, "result": {"sent": True}}]},
    "release_jobs": {**_WORKER, "jobs": [_HELD], "leave": True},
}
