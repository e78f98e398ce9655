"""Who may use the HTTP API: its keys; and what was asked through it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol, TypeVar

from headway.model.access import ApiKey, NewApiKey, Session, StoredKey
from headway.model.job_list import JobListPart, NewJobList
from headway.model.request import Request
from headway.store.ops.recipe import Op

T = TypeVar("T", bound=list[Any])


class Access(Protocol):
    def create_key(self, key: NewApiKey, *, actor: str | None) -> Op[ApiKey]:
        """Store a key. Audited. Made again after a lost answer, it is the same key."""
        ...

    def keys(self, *, tenant_id: str | None) -> Op[list[ApiKey]]:
        """The keys (of this tenant), oldest first, the revoked and expired ones too."""
        ...

    def find_key(self, key_id: str) -> Op[StoredKey | None]:
        """The key of this id, with the hash of its secret, whatever its state."""
        ...

    def revoke_key(self, key_id: str, *, tenant_id: str | None, actor: str | None) -> Op[ApiKey | None]:
        """Revoke a key, forever. Audited, unless it was revoked already. None where (this tenant has) no such key."""
        ...

    def touch_keys(self, used: Mapping[str, datetime]) -> Op[None]:
        """Note when keys were last used; an earlier time changes nothing."""
        ...

    def once(self, request: Request, effect: Op[T]) -> Op[T]:
        """Run `effect` (enqueue, emit or signal) and keep what it created under the request's key, in one transaction.
        Raises `Replayed` if this request was done within the last 24 hours, `Duplicate` if another one had its key. A
        second request with the same key waits for the first one to end."""
        ...

    def once_each(self, requests: Sequence[Request | None], effect: Op[T]) -> Op[T]:
        """The same for many requests whose effect is one: it creates one thing for each, in this order. None: a request
        without a key. No two have the same key. One that was done before raises, and none is done then."""
        ...

    def prune_requests(self, *, limit: int) -> Op[int]:
        """Forget up to `limit` requests that are older than 24 hours; gives how many."""
        ...

    def create_session(
        self, secret_hash: bytes, key_id: str, *, expires_at: datetime, valid_until: datetime
    ) -> Op[None]:
        """Store a session of this key. It ends at `valid_until`, which moves while it is used, up to `expires_at`."""
        ...

    def find_session(self, secret_hash: bytes) -> Op[Session | None]:
        """The session of this hash, if it has not ended. Whether its key is still valid is another question."""
        ...

    def extend_sessions(self, valid_until: Mapping[bytes, datetime]) -> Op[None]:
        """Let sessions last until then, but not beyond their `expires_at`; an earlier time changes nothing."""
        ...

    def delete_session(self, secret_hash: bytes) -> Op[None]:
        """End a session, if it is there."""
        ...

    def prune_sessions(self, *, limit: int) -> Op[int]:
        """Forget up to `limit` sessions that have ended; gives how many."""
        ...

    def keep_list(self, jobs: NewJobList) -> Op[None]:
        """Keep a list of jobs for ten minutes, for the key that made it."""
        ...

    def read_list(self, token: str, *, tenant_id: str | None, key_id: str, limit: int) -> Op[JobListPart | None]:
        """The next part of a list; None if there is no such list for this key in this tenant."""
        ...

    def advance_list(self, token: str, *, tenant_id: str | None, key_id: str, position: int) -> Op[None]:
        """Note how many jobs of a list have been acted on; it never goes back."""
        ...

    def prune_lists(self) -> Op[int]:
        """Forget lists that are older than ten minutes; gives how many."""
        ...
