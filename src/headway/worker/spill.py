"""Payloads and results that are too large for their row: results stored as artifacts, both read for handlers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from headway.artifacts import Places
from headway.errors import ArtifactElsewhere, ArtifactGone, HeadwayError, LeaseLost
from headway.logs import get_logger
from headway.model.artifact import Artifact
from headway.model.codec import decode
from headway.model.job import Claim, Settlement
from headway.model.machine import Child
from headway.model.spill import Spilled, is_over
from headway.store.ops import Op, Ops
from headway.worker.artifacts import ArtifactWriter
from headway.worker.error_text import storable
from headway.worker.execution import Execution
from headway.worker.failures import consequence, settlement_for_failure

log = get_logger("headway.worker")


class ResultSpill:
    """For kinds that let their results spill: after the handler has returned, before its outcome is written."""

    def __init__(self, writer: ArtifactWriter | None, *, result_limit: int, spill_limit: int) -> None:
        self._writer = writer
        self._result_limit = result_limit
        # how many bytes a result may have
        self.limit = result_limit if writer is None else max(result_limit, spill_limit)

    async def spilled(self, run: Execution, outcome: Settlement) -> Settlement | None:
        """The outcome, with a reference instead of a result that is over the limit of rows; None: the claim is not this
        worker's any more. An attempt whose result cannot be written fails, whatever its `retry_on` says."""
        if self._writer is None or outcome.result is None or not is_over(outcome.result, self._result_limit):
            return outcome
        try:
            text = await self._writer.aspill(run.claim, outcome.result)
        except LeaseLost:
            return None
        except HeadwayError as error:
            why = storable(f"its result could not be stored: {type(error).__name__}: {error}")
            outcome = settlement_for_failure(run.claim, run.handler.options, why)
            log.warning(f"attempt failed: {consequence(outcome)}", duration_ms=run.duration_ms, error=why)
            return outcome
        return msgspec.structs.replace(outcome, result=text)


class SpilledValues:
    """Reads the payloads of claims, and the results of a step's children, that artifacts have. Raises
    `ArtifactElsewhere`, `ArtifactGone`, `ArtifactsUnavailable`."""

    def __init__(self, ops: Ops, places: Places | None, run: Callable[[Op[Any]], Awaitable[Any]]) -> None:
        self._ops = ops
        self._places = places
        self._run = run

    async def with_payload(self, claim: Claim) -> Claim:
        """The claim, whose payload may be a reference, with the payload itself."""
        found = await self._run(self._ops.payload_artifact(claim.id, tenant_id=None))
        if found is None:
            return claim
        return msgspec.structs.replace(claim, payload=(await self._bytes_of(found)).decode())

    async def children_of(self, job_id: str) -> Sequence[Child]:
        """The children of a machine, with their results."""
        return await self.with_results(await self._run(self._ops.children(job_id, fence=None, tenant_id=None)))

    async def with_results(self, children: Sequence[Child]) -> Sequence[Child]:
        """The children with their results."""
        if not any(type(each.result) is Spilled for each in children):
            return children
        return [
            msgspec.structs.replace(each, result=await self._read(each.result))
            if type(each.result) is Spilled
            else each
            for each in children
        ]

    async def _read(self, spilled: Spilled) -> object:
        found = await self._run(self._ops.artifact(spilled.id, tenant_id=None))
        if found is None:
            raise ArtifactGone(f"artifact {spilled.id}, the result of a child, was deleted with its job")
        return decode(await self._bytes_of(found), what="result")

    async def _bytes_of(self, found: Artifact) -> bytes:
        if self._places is None:
            raise ArtifactElsewhere("this worker has no place for artifacts")
        return await self._places.aread(found)
