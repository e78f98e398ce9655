"""ctx.settle in a test that has no worker and no database: the outcome counts as if its transaction were committed."""

from __future__ import annotations

from typing import Any

from headway.define import Cancel, Context, Retry, Snooze
from headway.worker.own_transactions import is_own_will

NOTHING = object()
"""No outcome: None is one."""


class TakenAsCommitted:
    """What a context made by hand does for `settle`: keeps the outcome. The last one counts, since a handler may repeat
    a transaction that was rolled back."""

    def __init__(self) -> None:
        self._outcome: Any = NOTHING

    def settle(self, _: Context, outcome: Any, __: Any) -> None:
        is_own_will(outcome)
        self._outcome = outcome

    async def asettle(self, ctx: Context, outcome: Any, conn: Any) -> None:
        self.settle(ctx, outcome, conn)

    def take(self) -> Any:
        outcome, self._outcome = self._outcome, NOTHING
        return outcome


def settled(ctx: Context) -> Any:
    """The outcome that the handler settled with, or NOTHING; raises a Retry, Snooze or Cancel."""
    by_hand = ctx.own_transactions
    outcome = by_hand.take() if isinstance(by_hand, TakenAsCommitted) else NOTHING
    if isinstance(outcome, Retry | Snooze | Cancel):
        raise outcome
    return outcome
