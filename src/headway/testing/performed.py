"""perform: runs one handler in isolation, without database or worker; its arguments still travel as JSON."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from headway.config import Settings
from headway.define import BatchKind, Call, Context, Kind
from headway.errors import ConfigError, InvalidJob
from headway.model.codec import encode
from headway.model.ids import as_id, known_id, new_id
from headway.model.job import Claim, NewJob
from headway.model.outcome import Done
from headway.secrets import Grant, Vault
from headway.testing.kept_artifacts import KeptInMemory
from headway.testing.settled import NOTHING, TakenAsCommitted, settled

_RESULT_LIMIT = Settings().result_limit
_SPILL_LIMIT = Settings().spill_limit
OPEN = Vault({"*": Grant(kinds=("*",), tenants=("*",))})
"""A context made by hand gives every secret, whatever headway.toml declares."""


def perform(kind: Kind[..., Any], /, *args: Any, ctx: Context | None = None, **kwargs: Any) -> Any:
    """Call a kind's handler with these arguments, written as JSON and read back as a worker would; gives its result.

    Raises what the handler raises, `InvalidJob` or `InvalidPayload` for arguments that could not be enqueued, and
    `InvalidPayload` for a result that could not be stored. A handler that takes a context gets `ctx`, or a plain
    one (see `context`). There is no middleware, timeout or retry. A kind that takes batches gets a batch of this one
    call. What the handler settles with `ctx.settle` is the result, as if its transaction were committed; a settled
    Retry, Snooze or Cancel is raised, and nothing is written to `conn`. What it stores with `ctx.artifact` is kept in
    memory: `artifacts_of(ctx)`. For a step of a machine use `perform_step`.

    >>> from headway import Registry
    >>> shop = Registry()
    >>> @shop.job
    ... async def welcome(user_id: int) -> str:
    ...     return f"hello {user_id}"
    >>> perform(welcome, user_id=7)
    'hello 7'
    """
    _check(kind)
    ctx = context(kind) if ctx is None else ctx
    if not _is_async(kind):
        call = _call(kind, args, kwargs, ctx)
        return _result(kind, ctx, kind.fn(*call[0], **call[1]))
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        with asyncio.Runner() as runner:
            return runner.run(aperform(kind, *args, ctx=ctx, **kwargs))
    raise ConfigError(f"{kind.name} is async and this thread runs an event loop: use `await aperform({kind.name}, …)`")


async def aperform(kind: Kind[..., Any], /, *args: Any, ctx: Context | None = None, **kwargs: Any) -> Any:
    """The same inside a running event loop; a plain function runs in a thread, as under a worker."""
    _check(kind)
    ctx = context(kind) if ctx is None else ctx
    args, kwargs = _call(kind, args, kwargs, ctx)
    if _is_async(kind):
        returned = await kind.fn(*args, **kwargs)
    else:
        returned = await asyncio.to_thread(kind.fn, *args, **kwargs)
    return _result(kind, ctx, returned)


def context(
    kind: Kind[..., Any] | None = None,
    *,
    job_id: str | UUID | None = None,
    tenant: str = "default",
    queue: str | None = None,
    tries: int = 0,
    losses: int = 0,
    fence: int | None = None,
    trace_id: str | None = None,
    correlation_id: str | None = None,
    meta: Mapping[str, Any] | None = None,
    canceled: bool = False,
) -> Context:
    """A context to call a handler with, as if a job had got this far.

    >>> context(tries=2, meta={"origin": "import"}).tries
    2
    """
    row = NewJob(id="", kind="test") if kind is None else kind.options.row(kind.name)
    claim = claim_of(
        row,
        job_id=job_id,
        tenant=tenant,
        queue=queue,
        tries=tries,
        losses=losses,
        fence=fence,
        trace_id=trace_id,
        correlation_id=correlation_id,
        meta=meta,
    )
    ctx = Context(claim, tenant=tenant, worker_id="headway.testing", vault=OPEN)
    ctx.own_transactions = TakenAsCommitted()
    ctx.artifact_writer = KeptInMemory()
    if canceled:
        ctx.cancel()
    return ctx


def claim_of(
    row: NewJob,
    *,
    job_id: str | UUID | None = None,
    tenant: str = "default",
    queue: str | None = None,
    tries: int = 0,
    losses: int = 0,
    fence: int | None = None,
    trace_id: str | None = None,
    correlation_id: str | None = None,
    meta: Mapping[str, Any] | None = None,
) -> Claim:
    """The claim that a worker would get of this job."""
    return Claim(
        id=new_id() if job_id is None else as_id(job_id),
        tenant_id=known_id(tenant) or new_id(),
        kind=row.kind,
        queue=queue or row.queue,
        payload=row.payload,
        fence=tries + losses + 1 if fence is None else fence,
        tries=tries,
        losses=losses,
        max_attempts=row.max_attempts,
        max_losses=row.max_losses,
        backoff_base_ms=row.backoff_base_ms,
        backoff_cap_ms=row.backoff_cap_ms,
        timeout_ms=row.timeout_ms,
        delivery=row.delivery,
        correlation_id=correlation_id or row.correlation_id,
        trace_id=trace_id or row.trace_id,
        meta=row.meta if meta is None else encode(meta, limit=_RESULT_LIMIT, what="meta"),
    )


def _check(kind: Kind[..., Any]) -> None:
    if isinstance(kind, type) or kind.is_machine:
        name = kind.__name__ if isinstance(kind, type) else kind.name
        raise InvalidJob(f"{name} is a machine: use perform_step({name}, step, …), or stepping(app, {name}, …)")


def _call(
    kind: Kind[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], ctx: Context
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    args, kwargs = kind.decode(kind.build(*args, **kwargs).payload, ctx.secret)
    if isinstance(kind, BatchKind):
        return ([Call(args[0], ctx)],), {}
    if kind.context_param is not None:
        kwargs[kind.context_param] = ctx
    return args, kwargs


def _is_async(kind: Kind[..., Any]) -> bool:
    return kind.calls_async if isinstance(kind, BatchKind) else kind.is_async


def _own_answer(kind: Kind[..., Any], returned: Any) -> Any:
    """What the function said of the one call of its batch."""
    if not isinstance(kind, BatchKind):
        return returned
    ((value, error),) = kind.answers(returned, 1)
    if error is not None:
        raise error
    return value


def _result(kind: Kind[..., Any], ctx: Context, returned: Any) -> Any:
    """What the handler settled with or returned, if that can be stored."""
    outcome = settled(ctx)
    if outcome is not NOTHING:
        kind.settlement_of(ctx, outcome, result_limit=_RESULT_LIMIT)
        return outcome.result if isinstance(outcome, Done) else outcome
    result = _own_answer(kind, returned)
    if result is not None:
        encode(result, limit=_SPILL_LIMIT if kind.options.spill else _RESULT_LIMIT, what="result")
    return result
