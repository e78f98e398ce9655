"""The audit's chain: seals over batches of entries, each with the hash of the one before."""

from __future__ import annotations

from collections.abc import Sequence

from headway.clock import from_micros
from headway.model.audit_chain import FIRST, MOST, MOST_BYTES, AuditSeal, AuditState, SealedEntry, entry_hash, seal_hash
from headway.store.ops import Batch, Op, Row, Statement, Steps
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import SqliteOp, Verbs, json_list
from headway.store.sqlite.jobs.audit import record

_SQL = statements("jobs/audit_chain")


class AuditChainVerbs(Verbs):
    def seal_audit(self, *, limit: int) -> Op[int]:
        def probe() -> Steps[int | None]:
            ((found,),) = yield Statement(_SQL["unsealed_probe"])
            return None if found else 0

        def steps() -> Steps[int]:
            ids: list[int] = []
            size = 0
            for number, length in (yield Statement(_SQL["unsealed"], (min(limit, MOST),))):
                size += length
                if ids and size > MOST_BYTES:
                    break
                ids.append(number)
            if not ids:
                return 0
            last = yield Statement(_SQL["last_seal"])
            n, before = (last[0][0] + 1, last[0][1]) if last else (1, FIRST)
            rows = yield Statement(_SQL["to_seal"], (json_list(ids),))
            hashes = [entry_hash(parts) for _, *parts in rows]
            yield Batch(_SQL["seal_entry"], [(row[0], n, found) for row, found in zip(rows, hashes, strict=True)])
            newest = max(int(row[2]) for row in rows)
            found = seal_hash(before, n, hashes)
            yield Statement(_SQL["add_seal"], (n, ids[0], ids[-1], len(ids), newest, self._clock.now(), found))
            return len(ids)

        return SqliteOp(steps, writes=True, probe=probe)

    def prune_audit(self, *, older_than_ms: int, limit: int) -> Op[int]:
        def probe() -> Steps[int | None]:
            ((found,),) = yield Statement(_SQL["audit_probe"], (self._clock.now() - older_than_ms * 1000,))
            return None if found else 0

        def steps() -> Steps[int]:
            before = self._clock.now() - older_than_ms * 1000
            pruned = n = 0
            while pruned < limit and (rows := (yield Statement(_SQL["oldest_seal"], (n,)))):
                n, first_id, last_id, newest_at = rows[0]
                if newest_at >= before:
                    break
                pruned += len((yield Statement(_SQL["prune_audit"], (first_id, last_id, n))))
                yield Statement(_SQL["forget_seals"], (n,))
            return pruned

        return SqliteOp(steps, writes=True, probe=probe)

    def erase_audit(self, ids: Sequence[int], *, actor: str | None) -> Op[int]:
        def steps() -> Steps[int]:
            now = self._clock.now()
            rows = yield Statement(_SQL["erase"], (json_list(list(ids)), now))
            gone = sorted(number for (number,) in rows)
            if gone:
                yield record(now, None, None, actor, "audit.erased", ", ".join(map(str, gone)))
            return len(gone)

        return SqliteOp(steps, writes=True)

    def audit_seals(self, *, after: int, limit: int) -> Op[list[AuditSeal]]:
        def steps() -> Steps[list[AuditSeal]]:
            return [_seal(row) for row in (yield Statement(_SQL["seals"], (after, limit)))]

        return SqliteOp(steps, writes=False)

    def newest_audit_seals(self, *, limit: int) -> Op[list[AuditSeal]]:
        def steps() -> Steps[list[AuditSeal]]:
            return [_seal(row) for row in reversed((yield Statement(_SQL["newest_seals"], (limit,))))]

        return SqliteOp(steps, writes=False)

    def sealed_entries(self, n: int) -> Op[list[SealedEntry]]:
        def steps() -> Steps[list[SealedEntry]]:
            rows = yield Statement(_SQL["entries"], (n,))
            return [
                SealedEntry(number, tuple(parts), bytes(found), bool(erased)) for number, found, erased, *parts in rows
            ]

        return SqliteOp(steps, writes=False)

    def audit_state(self) -> Op[AuditState]:
        def steps() -> Steps[AuditState]:
            ((stray, unnamed, unsealed, oldest),) = yield Statement(_SQL["state"])
            return AuditState(stray, unnamed, unsealed, None if oldest is None else from_micros(oldest))

        return SqliteOp(steps, writes=False)


def _seal(row: Row) -> AuditSeal:
    n, first_id, last_id, entries, newest_at, sealed_at, found = row
    return AuditSeal(n, first_id, last_id, entries, from_micros(newest_at), from_micros(sealed_at), bytes(found))
