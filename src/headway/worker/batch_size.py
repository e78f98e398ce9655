"""How much to claim and to settle at once."""

from __future__ import annotations


def max_claim(slots: int) -> int:
    """The most jobs of one claim. Of many slots half, so that the next claim is on its way while the jobs of this one
    run.

    >>> [max_claim(slots) for slots in (1, 100, 500, 1_000, 5_000)]
    [1, 100, 250, 500, 1000]
    """
    return min(slots, max(100, slots // 2), 1_000)


def worth_a_claim(slots: int) -> int:
    """How many slots of a busy queue must be free to be worth a claim.

    >>> [worth_a_claim(slots) for slots in (1, 7, 20, 500)]
    [1, 1, 5, 50]
    """
    return max(1, min(50, slots // 4))


class SettleBatchSize:
    """How many outcomes to write at once: halved when a batch fails, grown slowly from there."""

    def __init__(self, largest: int) -> None:
        self.most = self._largest = largest

    def failed(self, tried: int) -> None:
        self.most = max(1, min(self.most, tried // 2))

    def worked(self, tried: int) -> None:
        if tried >= self.most < self._largest:
            self.most = min(self._largest, self.most + max(1, self.most // 8))
