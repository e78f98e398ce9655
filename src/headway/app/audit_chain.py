"""The verbs of the audit's chain: check it, seal what is new, erase the words of entries."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from headway.app.base import VerbBase
from headway.errors import InvalidJob
from headway.model.audit_chain import ERASED, FIRST, MOST, AuditSeal, AuditState, SealedEntry, seal_hash

_PAGE = 500
_MOST_FAULTS = 20


class AuditCheck(msgspec.Struct, frozen=True):
    """What a check of the audit's chain found; it is whole if there are no faults."""

    faults: tuple[str, ...]
    entries: int  # that a seal covers, and that are as they were sealed
    erased: int  # of those: only their hashes are left
    seals: int
    since: datetime | None  # what was sealed before was pruned, or stayed behind in a transfer
    newest: str | None  # the number of the newest seal and its hash: keep it elsewhere, and compare it later
    unsealed: int
    oldest_unsealed_at: datetime | None

    @property
    def is_whole(self) -> bool:
        return not self.faults


class AuditChainVerbs(VerbBase):
    """Entries of the audit are sealed by workers, some minutes after they were written: 500 at most under one hash,
    which holds that of the seal before. Whoever changes, adds or removes a sealed entry breaks the chain."""

    def seal_audit(self) -> int:
        """Seal all entries that have no seal yet, without waiting for a worker; gives how many."""
        total = 0
        while sealed := self._run(self._store.ops.seal_audit(limit=MOST)):
            total += sealed
        return total

    def verify_audit(self, *, seal: str | None = None, newest: int | None = None) -> AuditCheck:
        """Check that every sealed entry is as it was sealed, and that none is missing.

        `seal` is the `newest` of an earlier check, such as `17:5f1b…`: the chain must still hold it, so that nobody
        can have made all of it anew. `newest` checks only so many of the last seals. Raises `InvalidJob` for what is no
        seal.
        """
        expected = None if seal is None else _expected(seal)
        check = _Check(expected, whole=newest is None)
        state = self._run(self._store.ops.audit_state())
        if newest is not None:
            self._check_seals(check, self._run(self._store.ops.newest_audit_seals(limit=newest)))
            return check.over(state)
        after = 0
        last = self._run(self._store.ops.newest_audit_seals(limit=1))
        while (
            last and after < last[0].n and (found := self._run(self._store.ops.audit_seals(after=after, limit=_PAGE)))
        ):
            self._check_seals(check, found)
            after = found[-1].n
        return check.over(state)

    def erase_audit(self, entries: Sequence[int], *, actor: str | None = None, conn: Any = None) -> int:
        """Take the words out of these sealed entries: who it was, the detail, old and new values, request and address.

        When it was, the action, the tenant and the job stay, and so does the hash, so that the chain is whole. Audited.
        Returns how many were erased.
        """
        return self._run(self._store.ops.erase_audit(list(entries), actor=actor), conn)

    def _check_seals(self, check: _Check, seals: list[AuditSeal]) -> None:
        for seal in seals:
            entries = self._run(self._store.ops.sealed_entries(seal.n))
            wrong = check.wrong(seal, entries)
            if wrong:
                # it may have been pruned or erased between the reads
                first = self._run(self._store.ops.audit_seals(after=0, limit=1))
                entries = self._run(self._store.ops.sealed_entries(seal.n))
                if not first or first[0].n >= seal.n:
                    check.restart()
                if not first or first[0].n > seal.n:
                    continue
                wrong = check.wrong(seal, entries)
            check.add(seal, entries, wrong)


class _Check:
    """The chain as far as it was read."""

    def __init__(self, expected: tuple[int, str] | None, *, whole: bool) -> None:
        self._expected = expected
        self._whole = whole
        self._last: AuditSeal | None = None
        self._faults: list[str] = []
        self._entries = self._erased = self._seals = 0
        self._since: datetime | None = None

    def restart(self) -> None:
        """What was read so far is pruned now."""
        self._last = None
        self._entries = self._erased = self._seals = 0

    def wrong(self, seal: AuditSeal, entries: list[SealedEntry]) -> list[str]:
        """What is wrong with a seal after the last one."""
        if self._last is None and not entries:
            return []  # the anchor: the chain goes on from its hash
        found = [f"entry {each.id} (of seal {seal.n}) is not what was sealed" for each in entries if not each.is_whole]
        last = 0 if self._last is None else self._last.n
        before: bytes | None = FIRST if self._last is None else self._last.hash
        if seal.n != last + 1:
            before = None  # nothing to go on from: only its entries are checked
            if self._whole or self._last is not None:
                found.append(f"the seals between {last} and {seal.n} are missing")
        if len(entries) != seal.entries:
            found.append(f"seal {seal.n} covers {seal.entries} entries, and {len(entries)} are there")
        elif before is not None and seal_hash(before, seal.n, (each.hash for each in entries)) != seal.hash:
            found.append(f"seal {seal.n} does not fit its entries and the seal before it")
        return found

    def add(self, seal: AuditSeal, entries: list[SealedEntry], wrong: list[str]) -> None:
        if self._expected is not None and self._expected[0] == seal.n and self._expected[1] != seal.hash.hex():
            wrong = [*wrong, f"seal {seal.n} is not the one that you kept: the chain was made anew"]
        if self._last is None:
            self._since = seal.newest_at if not entries else None
        self._faults += wrong
        self._last = seal
        self._seals += 1
        self._entries += sum(each.is_whole for each in entries)
        self._erased += sum(each.erased for each in entries)

    def over(self, state: AuditState) -> AuditCheck:
        last = self._last
        if self._expected is not None and (last is None or last.n < self._expected[0]):
            self._faults.append(f"seal {self._expected[0]} is missing: the chain was cut, or made anew")
        if state.stray:
            self._faults.append(f"entries name a seal that does not cover them: {state.stray}")
        if state.unnamed:
            self._faults.append(f"entries are erased, and no entry {ERASED} names them: {state.unnamed}")
        more = len(self._faults) - _MOST_FAULTS
        shown = [*self._faults[:_MOST_FAULTS], *([f"and {more} more"] if more > 0 else [])]
        newest = None if last is None else f"{last.n}:{last.hash.hex()}"
        return AuditCheck(
            faults=tuple(shown),
            entries=self._entries,
            erased=self._erased,
            seals=self._seals,
            since=self._since,
            newest=newest,
            unsealed=state.unsealed,
            oldest_unsealed_at=state.oldest_unsealed_at,
        )


def _expected(seal: str) -> tuple[int, str]:
    number, _, digest = seal.strip().partition(":")
    if not (number.isascii() and number.isdigit() and len(digest) == 64):
        raise InvalidJob(f"seal={seal!r} is no seal: give what an earlier check gave, such as 17:5f1b…")
    return int(number), digest.lower()
