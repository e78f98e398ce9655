"""Groups: jobs with one callback, canceled and retried together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from headway.model.group import Group, NewGroup
from headway.model.status import Status
from headway.store.ops import Op, Row, Rows, Statement, Steps
from headway.store.postgres.engine.decode import utc
from headway.store.postgres.engine.verbs import id_list, read

T = TypeVar("T")

_GROUPS = """
select g.id, g.tenant_id, coalesce(t.slug, g.tenant_id::text), g.mode, g.on_failure, g.callback_id, g.created_at,
       g.stopped_at,
       (select jsonb_object_agg(c.status, c.n)
          from (select j.status, count(*) as n
                  from headway.jobs j
                 where j.group_id = g.id
                   and not (j.status in ('failed', 'dead', 'canceled')
                            and exists (select from headway.jobs r where r.retry_of = j.id))
                 group by j.status) c)
  from headway.groups g
  left join headway.tenants t on t.id = g.tenant_id
"""
_GROUP = _GROUPS + " where g.id = $1::uuid and ($2::uuid is null or g.tenant_id = $2)"
_LIST = (
    _GROUPS
    + " where ($1::uuid is null or g.tenant_id = $1) and ($2::uuid is null or g.id < $2)"
    + " order by g.id desc limit $3::integer"
)


class GroupVerbs:
    def cancel_group(
        self, group_id: str, *, tenant_id: str | None, reason: str | None, actor: str | None
    ) -> Op[dict[str, Status] | None]:
        return self._of_group(
            "select id, status from headway.cancel_group($1::uuid, $2::uuid, $3, $4)",
            [group_id, tenant_id, reason, actor],
            lambda rows: dict(rows),
        )

    def retry_group(self, group_id: str, *, tenant_id: str | None, actor: str | None) -> Op[list[str] | None]:
        return self._of_group(
            "select * from headway.retry_group($1::uuid, $2::uuid, $3)", [group_id, tenant_id, actor], id_list
        )

    def _of_group(self, sql: str, params: Sequence[Any], shape: Callable[[Rows], T]) -> Op[T | None]:
        def steps() -> Steps[T | None]:
            group = yield from self.group(params[0], tenant_id=params[1]).steps()
            return None if group is None else shape((yield Statement(sql, params)))

        return Op(steps, writes=True)

    def group(self, group_id: str, *, tenant_id: str | None) -> Op[Group | None]:
        return read(_GROUP, [group_id, tenant_id], lambda rows: _group(rows[0]) if rows else None)

    def groups(self, *, tenant_id: str | None, limit: int, after: str | None) -> Op[list[Group]]:
        return read(_LIST, [tenant_id, after, limit], lambda rows: list(map(_group, rows)))


def new_group(group: NewGroup) -> Statement:
    """Adds the group; its members are enqueued in the same transaction."""
    return Statement(
        "select headway.new_group($1::uuid, $2, $3, $4::uuid, $5::uuid, $6)",
        [group.id, group.mode, group.on_failure, group.callback_id, group.tenant_id, group.tenant],
    )


def _group(row: Row) -> Group:
    fields = dict(zip(Group.__struct_fields__, map(utc, row), strict=True))
    fields["counts"] = msgspec.json.decode(fields["counts"]) if fields["counts"] else {}
    return Group(**fields)
