"""Flows: their journals, children and news; see `model/journal.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from headway.model.job import Enqueued, NewJob
from headway.model.journal import Entry, FlowNews, Journals, Recorded
from headway.model.machine import Child
from headway.store.ops.recipe import Op


class Flows(Protocol):
    def record(self, worker_id: str | None, entries: Sequence[Entry]) -> Op[Recorded]:
        """Write rows of journals, of several flows, in one transaction, and with them consume the signals and enqueue
        the children that they name. Of an execution that this worker (None: any) does not run any more nothing is
        written: it is `lost`. While this is under way nobody can end the executions, so no row appears behind a newer
        claim's back. A row whose number is there stays as it is, so a repeat changes nothing and gives the same
        answer. A row `forgotten` deletes those before it: the flow begins anew. A child that met a job by its key is
        that job; the row's value has its "id". With `waits`, the flow gets the signal `$child` when the child is over.
        Raises what `enqueue` raises, and `InvalidJob` for a child that met the flow itself; then nothing is written."""
        ...

    def settle_step(self, entry: Entry) -> Op[None]:
        """Note in the caller's transaction that a step is settled by it, with this value; the number of the entry is
        not used. Until that transaction ends, nobody can end the execution, and its other steps go on. Raises
        `LeaseLost` if the flow does not run under that fence any more, `NotAllowed` if the step is settled already, and
        `NotFound` if the database of the caller's connection has no such job."""
        ...

    def journal(
        self,
        ids: Sequence[str],
        *,
        tenant_id: str | None = None,
        after: Mapping[str, int] | None = None,
        max_bytes: int = 8 * 2**20,
    ) -> Op[Journals]:
        """The rows of these flows' journals, in order of job and number: those that count, and those that do not
        (`effective` tells). `after` has the number of the last row known of a flow. It ends early, with at least one
        row, where the rows hold more than `max_bytes`; values are the text as it is stored. The time goes with them."""
        ...

    def flow_news(self, worker_id: str, ids: Sequence[str]) -> Op[dict[str, FlowNews]]:
        """Of these flows, those that this worker runs and that have unconsumed signals, with these, as a claim would
        bring them."""
        ...

    def children_of_flow(self, ids: Sequence[str]) -> Op[dict[str, Child]]:
        """These jobs, by the id asked for; one that was retried by a new job is shown as that. Results that artifacts
        have are `Spilled`, the others JSON as it is stored. What does not exist is left out."""
        ...

    def leave(self, job_id: str, children: Sequence[str], *, fence: int | None = None) -> Op[None]:
        """The flow waits for these children no longer: they are canceled, if it spawned them and they are not over (on
        PostgreSQL by the next claim or round). With `fence` only while it runs under that."""
        ...

    def forget(self, job_id: str, from_seq: int, *, tenant_id: str | None, actor: str | None) -> Op[bool]:
        """Take back the rows of a flow's journal from this number on, with the signals that they consumed, and make
        the flow due now; False if there is no such flow. Raises `NotAllowed` for one that runs or is over. Audited as
        `accept`."""
        ...

    def fork_flow(
        self, job: NewJob, source_id: str, before_seq: int, results: Mapping[int, str], *, actor: str | None
    ) -> Op[Enqueued]:
        """Enqueue a flow whose journal begins with copies of another one's answers and `due` notes before this number,
        as far as they count; `results` replaces values by number, as JSON text. `job.checkpoint` names the other as
        `forked_from`. Audited, on the new job."""
        ...

    def set_flow_state(self, worker_id: str, states: Sequence[tuple[str, int, str]]) -> Op[None]:
        """Store what others read of running flows, each (id, fence, JSON text), while this worker runs them. Skips a
        flow whose row somebody's open transaction has locked."""
        ...
