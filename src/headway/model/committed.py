"""An outcome that a handler commits with its own rows: as the text that its job's row holds until it is applied."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from headway.errors import StoreFailed
from headway.model.job import NewJob, Settlement
from headway.model.machine import Checkpoint, Turn


# the same with types that a decoder can resolve: job.py cannot import those of machine.py
class _Child(NewJob, frozen=True, kw_only=True):
    checkpoint: Checkpoint | None = None


class _Turn(Turn, frozen=True, kw_only=True):
    children: tuple[_Child, ...] = ()


class _Settlement(Settlement, frozen=True, kw_only=True):
    turn: _Turn | None = None


S = TypeVar("S", bound=msgspec.Struct)

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Settlement).decode


def committed_text(settlement: Settlement) -> str:
    return _encode(settlement).decode()


def read_committed(text: str) -> Settlement:
    try:
        found = _decode(text)
    except msgspec.MsgspecError as error:
        raise StoreFailed(
            f"an outcome that a handler committed with its own rows cannot be read here: {error}. It stays where it is "
            "until a worker of the release that wrote it settles it"
        ) from error
    turn = found.turn
    if turn is None:
        return _as(Settlement, found)
    children = tuple(_as(NewJob, child) for child in turn.children)
    return _as(Settlement, found, turn=_as(Turn, turn, children=children))


def not_applied(settlement: Settlement, reason: str) -> Settlement:
    """What becomes of a committed outcome that the store refuses: the job is dead. Its step must not run again, for
    what it did is committed."""
    return Settlement(id=settlement.id, fence=settlement.fence, status="failed", to="dead", charge=1, error=reason)


def _as(cls: type[S], struct: S, **changes: object) -> S:
    return cls(**{name: getattr(struct, name) for name in cls.__struct_fields__} | changes)
