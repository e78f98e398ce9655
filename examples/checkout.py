"""A checkout as a machine: it waits up to three days for the payment, then ships or gives up.

Run it with: python examples/checkout.py [database URL]
"""

from __future__ import annotations

import logging
import sys
import tempfile
import time

import msgspec

from headway import Await, Context, Done, Headway, Machine, Next, Stop, step

app = Headway(sys.argv[1] if len(sys.argv) > 1 else f"sqlite:///{tempfile.mkdtemp()}/checkout.db")


@app.machine
class Checkout(Machine, queue="checkout"):
    class State(msgspec.Struct):
        order: int
        patience: str = "3d"
        paid: int = 0

    @step
    async def start(self, ctx: Context) -> Await:
        print(f"order {ctx.state.order}: please pay")
        # while it waits, the machine is only a row: no process, no thread, no timer
        return Await("payment", then=self.check, timeout=ctx.state.patience)

    @step
    def check(self, ctx: Context) -> Next | Stop:
        if ctx.timed_out:
            return Stop("never paid")
        ctx.state.paid = sum(signal.payload["amount"] for signal in ctx.signals)
        return Next(self.ship)  # commits the state and consumes the signals, in one transaction

    @step(max_attempts=10, timeout="1m")
    async def ship(self, ctx: Context) -> Done:
        return Done(f"order {ctx.state.order} shipped, {ctx.state.paid} paid")


def main() -> None:
    logging.getLogger("headway").setLevel(logging.ERROR)
    paid = Checkout.using(unique_key="order:42").enqueue(order=42)
    unpaid = Checkout.enqueue(order=43, patience="100ms")
    app.run("checkout", until_idle=True)

    # a payment provider's webhook may come twice; the dedup_key makes it one signal
    for _ in range(2):
        sent = Checkout.signal("order:42", "payment", {"amount": 100}, dedup_key="evt-7")
        print("payment taken" if sent.created else "payment known already")

    time.sleep(0.2)  # in production this would be days
    app.run("checkout", until_idle=True)
    print(app.result(paid.id).value)
    print(f"order 43: {app.result(unpaid.id).error}")
    for execution in app.history(paid.id):
        print(f"  {execution.step}: {execution.outcome} {execution.note or ''}".rstrip())
    app.close()


if __name__ == "__main__":
    main()
