"""The verbs of kept lists: act later on the jobs that somebody saw, and on no others."""

from __future__ import annotations

from collections.abc import Sequence

from headway.app.base import VerbBase
from headway.errors import NotFound
from headway.model.ids import as_id, is_id, new_id
from headway.model.job_list import JobListPart, NewJobList


class JobListVerbs(VerbBase):
    """A list is kept for ten minutes, for one key of the HTTP API."""

    def keep_list(self, ids: Sequence[str], *, key_id: str, action: str) -> str:
        """Keep a list of jobs with the action for them, JSON text; returns the token that names it."""
        jobs = NewJobList(token=new_id(), tenant_id=self._visible_tenant, key_id=key_id, action=action, ids=tuple(ids))
        self._run(self._store.ops.keep_list(jobs))
        return jobs.token

    def read_list(self, token: str, *, key_id: str, limit: int) -> JobListPart:
        """The next `limit` jobs of a list; raises `NotFound`, also ten minutes after it was made."""
        found = None
        if is_id(token):
            op = self._store.ops.read_list(as_id(token), tenant_id=self._visible_tenant, key_id=key_id, limit=limit)
            found = self._run(op)
        if found is None:
            raise NotFound(f"there is no list {token}: lists are kept for ten minutes, for the key that made them")
        return found

    def advance_list(self, token: str, *, key_id: str, position: int) -> None:
        """Note that the jobs before this position have been acted on."""
        op = self._store.ops.advance_list(
            as_id(token), tenant_id=self._visible_tenant, key_id=key_id, position=position
        )
        self._run(op)
