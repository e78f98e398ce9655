"""Who may use the HTTP API: its keys."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Protocol

from headway.model.access import ApiKey, NewApiKey, StoredKey
from headway.store.ops.recipe import Op


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
        """Revoke a key, for ever. Audited, unless it was revoked already. None where (this tenant has) no such key."""
        ...

    def touch_keys(self, used: Mapping[str, datetime]) -> Op[None]:
        """Note when keys were last used; an earlier time changes nothing."""
        ...
