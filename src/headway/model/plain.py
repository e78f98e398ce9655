"""Plain jobs: no key, order or limit, as most are. PostgreSQL enqueues one of them by a shorter function."""

from __future__ import annotations

from operator import attrgetter

from headway.model.job import NewJob

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
