"""Outcomes that handlers commit with their own rows: writes them into the handlers' transactions, and settles them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from headway.define.claimed_step import ClaimedStep
from headway.define.context import Context
from headway.define.state import brief
from headway.errors import InvalidOutcome, SchemaMissing, SchemaOutdated, StoreBusy, StoreFailed, StoreUnavailable
from headway.logs import get_logger
from headway.model import refusals
from headway.model.job import Claim, Settlement
from headway.model.outcome import Cancel, Done, Outcomes, Retry, Snooze
from headway.secrets import own, redact
from headway.worker.database import Database
from headway.worker.error_text import handler_exc_info, storable
from headway.worker.execution import Execution
from headway.worker.failures import settlement_for_error
from headway.worker.outcome_secrets import check_exposure, redacted

log = get_logger("headway.worker")

Key = tuple[str, int]
"""A claim: the job's id and the fence."""

_READ_AGAIN_S = 0.25


class OwnTransactions:
    """Writes what `ctx.settle` is given, and finds out what was committed when the handler has ended."""

    def __init__(
        self, database: Database, running: Mapping[Key, Execution], *, result_limit: int, state_limit: int
    ) -> None:
        self._database = database
        self._ops = database.ops
        self._running = running
        self._result_limit = result_limit
        self._state_limit = state_limit
        # the last outcome that each handler wrote; only the row tells whether its transaction was committed
        self.offered: dict[Key, Any] = {}

    def settle(self, ctx: Context, outcome: Any, conn: Any) -> None:
        self._database.run_in(conn, self._ops.commit_outcome(self._offer(ctx, outcome)))

    async def asettle(self, ctx: Context, outcome: Any, conn: Any) -> None:
        await self._database.arun_in(conn, self._ops.commit_outcome(self._offer(ctx, outcome)))

    def _offer(self, ctx: Context, outcome: Any) -> Settlement:
        key = ctx.job_id, ctx.fence
        run = self._running.get(key)
        if run is None:
            raise refusals.claim_lost(*key)
        settlement = redacted(self._settlement(run, ctx, outcome), run)
        self.offered[key] = outcome
        return settlement

    def _settlement(self, run: Execution, ctx: Context, outcome: Any) -> Settlement:
        """Raises `InvalidOutcome` or `InvalidPayload` for what cannot be an outcome."""
        if is_own_will(outcome):
            return settlement_for_error(run.claim, run.handler.options, outcome)
        if not isinstance(run.handler, ClaimedStep) and not isinstance(outcome, Outcomes):
            outcome = Done(outcome)  # it is done, even if it saw that its worker stops
        # the next step is not run in the same slot: another worker may be the one to settle this
        settlement = run.handler.settlement_of(
            ctx, outcome, result_limit=self._result_limit, state_limit=self._state_limit, continues=False
        )
        if ctx.given:
            check_exposure(settlement, ctx.given)
        return settlement

    async def committed(self, run: Execution, ended_by: Any) -> Settlement | None:
        """The outcome that this handler committed; None if it wrote none, or its transaction was rolled back.

        `ended_by` is what it returned or raised, which does not count any more."""
        key = run.claim.id, run.claim.fence
        if key not in self.offered:
            return None
        committed = await self._read(run)
        if committed is None or ended_by is None or ended_by is self.offered.get(key):
            return committed
        text = "the outcome that its handler committed with its own rows stands, and not "
        if run.stop_reason is not None:
            log.info(f"{text}that it was asked to stop", reason=run.stop_reason)
        elif isinstance(ended_by, BaseException):
            log.warning(f"{text}what it raised after that", exc_info=handler_exc_info(ended_by))
        else:
            log.warning(f"{text}what it returned after that")
        return committed

    async def _read(self, run: Execution) -> Settlement | None:
        while not run.settled:
            try:
                return await self._database.run(self._ops.committed(run.claim.id, run.claim.fence))
            except (StoreUnavailable, StoreFailed):
                await asyncio.sleep(_READ_AGAIN_S)
        return None

    def forget(self, claim: Claim) -> None:
        self.offered.pop((claim.id, claim.fence), None)


def is_own_will(outcome: Any) -> bool:
    """Whether it is a Retry, Snooze or Cancel; raises `InvalidOutcome` for any other error."""
    if isinstance(outcome, Retry | Snooze | Cancel):
        return True
    if isinstance(outcome, BaseException) or (isinstance(outcome, type) and issubclass(outcome, BaseException)):
        raise InvalidOutcome(
            f"settle got {brief(outcome)}: it takes what the handler would return, or an instance of Retry, Snooze "
            "or Cancel; raise any other error, so that your transaction is rolled back"
        )
    return False


async def settle_committed(database: Database, claims: Sequence[Key]) -> tuple[list[Settlement], list[Key]]:
    """Settle those of these claims whose handlers have committed an outcome. Gives these outcomes, and the claims that
    have to be tried again later: somebody's open transaction is in the way, or the database failed at them.

    An outcome that the store refuses is replaced by the job's death: what the handler did is committed, so it may not
    run again."""
    try:
        return await database.run(database.ops.settle_committed(claims)), []
    except (StoreBusy, StoreFailed) as error:
        if len(claims) == 1:
            log.warning("an outcome that was committed with its own rows is settled later", error=str(error))
            return [], list(claims)
    except (StoreUnavailable, SchemaMissing, SchemaOutdated):
        raise
    except Exception as error:
        if len(claims) == 1:
            text = f"its outcome, committed with its own rows, could not be applied: {type(error).__name__}: {error}"
            text = storable(redact(text, own()))
            log.error(text, job_id=claims[0][0])
            return await database.run(database.ops.settle_committed(claims, refused=text)), []
    settled: list[Settlement] = []
    left: list[Key] = []
    for claim in claims:
        done, later = await settle_committed(database, [claim])
        settled += done
        left += later
    return settled, left
