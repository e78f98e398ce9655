"""The audit's chain: sealing, checking, pruning and erasing entries."""

from __future__ import annotations

from collections.abc import Sequence

from headway.model.audit_chain import AuditSeal, AuditState, SealedEntry
from headway.store.ops import Op
from headway.store.postgres.engine.decode import utc
from headway.store.postgres.engine.verbs import call, first, read

_SEALS = """
select s.n, s.first_id, s.last_id, s.entries, s.newest_at, s.sealed_at, s.hash
  from headway.audit_seals s
 where s.n > $1::bigint
 order by s.n
 limit $2::integer
"""
_NEWEST = """
select s.n, s.first_id, s.last_id, s.entries, s.newest_at, s.sealed_at, s.hash
  from headway.audit_seals s
 order by s.n desc
 limit $1::integer
"""
_ENTRIES = """
select a.id, a.hash, a.erased_at is not null,
       array[a.id::text, (extract(epoch from a.at) * 1000000)::bigint::text, a.tenant_id::text, a.job_id::text, a.actor,
             a.actor_name, a.action, a.detail, a.changes, a.request_id, a.address]
  from headway.audit_seals s
  join headway.audit a on a.id between s.first_id and s.last_id and a.seal = s.n
 where s.n = $1::bigint
 order by a.id
"""
_STATE = """
select (select count(*)
          from headway.audit a
         where a.seal is not null
           and not exists (select from headway.audit_seals s
                            where s.n = a.seal and a.id between s.first_id and s.last_id)),
       (select count(*)
          from headway.audit a
         where a.erased_at is not null
           and not exists (select from headway.audit e
                            where e.action = 'audit.erased' and a.id::text = any (string_to_array(e.detail, ', ')))),
       count(*), min(u.at)
  from headway.audit u
 where u.seal is null
"""


class AuditChainVerbs:
    def seal_audit(self, *, limit: int) -> Op[int]:
        return call("select headway.seal_audit($1::integer)", [limit], first)

    def prune_audit(self, *, older_than_ms: int, limit: int) -> Op[int]:
        return call("select headway.prune_audit($1::bigint, $2::integer)", [older_than_ms, limit], first)

    def erase_audit(self, ids: Sequence[int], *, actor: str | None) -> Op[int]:
        return call("select headway.erase_audit($1::bigint[], $2)", [list(ids), actor], first)

    def audit_seals(self, *, after: int, limit: int) -> Op[list[AuditSeal]]:
        return read(_SEALS, [after, limit], lambda rows: [_seal(*row) for row in rows])

    def newest_audit_seals(self, *, limit: int) -> Op[list[AuditSeal]]:
        return read(_NEWEST, [limit], lambda rows: [_seal(*row) for row in reversed(rows)])

    def sealed_entries(self, n: int) -> Op[list[SealedEntry]]:
        return read(
            _ENTRIES,
            [n],
            lambda rows: [
                SealedEntry(number, tuple(parts), bytes(found), erased) for number, found, erased, parts in rows
            ],
        )

    def audit_state(self) -> Op[AuditState]:
        return read(_STATE, [], lambda rows: _state(*rows[0]))


def _state(stray, unnamed, unsealed, oldest) -> AuditState:  # type: ignore[no-untyped-def]
    return AuditState(stray, unnamed, unsealed, oldest and utc(oldest))


def _seal(n, first_id, last_id, entries, newest_at, sealed_at, found) -> AuditSeal:  # type: ignore[no-untyped-def]
    return AuditSeal(n, first_id, last_id, entries, utc(newest_at), utc(sealed_at), bytes(found))
