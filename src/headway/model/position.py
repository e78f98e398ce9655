"""Positions of jobs in a line: numbers with gaps between them, so that one can be put between two others."""

from __future__ import annotations

from collections.abc import Sequence

GAP = 1024
"""How far apart new positions are: ten jobs can be put into one gap, each beside the last, before others must move."""


def spread(last: int, count: int) -> list[int]:
    """The `count` positions up to the last one.

    >>> spread(4096, 3)
    [2048, 3072, 4096]
    """
    return [last - GAP * back for back in range(count - 1, -1, -1)]


def between(low: int, high: int) -> int | None:
    """The middle of a gap; None where nothing fits in.

    >>> between(1024, 2048), between(7, 8)
    (1536, None)
    """
    return (low + high) // 2 if high - low > 1 else None


def renumbered(low: int, following: Sequence[int]) -> list[int] | None:
    """Positions for a new job behind `low` and for the first of those that follow it, as few as give room again.

    None: there is no room before the last of them.

    >>> renumbered(5, [6, 7, 1000])
    [253, 501, 749]
    """
    for moved, position in enumerate(following):
        # this one may stay: the new one and those before this one find room
        step = (position - low) // (moved + 2)
        if step >= 2:
            return [low + step * (index + 1) for index in range(moved + 1)]
    return None
