"""Results that workers say over HTTP and that are too large for their row: stored as artifacts of their attempts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from headway.api.call import Call
from headway.api.workers.requests import fence_of, valid_id
from headway.errors import LeaseLost
from headway.model.codec import encode
from headway.worker.artifacts import ArtifactWriter, Attempted

if TYPE_CHECKING:
    from headway.api.workers.ends import EndIn


async def spill_results(call: Call[Any, Any], worker_id: str, ends: Sequence[EndIn]) -> None:
    """Put references in place of the results that are over the limit of rows, of kinds that let them spill. The others
    stay, to be refused, and so do those of claims that are not this worker's."""
    settings, store = call.app.settings, call.app.store
    large = {valid_id(end.id): end for end in ends if len(_result(end)) > settings.result_limit}
    if not large:
        return
    await call.app.alearn(None)
    running = await store.arun(store.ops.running(worker_id, tenant_id=call.verbs._visible_tenant))
    writer = ArtifactWriter(store.ops, call.app._places, store.arun)
    for job in await store.arun(store.ops.get(list(large), tenant_id=call.verbs._visible_tenant)):
        end = large[job.id]
        claim = (job.id, fence_of(end))
        definition = call.app._definitions.get(job.kind)
        if claim not in running or definition is None or not definition.policy.get("spill"):
            continue
        result = msgspec.Raw(_result(end))
        text = await call.aside(partial(encode, result, limit=settings.spill_limit, what="result"))
        try:
            reference = await writer.aspill(Attempted(job.id, job.tenant_id, claim[1]), text)
        except LeaseLost:
            continue
        if end.outcome is None:
            end.result = msgspec.Raw(reference.encode())
        else:
            end.outcome.done = msgspec.Raw(reference.encode())


def _result(end: EndIn) -> bytes:
    found = end.result if end.outcome is None else end.outcome.done
    return b"" if isinstance(found, msgspec.UnsetType) else bytes(found)
