"""Makes signals to be sent: checked, encoded, addressed by a job's id or by a machine's unique key."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from headway import secrets
from headway.define import checks
from headway.model.codec import check_text, encode
from headway.model.ids import as_id, new_id
from headway.model.signal import NewSignal


def signal_to(
    job_id: str | UUID, name: str, payload: Any = None, *, dedup_key: str | None = None, limit: int
) -> NewSignal:
    """A signal to the job of this id; raises `InvalidJob`, `InvalidPayload`."""
    return NewSignal(id=new_id(), job_id=as_id(job_id), **_content(name, payload, dedup_key, limit))


def signal_to_key(
    kind: str,
    unique_key: str,
    name: str,
    payload: Any = None,
    *,
    dedup_key: str | None = None,
    tenant: str | UUID | None = None,
    limit: int,
) -> NewSignal:
    """A signal to the machine of this kind that has the unique key now; raises `InvalidJob`, `InvalidPayload`."""
    return NewSignal(
        id=new_id(),
        kind=checks.name(kind, "kind"),
        unique_key=check_text(unique_key, "unique_key"),
        **({} if tenant is None else checks.tenant(tenant, "tenant")),
        **_content(name, payload, dedup_key, limit),
    )


def _content(name: str, payload: Any, dedup_key: str | None, limit: int) -> dict[str, Any]:
    text = encode(payload, limit=limit, what="signal")
    secrets.check_none(text, "signal")
    return {
        "name": checks.name(name, "signal"),
        "payload": text,
        "dedup_key": None if dedup_key is None else check_text(dedup_key, "dedup_key"),
    }
