"""Takes secrets out of what a worker is about to store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import msgspec

from headway import secrets
from headway.logs import Seldom, get_logger
from headway.model.job import Claim, NewJob, Report, Settlement
from headway.model.machine import Turn

S = TypeVar("S", bound=msgspec.Struct)

log = get_logger("headway.worker")
_warns = Seldom(60)


def redacted(claim: Claim, settlement: Settlement) -> Settlement:
    """The settlement without secrets.

    Texts for people lose whatever looks like one. Results, states and the payloads of children are for programs: they
    lose known values only, and with a warning, since somebody will miss them.
    """
    error, turn = settlement.error, settlement.turn
    result = settlement.result and secrets.redact_json(settlement.result)
    silent = error is None and settlement.stdout_tail is None and settlement.stderr_tail is None
    if silent and turn is None and result is settlement.result:
        return settlement  # as nearly all are
    changed = _changed(settlement, {"result": result, "turn": turn if turn is None else _turn(turn)})
    if changed is not settlement and _warns(claim.kind):
        log.warning(
            "the outcome held the value of a secret, which is not stored: give a reference to it, "
            '{"$secret": "NAME"}, or use ctx.secret("NAME") where it is needed',
            kind=claim.kind,
            job_id=claim.id,
        )
    for_people = {
        "error": error and secrets.redact(error),
        "stdout_tail": settlement.stdout_tail and secrets.redact(settlement.stdout_tail),
        "stderr_tail": settlement.stderr_tail and secrets.redact(settlement.stderr_tail),
    }
    return _changed(changed, for_people)


def redacted_report(report: Report) -> Report:
    """What a job says of itself, without secrets."""
    texts = {
        "note": report.note and secrets.redact(report.note),
        "tail": report.tail and secrets.redact(report.tail),
    }
    return _changed(report, texts)


def _turn(turn: Turn) -> Turn:
    values: dict[str, object] = {
        "note": turn.note and secrets.redact_values(turn.note),
        "state": turn.state and secrets.redact_json(turn.state),
    }
    if turn.children:
        children = tuple(map(_child, turn.children))
        same = all(new is old for new, old in zip(children, turn.children, strict=True))
        values["children"] = turn.children if same else children
    return _changed(turn, values)


def _child(child: NewJob) -> NewJob:
    return _changed(
        child,
        {"payload": secrets.redact_json(child.payload), "meta": child.meta and secrets.redact_json(child.meta)},
    )


def _changed(struct: S, values: Mapping[str, object]) -> S:
    """The struct itself where all of these are what it has."""
    changes = {name: value for name, value in values.items() if value is not getattr(struct, name)}
    return msgspec.structs.replace(struct, **changes) if changes else struct
