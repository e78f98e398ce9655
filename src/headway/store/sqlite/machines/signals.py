"""Signals: puts them into inboxes and wakes the machines that await them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from headway.model import refusals
from headway.model.checks import check_signals
from headway.model.ids import DEFAULT_TENANT_ID
from headway.model.signal import NewSignal, Sent, Signal, no_receiver, reads_nothing
from headway.model.status import FINISHED, Status
from headway.store.ops import Batch, Op, Row, Statement, Steps
from headway.store.sqlite.engine.decode import to_names, to_signal
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import SqliteOp, Verbs, json_list
from headway.store.sqlite.machines.inbox import names_there
from headway.store.sqlite.machines.wake import Waiting, wake
from headway.store.sqlite.order.follow import follow

_SQL = statements("machines/signals")
_encode = msgspec.json.Encoder().encode


class _Target(msgspec.Struct, frozen=True, array_like=True):
    """A job that is sent a signal."""

    rowid: int
    id: str
    tenant_id: str
    kind: str
    queue: str
    status: Status
    is_machine: int  # it has a step
    ran: int
    awaiting: str | None
    match_all: int | None
    unique_key: str | None
    unique_scope: str


class SignalVerbs(Verbs):
    def signal(self, signals: Sequence[NewSignal]) -> Op[list[Sent]]:
        def steps() -> Steps[list[Sent]]:
            if not signals:
                return []
            yield Statement(_SQL["lock"])
            return (yield from send_signals(signals, self._clock.now()))

        return SqliteOp(steps, writes=True)

    def signals(self, job_id: str, *, tenant_id: str | None, raw: bool = False) -> Op[list[Signal]]:
        def steps() -> Steps[list[Signal]]:
            rows = yield Statement(_SQL["of_job"], (job_id, tenant_id))
            return [to_signal(row, raw) for row in rows]

        return SqliteOp(steps, writes=False)


def send_signals(signals: Sequence[NewSignal], now: int) -> Steps[list[Sent]]:
    """Put them into inboxes and wake the machines that await them, under the write lock. Raises before it writes
    anything, or not at all."""
    check_signals(signals)
    targets = yield from _targets(signals)
    if any(map(_reads_nothing, targets)):
        yield from _check_repeats(signals, targets)
    created = yield from _put(signals, targets, now)
    yield from _wake(signals, targets, created, now)
    return (yield from _answers(signals, targets, created))


def _targets(signals: Sequence[NewSignal]) -> Steps[list[_Target]]:
    """The job of each signal; raises `NotFound`."""
    ids = list({signal.job_id: None for signal in signals if signal.job_id is not None})
    keys = list({_key(signal): None for signal in signals if signal.job_id is None})
    by_id: dict[str, _Target] = {}
    by_key: dict[tuple[str, str | None, str | None], _Target] = {}
    if ids:
        by_id = {row[0]: _Target(*row[1:]) for row in (yield Statement(_SQL["by_id"], (json_list(ids),)))}
    if keys:
        rows = yield Statement(_SQL["by_key"], (_encode(keys).decode(),))
        by_key = {keys[row[0]]: _Target(*row[1:]) for row in rows}
    found: list[_Target] = []
    for signal in signals:
        job = by_key.get(_key(signal)) if signal.job_id is None else by_id.get(signal.job_id)
        if job is None or (signal.job_id is not None and signal.tenant_id not in (None, job.tenant_id)):
            raise no_receiver(signal)
        found.append(job)
    return found


def _key(signal: NewSignal) -> tuple[str, str | None, str | None]:
    return signal.tenant_id or DEFAULT_TENANT_ID, signal.kind, signal.unique_key


def _reads_nothing(job: _Target) -> bool:
    return reads_nothing(job.status, is_machine=bool(job.is_machine), ran=bool(job.ran))


def _check_repeats(signals: Sequence[NewSignal], targets: Sequence[_Target]) -> Steps[None]:
    """A repeated signal is answered, not refused; raises `NotAllowed` for the others."""
    there = yield from _existing(signals, targets)
    for signal, job in zip(signals, targets, strict=True):
        if signal.id not in there and _reads_nothing(job):
            raise refusals.not_signalable(job.id, job.kind, job.status)


def _existing(signals: Sequence[NewSignal], targets: Sequence[_Target]) -> Steps[dict[str, tuple[str, str]]]:
    """For each of these signals that exists, by its id or dedup_key: (id, job id) of the existing one."""
    rows = yield Statement(_SQL["with_id"], (json_list([signal.id for signal in signals]),))
    owners = {signal.id: job.tenant_id for signal, job in zip(signals, targets, strict=True)}
    there: dict[str, tuple[str, str]] = {
        signal_id: (signal_id, job_id) for signal_id, job_id, tenant_id in rows if tenant_id == owners[signal_id]
    }
    keyed = {
        signal.id: (job.id, signal.dedup_key)
        for signal, job in zip(signals, targets, strict=True)
        if signal.dedup_key is not None and signal.id not in there
    }
    if keyed:
        rows = yield Statement(_SQL["with_key"], (_encode(list(keyed.values())).decode(),))
        by_key = {(job_id, key): (signal_id, job_id) for signal_id, job_id, key in rows}
        there |= {signal_id: by_key[key] for signal_id, key in keyed.items() if key in by_key}
    return there


def _put(signals: Sequence[NewSignal], targets: Sequence[_Target], now: int) -> Steps[set[str]]:
    """Insert them in the order given; gives the ids of the new ones."""
    rows = [
        signal_row(signal, job.id, job.tenant_id, now)
        for signal, job in zip(signals, targets, strict=True)
        if job.status not in FINISHED
    ]
    created = {signal_id for (signal_id,) in (yield put_signals(rows))} if rows else set()
    plain = {job.rowid: (job.rowid,) for job in targets if not job.is_machine and job.status not in FINISHED}
    if plain:
        yield Batch(_SQL["mark"], list(plain.values()))
    return created


def put_signals(rows: Sequence[Row]) -> Batch:
    """Inserts signals; gives the ids of the new ones."""
    return Batch(_SQL["put"], rows)


def signal_row(signal: NewSignal, job_id: str, tenant_id: str, now: int) -> Row:
    said = (signal.name, signal.payload, signal.dedup_key, now, signal.trace_id, signal.created_by)
    return (signal.id, job_id, tenant_id, *said)


def _wake(signals: Sequence[NewSignal], targets: Sequence[_Target], created: set[str], now: int) -> Steps[None]:
    """Wake the machines that await one of the new signals; earlier ones alone were not enough."""
    waiting: dict[str, _Target] = {}
    for signal, job in zip(signals, targets, strict=True):
        if job.status == "waiting" and signal.id in created and signal.name in to_names(job.awaiting):
            waiting[job.id] = job
    if not waiting:
        return
    every = [job.id for job in waiting.values() if job.match_all]
    there = (yield from names_there(every)) if every else {}
    ready = [
        Waiting(job.rowid, job.id, job.unique_key, job.unique_scope)
        for job in waiting.values()
        if not job.match_all or there[job.id].issuperset(to_names(job.awaiting))
    ]
    ended = yield from wake(ready, "signal", now)
    if ended:
        yield from follow(ended, now=now)


def _answers(signals: Sequence[NewSignal], targets: Sequence[_Target], created: set[str]) -> Steps[list[Sent]]:
    there: Mapping[str, tuple[str, str]] = {}
    if len(created) < len(signals):
        there = yield from _existing(signals, targets)
    answers: list[Sent] = []
    for signal, job in zip(signals, targets, strict=True):
        new = signal.id in created
        if not new and signal.id not in there:
            raise refusals.id_taken("signal", signal.id)  # another tenant has it
        signal_id, job_id = (signal.id, job.id) if new else there[signal.id]
        answers.append(Sent(signal_id, job_id, job.queue, new))
    return answers
