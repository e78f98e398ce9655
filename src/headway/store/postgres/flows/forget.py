"""Forget: rows of a flow's journal are taken back."""

from __future__ import annotations

from headway.store.ops import Op
from headway.store.postgres.engine.verbs import call, first


class ForgetVerbs:
    def forget(self, job_id: str, from_seq: int, *, tenant_id: str | None, actor: str | None) -> Op[bool]:
        return call(
            "select headway.forget($1::uuid, $2::integer, $3::uuid, $4)",
            [job_id, from_seq, tenant_id, actor],
            first,
            repeatable=False,
        )
