"""Secrets that a flow or one of its steps was given: no row of its journal, no value, child or signal holds them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from headway import Context, Flow, SyncFlow, secret
from tests.secrets.planted_secrets import BY_REFERENCE
from tests.worker.ledger import Ledger
from tests.worker_harness import WorkerHarness

pytestmark = pytest.mark.usefixtures("planted")

Use = Callable[[Any, str], Awaitable[Any]]


def given(ctx: Context) -> str:
    return f"it is {ctx.secret('PLANTED_PLAIN')}"


def raises(ctx: Context) -> None:
    raise ValueError(f"the token {ctx.secret('PLANTED_PLAIN')} was refused " + "x" * 100_000)


def stored(harness: WorkerHarness, job_id: str) -> str:
    """All that the database has of this flow."""
    rows = harness.store.run(harness.store.ops.journal([job_id])).rows
    shown = [harness.get(job_id), harness.attempts(job_id), rows, harness.find(kind="other"), harness.signals(job_id)]
    return repr(shown)


async def step(flow: Flow, token: str) -> None:
    await flow.step(given)


async def step_with_argument(flow: Flow, token: str) -> None:
    await flow.using(name="echo").step(lambda: token)


async def failing_step(flow: Flow, token: str) -> None:
    await flow.using(max_attempts=2, backoff=lambda _: 0.0).step(raises)


async def caught(flow: Flow, token: str) -> Any:
    try:
        await flow.step(given)
    except Exception as error:
        return str(error)


async def value(flow: Flow, token: str) -> None:
    flow.set(token=token)
    await flow.sleep("1h")


async def value_while_running(flow: Flow, token: str) -> None:
    flow.set(token=token)
    await flow.step(asyncio.sleep, 1.5)


async def signal(flow: Flow, token: str) -> None:
    await flow.send(flow.job_id, "told", {"token": token})


async def failure(flow: Flow, token: str) -> None:
    flow.fail(f"the token {token} was refused")


async def result(flow: Flow, token: str) -> str:
    return token


async def again(flow: Flow, token: str) -> None:
    flow.restart(token=token)


@pytest.mark.parametrize(
    ("use", "status"),
    [
        (step, "dead"),
        (step_with_argument, "dead"),
        (failing_step, "dead"),
        (caught, "succeeded"),
        (value, "dead"),
        (value_while_running, "dead"),
        (signal, "dead"),
        (failure, "failed"),
        (result, "dead"),
        (again, "dead"),
    ],
)
def test_no_secret_is_stored(harness: WorkerHarness, use: Use, status: str) -> None:
    @harness.flow(max_attempts=1)
    async def f(flow: Flow, token: str) -> Any:
        return await use(flow, token)

    (job_id,) = harness.enqueue(f.build(token=secret("PLANTED_PLAIN")))
    harness.drain()
    assert harness.get(job_id).status == status
    assert BY_REFERENCE not in stored(harness, job_id)
    assert len(stored(harness, job_id)) < 100_000


@pytest.mark.parametrize("verb", ["call", "enqueue"])
def test_no_job_of_a_flow_gets_the_value_of_a_secret(harness: WorkerHarness, verb: str) -> None:
    @harness.job
    def other(token: str) -> None: ...

    @harness.flow
    async def f(flow: Flow, token: str) -> str:
        try:
            await getattr(flow, verb)(other, token=token)
        except Exception as error:
            await flow.step(str, "caught")
            return str(error)
        return "nothing"

    (job_id,) = harness.enqueue(f.build(token=secret("PLANTED_PLAIN")))
    harness.drain()
    assert "PLANTED_PLAIN" in harness.get(job_id).result
    assert harness.find(kind="other") == []
    assert BY_REFERENCE not in stored(harness, job_id)


def test_a_plain_flow_stores_no_secret(harness: WorkerHarness) -> None:
    @harness.flow
    def f(flow: SyncFlow) -> None:
        flow.step(given)

    (job_id,) = harness.enqueue(f.build())
    harness.drain()
    assert "holds the value of the secret PLANTED_PLAIN" in (harness.get(job_id).error or "")
    assert BY_REFERENCE not in stored(harness, job_id)


def test_a_step_that_settles_stores_no_secret(harness: WorkerHarness, live_store: Any) -> None:
    ledger = Ledger(live_store)

    def settles(ctx: Context) -> None:
        ledger.settle(ctx, {"token": ctx.secret("PLANTED_PLAIN")})

    @harness.flow
    async def f(flow: Flow) -> None:
        await flow.using(max_attempts=1).step(settles)

    (job_id,) = harness.enqueue(f.build())
    harness.drain()
    assert "holds the value of the secret PLANTED_PLAIN" in (harness.get(job_id).error or "")
    assert BY_REFERENCE not in stored(harness, job_id)
