"""Plain jobs: what most are, and what the shorter ways of the stores and the worker are for."""

from __future__ import annotations

from operator import attrgetter

from headway.model.job import Claim, NewJob

_FREE = (
    *("id", "tenant", "kind", "queue", "payload", "priority"),
    *("max_attempts", "max_losses", "backoff_base_ms", "backoff_cap_ms", "timeout_ms"),
)
_FIXED = attrgetter(*(name for name in NewJob.__struct_fields__ if name not in _FREE))
_DEFAULTS = _FIXED(NewJob(id="", kind=""))


def is_plain(job: NewJob) -> bool:
    """Whether it is the default tenant's, starts at once, and is tied to nothing: no key, no order, no limit of its
    own, nothing that it was made of."""
    return _FIXED(job) == _DEFAULTS and job.tenant in (None, "default")


def first_claim(job: NewJob) -> Claim:
    """The claim that starts a new plain job."""
    return Claim(
        id=job.id,
        tenant_id=job.tenant_id,
        kind=job.kind,
        queue=job.queue,
        payload=job.payload,
        fence=1,
        tries=0,
        losses=0,
        max_attempts=job.max_attempts,
        max_losses=job.max_losses,
        backoff_base_ms=job.backoff_base_ms,
        backoff_cap_ms=job.backoff_cap_ms,
        timeout_ms=job.timeout_ms,
        delivery=job.delivery,
        correlation_id=None,
        trace_id=None,
        meta=None,
    )
