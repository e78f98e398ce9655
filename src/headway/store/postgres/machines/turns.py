"""Turns: what the end of a step writes beside the job's move."""

from __future__ import annotations

from typing import Any

import msgspec

from headway.model.machine import Turn


def turn_json(turn: Turn) -> str:
    """A turn as end_attempts reads it, with only what is set. State and children are sent separately."""
    given: dict[str, Any] = {
        "outcome": turn.outcome,
        "ran": turn.ran,
        "step": turn.step,
        "version": turn.version,
    }
    if turn.progress:
        given["progress"] = True
    if turn.note is not None:
        given["note"] = turn.note
    if turn.consumed:
        given["consumed"] = turn.consumed
    if turn.awaiting:
        given["awaiting"] = turn.awaiting
        if turn.match == "all":
            given["all"] = True
    if turn.deadline_ms is not None:
        given["deadline_ms"] = turn.deadline_ms
    if turn.children:
        given["joins"] = True
    elif is_childless(turn):
        given["childless"] = True
    if turn.queue is not None:
        given["queue"] = turn.queue
        given["partition"] = turn.partition
        given["home_queue"] = turn.home_queue
        given["home_partition"] = turn.home_partition
    return msgspec.json.encode(given).decode()


def is_childless(turn: Turn | None) -> bool:
    """Whether it is a Spawn without children: there is nothing to wait for."""
    return turn is not None and turn.outcome == "spawn" and not turn.children
