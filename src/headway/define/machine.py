"""Machines: classes whose steps are executed one after another, with a typed state committed between them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, ParamSpec, Protocol, Unpack, cast
from uuid import UUID

import msgspec

from headway.define import checks
from headway.define.annotations import signature_of
from headway.define.claimed_step import ClaimedStep
from headway.define.enqueuer import Binding
from headway.define.keys import KeyMaker
from headway.define.kind import Kind
from headway.define.option_types import MachineOptions, UsingOptions
from headway.define.options import kind_options
from headway.define.signals import signal_to_key
from headway.define.state import Shape
from headway.define.steps import Step, steps_of
from headway.errors import InvalidJob, InvalidOutcome
from headway.model import codec
from headway.model.job import Claim, Enqueued, NewJob
from headway.model.machine import START, Checkpoint
from headway.model.outcome import StepRef
from headway.model.signal import NewSignal, Sent

P = ParamSpec("P")

_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_decoder = msgspec.json.Decoder(Checkpoint)
_AROUND = 3  # levels of nesting around a payload: the checkpoint, its signals, each of them
_NO_CHECKPOINT = Checkpoint()


class HasState(Protocol[P]):
    """A machine as type checkers see its enqueue: it takes what makes its `State`."""

    @property
    def State(self) -> Callable[P, Any]: ...  # noqa: N802

    @classmethod
    def kind(cls) -> MachineKind: ...


class Machine:
    """Subclass it, mark its steps, and register it with `@app.machine`.

    The state is the class's `State` (a msgspec Struct, a dataclass, a pydantic model), or a dict without one. The
    first step is `start`. A step gets the context and returns an outcome. An optional `handle(self, error,
    ctx)` decides after an exception; without one the retry policy does. An optional `migrate_from(self, version,
    state)` turns the state of an older version, as plain JSON values, into one of this, or returns `Next(step,
    state)`.
    """

    if TYPE_CHECKING:
        # a machine without one takes any fields; inferred, since pyright gives a declared type to each `State = X`, too
        State = cast(Any, None)

    _declared: ClassVar[tuple[str | None, int, dict[str, Any]]] = (None, 1, {})
    _kinds: ClassVar[list[MachineKind]] = []

    def __init_subclass__(cls, *, version: int | None = None, **options: Unpack[MachineOptions]) -> None:
        super().__init_subclass__()
        name = options.pop("name", None)
        _, inherited_version, inherited = cls._declared
        cls._declared = (name, inherited_version if version is None else version, {**inherited, **options})
        cls._kinds = []

    @classmethod
    def enqueue(cls: type[HasState[P]], *args: P.args, **fields: P.kwargs) -> Enqueued:
        """Start a machine with these fields of its state; gives its `id`, `status` and `created`."""
        return cls.kind().enqueue(*args, **fields)

    @classmethod
    async def aenqueue(cls: type[HasState[P]], *args: P.args, **fields: P.kwargs) -> Enqueued:
        return await cls.kind().aenqueue(*args, **fields)

    @classmethod
    def build(cls: type[HasState[P]], *args: P.args, **fields: P.kwargs) -> NewJob:
        """What `enqueue` would store, for `app.enqueue_many`, groups, and `Spawn`."""
        return cls.kind().build(*args, **fields)

    @classmethod
    def using(cls: type[HasState[P]], **options: Unpack[UsingOptions]) -> Kind[P, Any]:
        """The machine with other options: `Checkout.using(unique_key="order:42").enqueue(order=42)`."""
        return cast("Kind[P, Any]", cls.kind().using(**options))

    @classmethod
    def signal(
        cls,
        unique_key: str,
        name: str,
        payload: Any = None,
        *,
        dedup_key: str | None = None,
        tenant: str | UUID | None = None,
        conn: Any = None,
    ) -> Sent:
        """Send a signal to the machine that has this unique key now.

        Raises `NotFound` if there is none, `InvalidJob`, `InvalidPayload`.
        """
        signal = cls.build_signal(unique_key, name, payload, dedup_key=dedup_key, tenant=tenant)
        return cls.kind().enqueuer().signal_new(signal, conn)

    @classmethod
    async def asignal(
        cls,
        unique_key: str,
        name: str,
        payload: Any = None,
        *,
        dedup_key: str | None = None,
        tenant: str | UUID | None = None,
        conn: Any = None,
    ) -> Sent:
        signal = cls.build_signal(unique_key, name, payload, dedup_key=dedup_key, tenant=tenant)
        return await cls.kind().enqueuer().asignal_new(signal, conn)

    @classmethod
    def build_signal(
        cls,
        unique_key: str,
        name: str,
        payload: Any = None,
        *,
        dedup_key: str | None = None,
        tenant: str | UUID | None = None,
    ) -> NewSignal:
        """What `signal` would send, for `app.signal_many`."""
        kind = cls.kind()
        limit = kind.payload_limit
        shared_by = kind.options.unique_group or kind.name
        return signal_to_key(shared_by, unique_key, name, payload, dedup_key=dedup_key, tenant=tenant, limit=limit)

    @classmethod
    def kind(cls) -> MachineKind:
        """The kind that `@app.machine` made from this class; raises `InvalidJob` if there is none, or several."""
        match cls._kinds:
            case [kind]:
                return kind
            case []:
                raise InvalidJob(f"{cls.__name__} is not registered: decorate it with @app.machine")
            case several:
                raise InvalidJob(
                    f"{cls.__name__} is registered {len(several)} times, and it is not clear which one you mean: "
                    f"use app.enqueue({several[0].name!r}, …) and app.signal(job_id, …)"
                )


class Edition:
    """One version of a machine: its class, with its steps and the shape of its state."""

    __slots__ = ("machine", "shape", "steps", "version")

    def __init__(
        self, machine: type[Machine], kind: str, version: int, shape: Shape, steps: Mapping[str, Step]
    ) -> None:
        self.machine = machine
        self.version = version
        self.shape = shape
        self.steps = steps
        if START not in steps:
            raise InvalidJob(f"{kind}: a machine starts with the step {START}: write @step def {START}(self, ctx)")

    @property
    def migrates(self) -> bool:
        return callable(getattr(self.machine, "migrate_from", None))

    def step(self, ref: StepRef, where: str) -> Step:
        """The step that an outcome names; raises `InvalidOutcome`."""
        name = ref if isinstance(ref, str) else getattr(ref, "__name__", None)
        step = self.steps.get(name) if isinstance(name, str) else None
        if step is None:
            shown = f"{name} (not marked @step)" if isinstance(name, str) and callable(ref) else repr(ref)
            raise InvalidOutcome(
                f"{where} names {shown} as the next step, which this machine does not have: "
                f"it has {', '.join(self.steps)}"
            )
        return step


class MachineKind(Kind[..., Any]):
    """A machine as a kind: enqueued, listed and operated like any other."""

    is_machine = True

    def __init__(self, machine: type[Machine], *, binding: Binding | None = None) -> None:
        if not (isinstance(machine, type) and issubclass(machine, Machine)):
            raise InvalidJob(f"{machine!r} is not a machine: @machine registers subclasses of Machine")
        name, version, given = machine._declared
        self.name = checks.name(name or snake(machine.__name__), "name")
        if "batch" in given or "batch_wait" in given:
            raise InvalidJob(
                f"{self.name}: a machine takes no batch, since its steps run one by one: give it to a function, "
                "@app.job(batch=…)"
            )
        self.aliases = checks.aliases(given.get("aliases", ()), self.name)
        self.fn = machine
        self.is_async = False
        self.context_param = None
        self.options = kind_options(given, f"class {machine.__name__}(Machine, …)")
        self.__doc__ = machine.__doc__
        shape = Shape(getattr(machine, "State", None), self.name)
        self._arguments = shape  # type: ignore[assignment]
        self._binding = binding or Binding()
        self._row = self._own_row = self.options.row(self.name)
        self._keys = tuple(
            KeyMaker(option, source, kind=self.name, names=shape.names, open_ended=shape.open_ended)
            for option, source in self.options.made_keys.items()
        )
        self._check_unique_by()
        checks.integer(version, "version", 1, 32_767)
        _check_handle(machine, self.name)
        steps = steps_of(
            machine, self.options, shape, self.name, taken={*vars(Machine), "handle", "migrate_from", "State"}
        )
        self.edition = Edition(machine, self.name, version, shape, steps)
        self.editions: dict[int, Edition] = {version: self.edition}

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise InvalidJob(f"{self.name} is a machine: enqueue it, or step it by hand with headway.testing")

    def __repr__(self) -> str:
        return f"<MachineKind {self.name} version {self.edition.version}>"

    def joined(self, other: MachineKind) -> MachineKind:
        """Both as one kind: enqueued as the newer version, run as the version of each row. Of one version the other is
        the newer one: its module was loaded again."""
        newest = max(other, self, key=lambda each: each.edition.version)
        joined: MachineKind = object.__new__(MachineKind)
        joined.__dict__.update(newest.__dict__)
        joined.editions = {**self.editions, **other.editions}
        joined.aliases = tuple(dict.fromkeys(self.aliases + other.aliases))
        return joined

    def of_same(self, other: MachineKind) -> bool:
        """Whether both belong to one registry."""
        return self._binding is other._binding

    def clash(self, other: MachineKind) -> type[Machine] | None:
        """The class whose version the other has, too, by another class."""
        for version, edition in self.editions.items():
            there = other.editions.get(version)
            if there is not None and not _same_class(there.machine, edition.machine):
                return edition.machine
        return None

    def using(self, **options: Unpack[UsingOptions]) -> MachineKind:
        copy = super().using(**options)
        assert isinstance(copy, MachineKind)
        return copy

    @property
    def queues(self) -> set[str]:
        steps = (step for edition in self.editions.values() for step in edition.steps.values())
        return {self.options.queue, *(step.options.queue for step in steps)}

    def claimed(self, claim: Claim) -> ClaimedStep | None:
        """The step to run for this claim; None for a version or step that is not known here.

        Raises `InvalidPayload` if its state or one of its signals cannot be read, as when somebody wrote it by SQL.
        """
        checkpoint = _read_checkpoint(claim)
        version = checkpoint.version or max(self.editions)
        edition = self.editions.get(version)
        migrates = False
        if edition is None:
            edition = self.editions[max(self.editions)]
            migrates = version < edition.version and edition.migrates
            if not migrates:
                return None
        name = checkpoint.step or START
        step = edition.steps.get(name)
        if step is None and migrates:
            # its migration may name another step
            step = msgspec.structs.replace(edition.steps[START], name=name)
        if step is None:
            return None
        claimed = ClaimedStep(edition, step, checkpoint, claim, migrates=migrates)
        return claimed if claimed.fits() else None

    def unknown(self, claim: Claim) -> str:
        """What of this claim is not known here, for a message."""
        checkpoint = _read_checkpoint(claim)
        edition = self.editions.get(checkpoint.version or max(self.editions))
        if edition is not None and (checkpoint.step or START) in edition.steps:
            return (
                f'the state of this machine "{self.name}", which does not fit its State (give new fields a default, or '
                "the class a new version with migrate_from)"
            )
        if edition is not None:
            return f'step "{checkpoint.step}" of machine "{self.name}" (keep it, or add a version with migrate_from)'
        known = ", ".join(map(str, sorted(self.editions)))
        return f'version {checkpoint.version} of machine "{self.name}" (here: {known})'

    @property
    def payload_limit(self) -> int:
        return self._binding.payload_limit

    @property
    def _payload_limit(self) -> int:
        return self._binding.payload_limit  # its state, which every step writes again: only its result may spill

    def check_state(self, version: int | None, state: str | None) -> None:
        """Raises `InvalidPayload` for a state that this version could not read; an unknown version is not checked."""
        edition = self.editions.get(version or max(self.editions))
        if edition is not None and state is not None:
            edition.shape.read(state)

    def check_step(self, version: int | None, step: str | None) -> None:
        """Raises `InvalidJob` for a step that this version does not have; an unknown version is not checked."""
        edition = self.editions.get(version or max(self.editions))
        if edition is not None and step is not None and step not in edition.steps:
            known = ", ".join(edition.steps)
            raise InvalidJob(f"{self.name} version {edition.version} has no step {step!r}: it has {known}")

    def starting_at(self, job: NewJob, checkpoint: Checkpoint, state: str) -> NewJob:
        """The job, starting at this checkpoint, in the queue and partition of that step."""
        edition = self.editions.get(checkpoint.version or 0)
        step = None if edition is None else edition.steps.get(checkpoint.step or START)
        if edition is None or step is None or not step.moves:
            return msgspec.structs.replace(job, checkpoint=checkpoint)
        return msgspec.structs.replace(
            job,
            queue=step.options.queue if "queue" in step.own else job.queue,
            partition=step.partition_of(edition.shape, state) if "partition" in step.own else job.partition,
            checkpoint=msgspec.structs.replace(checkpoint, home_queue=job.queue, home_partition=job.partition),
        )

    def _finish(self, payload: str) -> NewJob:
        checkpoint = Checkpoint(version=self.edition.version, step=START)
        return self.starting_at(super()._finish(payload), checkpoint, payload)


def _read_checkpoint(claim: Claim) -> Checkpoint:
    if claim.checkpoint is None:
        return _NO_CHECKPOINT
    what = "checkpoint of this machine, with its state and its signals,"
    codec.refuse_deep(claim.checkpoint, what, around=_AROUND)
    try:
        return _decoder.decode(claim.checkpoint)
    except codec.FAULTS as error:
        raise codec.unread(what, error) from error


def _check_handle(machine: type[Machine], kind: str) -> None:
    handle = getattr(machine, "handle", None)
    if handle is None:
        return
    try:
        signature_of(handle).bind(None, None, None)
    except TypeError:
        raise InvalidJob(
            f"{kind}.handle: it takes self, the error and the context: def handle(self, error, ctx)"
        ) from None


def snake(name: str) -> str:
    """A class's name as a kind's: OrderCheckout is order_checkout."""
    return _WORD.sub("_", name).lower()


def _same_class(one: type, other: type) -> bool:
    """The same class, or the same lines of a module that was loaded again."""
    return one is other or (
        (one.__module__, one.__qualname__) == (other.__module__, other.__qualname__)
        and "<locals>" not in one.__qualname__
    )
