"""Secrets in what a worker is about to store: masked in text for people, refused in data for programs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeVar

import msgspec

from headway import secrets
from headway.errors import InvalidPayload
from headway.model.job import NewJob, Report, Settlement
from headway.secrets import Known, redact

if TYPE_CHECKING:
    from headway.worker.execution import Execution

S = TypeVar("S", bound=msgspec.Struct)

_JSON = frozenset({"payload", "meta", "state", "result"})


def check_exposure(settlement: Settlement, given: Mapping[str, str]) -> None:
    """Raises `InvalidPayload` if the outcome holds the value of a secret that this execution was given.

    It is refused, not masked: data that programs work with is stored unaltered or not at all.
    """
    _check(_stored(settlement), given)


def check_child(child: NewJob, given: Mapping[str, str]) -> None:
    """Raises `InvalidPayload` if this job, of a flow, holds the value of a secret that its execution was given."""
    if given:
        _check(_of_child(child), given)


def check_json(what: str, text: str, given: Mapping[str, str]) -> None:
    """Raises `InvalidPayload` if this JSON, of a flow, holds the value of a secret that its execution was given."""
    if given:
        _check([(what, "result", text)], given)


def _check(stored: Iterable[tuple[str, str, str]], given: Mapping[str, str]) -> None:
    for what, field, text in stored:
        if field in _JSON:
            found = secrets.exposed(text, given)
        else:
            found = next(((name, ()) for name, value in given.items() if secrets.holds(text, value.strip())), None)
        if found is not None:
            name, path = found
            where = f" at {secrets.show(path)}" if path else ""
            raise InvalidPayload(
                f"{what} holds the value of the secret {name}{where}, which is never stored: leave it out, or give the "
                f'reference {{"$secret": "{name}"}} to the job that needs it'
            )


def redacted(settlement: Settlement, run: Execution) -> Settlement:
    """The settlement with its secrets masked in error, note and output."""
    error, turn = settlement.error, settlement.turn
    note = None if turn is None else turn.note
    if error is None and note is None and settlement.stdout_tail is None and settlement.stderr_tail is None:
        return settlement  # fast path: no text
    known = run.known()
    if turn is not None:
        turn = _changed(turn, {"note": note and redact(note, known)})
    return _changed(
        settlement,
        {
            "turn": turn,
            "error": error and redact(error, known),
            "stdout_tail": settlement.stdout_tail and redact(settlement.stdout_tail, known),
            "stderr_tail": settlement.stderr_tail and redact(settlement.stderr_tail, known),
        },
    )


def redacted_report(report: Report, known: Known) -> Report:
    """The report with its secrets masked."""
    texts = {"note": report.note and redact(report.note, known), "tail": report.tail and redact(report.tail, known)}
    return _changed(report, texts)


def _stored(settlement: Settlement) -> Iterator[tuple[str, str, str]]:
    """Each stored text: what it is for people, the field's name, and the text."""
    if settlement.result is not None:
        yield "the result", "result", settlement.result
    turn = settlement.turn
    if turn is None:
        return
    if turn.state is not None:
        yield "the state", "state", turn.state
    for name in turn.awaiting:
        yield "the name of an awaited signal", "awaiting", name
    for text in (turn.queue, turn.partition):
        if text is not None:
            yield "the queue or partition of the next step", "partition", text
    for child in turn.children:
        yield from _of_child(child)


def _of_child(child: NewJob) -> Iterator[tuple[str, str, str]]:
    for field in child.__struct_fields__:
        value = getattr(child, field)
        if isinstance(value, str):
            yield f"a child ({child.kind}) in its {field}", field, value
    if child.checkpoint is not None and child.checkpoint.state:
        yield f"a child ({child.kind}) in its state", "state", bytes(child.checkpoint.state).decode()


def _changed(struct: S, values: Mapping[str, object]) -> S:
    """The struct with these values; the same object if nothing differs."""
    changes = {name: value for name, value in values.items() if value is not getattr(struct, name)}
    return msgspec.structs.replace(struct, **changes) if changes else struct
