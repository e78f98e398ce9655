"""Windows of unique keys: until when a job has its key; those that are over are deleted. enqueue_many opens them."""

from __future__ import annotations

from datetime import datetime

from headway.store.ops import Op
from headway.store.postgres.engine.decode import utc
from headway.store.postgres.engine.verbs import call, first, read

_WINDOW = """
select w.until
  from headway.jobs j
  join headway.unique_windows w
    on w.tenant_id = j.tenant_id and w.scope = coalesce(j.unique_group, j.kind) and w.key = j.unique_key
   and w.job_id = j.id
 where j.id = $1::uuid
   and w.until > headway.now()
"""


class WindowVerbs:
    def window(self, job_id: str) -> Op[datetime | None]:
        return read(_WINDOW, [job_id], lambda rows: utc(rows[0][0]) if rows else None)

    def prune_windows(self, *, limit: int) -> Op[int]:
        return call("select headway.prune_windows($1::integer)", [limit], first)
