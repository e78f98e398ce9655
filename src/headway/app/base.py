"""What every verb builds on: the store, the tenant that the app acts for, how an op is run and what is shown of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from uuid import UUID

import msgspec

from headway.app.masking import masked, masked_for_viewers
from headway.app.results import Results
from headway.app.tenants import TenantLookup
from headway.artifacts import Places
from headway.clock import Clock
from headway.define.definitions import Definitions
from headway.define.enqueuer import EnqueueMiddleware
from headway.define.registry import Registry
from headway.errors import ChangedMeanwhile, InvalidJob, NotAllowed, NotFound
from headway.model.artifact import Artifact
from headway.model.codec import decode
from headway.model.ids import as_id, is_id, tenant_ref
from headway.model.job import Job, Outcome
from headway.model.request import Request, Requests
from headway.model.spill import Spilled
from headway.store.foreign import after_commit
from headway.store.ops import Op, Steps
from headway.store.ops.jobs import LockedNoun
from headway.store.run import Store
from headway.worker.wake import EVENTS, News, Wake

if TYPE_CHECKING:
    from headway.telemetry.tracing import Tracing

_LONGEST_PAGE = 10_000

L = TypeVar("L", bound=list[Any])
T = TypeVar("T")
U = TypeVar("U")


class _Row(Protocol):
    @property
    def id(self) -> str: ...


R = TypeVar("R", bound=_Row)


class VerbBase(TenantLookup):
    """A verb checks what it was asked, makes an `Op` of it in a method of its own name (`cancel`: `_cancel`), and runs
    that. Nothing is sent before the checks are done. The async verbs in `aio/` are generated from the blocking ones.
    """

    clock: Clock
    payload_limit: int
    spill_limit: int
    _strict_kinds: bool | None
    _retention_ms: Mapping[str, int]
    _tz: str  # the zone of schedules that name none
    _registry: Registry
    _enqueue_middleware: list[EnqueueMiddleware]
    _wake: Wake
    _emitted: Wake
    _definitions: Definitions
    _tracing: Tracing | None  # None: nobody wants spans
    _store: Store
    _whole_store: Store  # the same database for what belongs to all tenants
    _results: Results
    _places: Places

    # the tenant that new jobs belong to, by name or id; and the id of the only one that reads show (None: all)
    _own_tenant: str
    _visible_tenant: str | None
    _is_for_one_tenant: bool
    _is_for_viewers = False  # who see no secrets, in JSON as it is stored either

    @property
    def tenant_id(self) -> str | None:
        """The id of the only tenant that these verbs show; None: they show all."""
        return self._visible_tenant

    def _run(self, op: Op[T], conn: Any = None) -> T:
        """Run an op; with `conn`, in that connection's transaction."""
        op = self._unless_suspended(op)
        return self._store.run(op) if conn is None else self._store.run_in(conn, op)

    def _once(self, request: Requests, op: Op[L]) -> Op[L]:
        """The op, done once for a request that has a key, or for each of several."""
        if request is None or isinstance(request, Request):
            return op if request is None else self._store.ops.once(request, op)
        return self._store.ops.once_each(request, op) if any(request) else op

    def _creating_once(self, request: Request | None, op: Op[T], made: Callable[[T], str]) -> Op[T]:
        """The op, which creates one thing, done once for a request that has a key; `made` gives the id to keep."""
        if request is None:
            return op

        def steps() -> Steps[T]:
            answers: list[T] = []

            def effect() -> Steps[list[str]]:
                answers.append((yield from op.steps()))
                return [made(answers[0])]

            yield from self._store.ops.once(request, Op(effect, writes=True)).steps()
            return answers[0]

        return Op(steps, writes=True, refusable=True, atomic=True, computes=op.computes)

    def _unless_suspended(self, op: Op[T]) -> Op[T]:
        """The op; where it writes for one tenant, it first refuses if that tenant is suspended. Enqueue and emit, which
        are hot, do that by themselves, with the tenant's quotas."""
        tenant_id = self._visible_tenant
        if not op.writes or tenant_id is None:
            return op
        check = self._store.ops.refuse_suspended(tenant_id)

        def steps() -> Steps[T]:
            yield from check.steps()
            return (yield from op.steps())

        return msgspec.structs.replace(op, steps=steps, alone=None)

    def _if_matching(self, job_id: str | UUID, etags: Collection[str] | None, op: Op[T]) -> Op[T]:
        """The op, unless the job has changed: none of these is its `etag` any more, while its row is locked."""
        if etags is None:
            return op
        key = as_id(job_id)

        def steps() -> Steps[T]:
            yield from self._store.ops.lock_row("job", key, tenant_id=self._visible_tenant).steps()
            job = yield from self._get(key, raw=True).steps()
            if job.etag not in etags:
                raise ChangedMeanwhile(f"job {key} has changed meanwhile, it is {job.status} now: look at it again")
            return (yield from op.steps())

        return Op(steps, writes=True, repeatable=op.repeatable, refusable=True, atomic=True, computes=op.computes)

    def _found_to_change(
        self,
        noun: LockedNoun,
        find: Callable[[str | UUID, str | UUID | None], Op[R]],
        name: str | UUID,
        tenant: str | UUID | None,
        revisions: Collection[str] | None,
    ) -> Steps[R]:
        """The row of this name or id; where the caller asks for certain revisions, locked and one of these."""
        found = yield from find(name, tenant).steps()
        yield from self._lock_if_matching(noun, found.id, revisions, lambda: find(UUID(found.id), None))
        return found

    def _lock_if_matching(
        self, noun: LockedNoun, ref: str, revisions: Collection[str] | None, read: Callable[[], Op[T]]
    ) -> Steps[None]:
        """Lock this row and read it; raises `ChangedMeanwhile` if its revision is none of these. None: any will do."""
        if revisions is None:
            return
        yield from self._store.ops.lock_row(noun, ref, tenant_id=self._visible_tenant).steps()
        found: Any = yield from read().steps()
        if str(found.revision) not in revisions:
            name = getattr(found, "name", ref)
            raise ChangedMeanwhile(f"{noun} {name} has revision {found.revision} now: look at it again")

    def _read(self, op: Op[T], conn: Any = None, *, raw: bool = False) -> T:
        """Run an op whose answer people read: secrets in it are masked. `raw` is for programs: JSON is as stored."""
        if raw and not self._is_for_viewers:
            return self._run(op, conn)
        self.learn(conn)
        return self._run(self._masking(op), conn)

    def _masking(self, op: Op[T]) -> Op[T]:
        """The op with its answer masked: where its steps run, which is not on an event loop if there is much."""

        mask = masked_for_viewers if self._is_for_viewers else masked

        def steps() -> Steps[T]:
            return mask((yield from op.steps()), self._definitions)

        return msgspec.structs.replace(op, steps=steps, alone=None, fallback=None)

    def _wake_up(self, queue: str | None, conn: Any, news: frozenset[News] = frozenset()) -> None:
        """Let workers look at this queue (None: at all); with `conn`, once its transaction has committed."""
        _poke(self._wake, queue, conn, news)

    def _tell_of_events(self, conn: Any) -> None:
        """Let workers handle new events; with `conn`, once its transaction has committed."""
        _poke(self._emitted, EVENTS, conn)

    def learn(self, conn: Any) -> None:
        """Read what operators changed about kinds, unless that was done within the last seconds."""
        if self._definitions.are_stale:
            # also what this tenant does not see: all tenants share what was read
            op = self._whole_store.ops.definitions(None)
            if conn is not None:
                found = self._whole_store.run_in(conn, op)
            elif self._whole_store.is_absent:
                found = []  # an enqueue that is refused makes no file
            else:
                found = self._whole_store.run(op)
            self._definitions.replace(found)

    def learn_again(self, conn: Any) -> None:
        """Read it now: a kind that is not known may have been declared a moment ago."""
        self._definitions.expire()
        self.learn(conn)

    def _get(self, job_id: str | UUID, *, raw: bool = False) -> Op[Job]:
        key = as_id(job_id)
        return then(
            self._store.ops.get([key], tenant_id=self._visible_tenant, raw=raw),
            lambda jobs: jobs[0] if jobs else missing(key),
        )

    def _with_value(self, outcome: Outcome) -> Outcome:
        """The outcome with the value itself, where an artifact has it. Raises as `open_artifact` does."""
        if type(outcome.value) is not Spilled:
            return outcome
        found = self._run(self._artifact(outcome.value.id))
        content = self._places.read(found)
        return msgspec.structs.replace(outcome, value=decode(content, what="result"))

    def _artifact(self, artifact_id: str | UUID) -> Op[Artifact]:
        key = as_id(artifact_id, "artifact")
        return then(
            self._store.ops.artifact(key, tenant_id=self._visible_tenant),
            lambda found: missing_artifact(key) if found is None else found,
        )

    def _tenant_to_read(self, tenant: str | UUID | None) -> str | None:
        """The id of the tenant to read from; None for all of them."""
        if tenant is None:
            return self._visible_tenant
        return self._id_of(self._named_tenant(tenant))

    def _named_tenant(self, tenant: str | UUID | None) -> str:
        """The tenant that a name belongs to: the given one, or the app's own."""
        if tenant is None:
            return self._own_tenant
        ref = tenant_ref(tenant)
        if self._is_for_one_tenant and ref != self._own_tenant and not (is_id(ref) and ref == self._visible_tenant):
            raise NotAllowed(f"this app sees tenant {self._own_tenant} only, not {tenant}")
        return ref

    def _for_all_tenants(self, what: str, op: Op[T]) -> Op[T]:
        """The op, unless this app acts for one tenant: `what` concerns them all."""
        if self._is_for_one_tenant:
            nouns = next((noun for noun in ("definitions", "limits", "workers") if noun[:-1] in what), "queues")
            raise NotAllowed(f"{nouns} are shared by all tenants: {what} with the app itself, not for one tenant")
        return op


def _poke(wake: Wake, queue: str | None, conn: Any, news: frozenset[News] = frozenset()) -> None:
    if conn is None:
        wake.poke(queue, news)
    else:
        after_commit(conn, wake.poke, queue, news)


def then(op: Op[T], shape: Callable[[T], U]) -> Op[U]:
    """The op, with its answer passed through `shape`."""

    def steps() -> Steps[U]:
        return shape((yield from op.steps()))

    return Op(steps, writes=op.writes, repeatable=op.repeatable, atomic=op.atomic, computes=op.computes)


def page_size(limit: int) -> int:
    """The `limit` of a list; raises `InvalidJob`."""
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= _LONGEST_PAGE:
        raise InvalidJob(f"limit={limit!r} must be a whole number from 1 to {_LONGEST_PAGE:,}")
    return limit


def missing_artifact(artifact_id: str) -> Any:
    raise NotFound(f"there is no artifact {artifact_id} (or it is another tenant's, or it was pruned with its job)")


def renamed(changes: Mapping[str, Any]) -> dict[str, Any]:
    """The changes by the names of what they change: `name` says which row, so its new name is given as `new_name`."""
    return {("name" if option == "new_name" else option): value for option, value in changes.items()}


def missing(job_id: str) -> Any:
    raise NotFound(f"there is no job {job_id} (or it is another tenant's, or it was pruned)")
