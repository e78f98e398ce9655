"""Change a job that waits."""

from __future__ import annotations

from typing import Any

import msgspec

from headway.model.job import Change
from headway.model.status import Status
from headway.store.ops import Op
from headway.store.ops.jobs import LockedNoun
from headway.store.postgres.engine.verbs import call, first, nothing


class ChangeVerbs:
    def change(self, job_id: str, change: Change, *, tenant_id: str | None, actor: str | None) -> Op[Status | None]:
        return call(
            "select headway.change($1::uuid, $2::json, $3::uuid, $4)",
            [job_id, change_json(change), tenant_id, actor],
            first,
        )

    def lock_row(self, noun: LockedNoun, ref: str, *, tenant_id: str | None) -> Op[None]:
        return call("select headway.lock_row($1, $2, $3::uuid)", [noun, ref, tenant_id], nothing)


def change_json(change: Change) -> str:
    """What it sets, as the functions read it."""
    given: dict[str, Any] = {
        name: value for name in change.__struct_fields__ if (value := getattr(change, name)) is not msgspec.UNSET
    }
    for name in ("payload", "meta"):
        if isinstance(given.get(name), str):
            given[name] = msgspec.Raw(given[name].encode())
    return msgspec.json.encode(given).decode()
