"""The stages of a transfer, from whatever a killed one has left; the package says why they are safe."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import msgspec

from headway.errors import ConfigError, NotAllowed, StoreBusy, StoreError, StoreUnavailable
from headway.model.ids import new_id
from headway.store.transfer.side import Note, Phase, Side
from headway.store.transfer.sync import Compared, check, sync
from headway.store.transfer.tables import PAUSER, TABLES, Layout, layouts, scope_of

_PASSES = 4  # copies while the source is in use; each has to copy what changed during the one before
_FEW = 1_000  # rows that the last copy may leave to the switch
_POLL_S = 0.2
_LOCK_S = 60.0


class Step(msgspec.Struct, frozen=True):
    """Where a transfer is: `done` of about `total` rows of the stage, in this table now."""

    stage: str
    table: str = ""
    done: int = 0
    total: int = 0


class Transferred(msgspec.Struct, frozen=True):
    """A finished transfer: what was moved, table by table, as the check found it on both sides."""

    id: str
    source: str
    target: str
    history: bool
    tables: tuple[Compared, ...]
    artifact_stores: tuple[str, ...]  # bytes are not moved: folders and buckets in which those of moved rows are

    @property
    def rows(self) -> int:
        """How many rows were moved."""
        return sum(table.rows for table in self.tables)


class Transfer:
    """One run of `headway transfer`. Start it again after a crash, with the same databases."""

    def __init__(self, source: Side, target: Side, *, tell: Callable[[Step], None] = lambda _: None) -> None:
        self._source, self._target = source, target
        self._tell = tell
        sides = {side.dialect: side.catalogue() for side in (source, target)}
        self._layouts: list[Layout] = layouts(sides["sqlite"], sides["postgres"])

    def plan(self, *, history: bool) -> dict[str, int]:
        """How many rows of each table would be moved now."""
        self._check_ready(history)
        return self._counts(history)

    def run(self, *, history: bool, timeout_s: float) -> Transferred:
        """Do it, or go on with it; raises `NotAllowed`, `StoreError`, `StoreUnavailable`."""
        note = self._prepare(history)
        phase = self._phase_of(self._target)
        if phase != "done":
            if note.phase == "copying":
                self._copy(note)
                self._drain(timeout_s)
                self._seal(note, timeout_s)
            self._settle_rest(note)
            self._sync("copy what changed", note)
        # also of a finished transfer: the answer of a run that was killed after its switch
        compared = self._check(note) if phase != "done" else []
        if phase != "done":
            self._switch(note)
        with self._source.writing(note.id):
            self._mark(self._source, note, "done")
        return Transferred(
            id=note.id,
            source=self._source.describe(),
            target=self._target.describe(),
            history=note.history,
            tables=tuple(compared),
            artifact_stores=tuple(self._target.artifact_stores()),
        )

    def abort(self) -> None:
        """Go back to the source: raises `NotAllowed` if the target is in use already, or if there is no transfer."""
        note = self._source.note()
        if note is None or note.role != "source" or note.phase not in ("copying", "sealed"):
            raise NotAllowed(f"no transfer from {self._source.describe()} is under way")
        theirs = self._target.note()
        if theirs is not None and theirs.id == note.id:
            if theirs.phase == "done":
                raise NotAllowed(f"the transfer is done: {self._target.describe()} is in use")
            with self._target.writing(note.id):
                self._mark(self._target, note, "aborted")
                for layout in self._layouts:
                    self._target.clear(layout, _used(layout))
                self._target.unseal()
        with self._source.writing(note.id):
            self._source.unseal()
            self._mark(self._source, note, "aborted")
        self._resume()

    def _prepare(self, history: bool) -> Note:
        """The transfer that is under way, or a new one: noted at the source, then at the target, which is sealed."""
        note = self._check_ready(history)
        if note is None:
            note = Note(new_id(), "source", self._target.describe(), "copying", history)
            with self._source.writing(note.id):
                self._source.write_note(note)
        theirs = self._target.note()
        if theirs is None or theirs.id != note.id:
            theirs = Note(note.id, "target", self._source.describe(), "copying", note.history)
            with self._target.writing(note.id):
                self._target.write_note(theirs)
                self._target.seal(theirs)
        self._tell(Step("prepared"))
        return note

    def _check_ready(self, history: bool) -> Note | None:
        """The transfer that is under way, if one is; raises `NotAllowed` if neither that nor a new one can go on."""
        mine, theirs = self._source.note(), self._target.note()
        where, to = self._source.describe(), self._target.describe()
        if mine is not None and mine.role == "target" and mine.phase == "copying":
            raise NotAllowed(f"work is being moved into {where}: finish that transfer first")
        going = mine is not None and mine.role == "source" and mine.phase != "aborted"
        if mine is not None and going:
            if mine.peer != to:
                raise NotAllowed(f"the work of {where} was moved to {mine.peer}, or is being moved there")
            if mine.history != history:
                raise ConfigError(
                    f"the transfer from {where} began with{'' if mine.history else 'out'} history: go on so"
                )
            if theirs is None and mine.phase == "done":
                raise NotAllowed(f"the work of {where} was moved to {to}")
            if theirs is not None and theirs.id == mine.id:
                return mine
        if theirs is not None and theirs.phase in ("copying", "sealed") and not (theirs.role == "target" and going):
            raise NotAllowed(f"{to} is part of another transfer, with {theirs.peer}")
        for layout in self._layouts:
            if self._target.count(layout, _used(layout)):
                raise NotAllowed(f"{to} is in use, it has {layout.name}: work is moved into an empty database only")
        return mine if going else None

    def _copy(self, note: Note) -> None:
        for _ in range(_PASSES):
            with self._source.snapshot():
                written = self._sync("copy", note)
            if written <= _FEW:
                break
        self._tell(Step("copied"))

    def _drain(self, timeout_s: float) -> None:
        until = time.monotonic() + timeout_s
        store = self._source.store
        while True:
            for queue in store.run(store.ops.queues(tenant_id=None)):
                if not queue.paused:
                    store.run(store.ops.pause(queue.name, actor=PAUSER))
            store.run(store.ops.reap([], limit=1_000))
            running = self._source.running()
            self._tell(Step("drain", done=0, total=running))
            if not running:
                break
            if time.monotonic() >= until:
                self._resume()
                raise StoreBusy(
                    f"{running:,} jobs still run after {timeout_s:g} s, so nothing was moved, and the source goes on: "
                    "give them more time with --timeout"
                )
            time.sleep(_POLL_S)
        self._tell(Step("drained"))

    def _resume(self) -> None:
        store = self._source.store
        for queue in store.run(store.ops.queues(tenant_id=None)):
            if queue.paused_by == PAUSER:
                store.run(store.ops.resume(queue.name, actor=PAUSER))

    def _seal(self, note: Note, timeout_s: float) -> None:
        until = time.monotonic() + _LOCK_S
        while True:
            try:
                with self._source.writing(note.id):
                    self._source.seal(note)
                    if self._source.running():
                        raise _Running
                    self._mark(self._source, note, "sealed")
                break
            except _Running:  # claimed by id, or from a queue that is new
                self._drain(timeout_s)
            except StoreUnavailable:  # a writer has its transaction open for long
                if time.monotonic() >= until:
                    self._resume()
                    raise
                time.sleep(random.uniform(0.05, _POLL_S))
        self._tell(Step("sealed"))

    def _settle_rest(self, note: Note) -> None:
        left = None
        while left != 0:
            with self._source.writing(note.id):
                left = self._source.process_rest()
        self._tell(Step("settled"))

    def _sync(self, stage: str, note: Note) -> int:
        counts = self._counts(note.history)
        written = sync(
            self._source,
            self._target,
            self._layouts,
            note.id,
            history=note.history,
            tell=self._counting(stage, sum(counts.values())),
        )
        self._tell(Step(stage, done=sum(counts.values()), total=sum(counts.values())))
        return written

    def _check(self, note: Note) -> list[Compared]:
        tell = self._counting("check", sum(self._counts(note.history).values()))
        compared = check(self._source, self._target, self._layouts, history=note.history, tell=tell)
        self._tell(Step("checked"))
        return compared

    def _switch(self, note: Note) -> None:
        counters = self._source.counters()
        with self._target.writing(note.id):
            self._target.finish(counters)
            self._target.unseal()
            self._mark(self._target, note, "done")
        self._tell(Step("switched"))

    def _counts(self, history: bool) -> dict[str, int]:
        names = {layout.name: layout for layout in self._layouts}
        return {
            table.name: self._source.count(names[table.name], scope_of(table, self._source.dialect, history=history))
            for table in TABLES
        }

    def _counting(self, stage: str, total: int) -> Callable[[str, int], None]:
        done = 0

        def tell(table: str, rows: int) -> None:
            nonlocal done
            done += rows
            self._tell(Step(stage, table, done, total))

        return tell

    @staticmethod
    def _mark(side: Side, note: Note, phase: Phase) -> None:
        side.write_note(msgspec.structs.replace(note, phase=phase))

    @staticmethod
    def _phase_of(side: Side) -> Phase | None:
        note = side.note()
        return None if note is None else note.phase


def _used(layout: Layout) -> str:
    """Which rows an empty database does not have: a condition on `t`."""
    return "coalesce(t.slug, '') <> 'default'" if layout.name == "tenants" else "true"


class _Running(StoreError):
    """A job was claimed between the drain and the seal."""
