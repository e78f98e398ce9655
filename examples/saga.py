"""A saga: books a trip step by step; if a step fails for good, undoes the bookings in reverse order.

Run it with: python examples/saga.py [database URL]
"""

from __future__ import annotations

import logging
import sys
import tempfile
from dataclasses import dataclass, field

from headway import Context, Done, Headway, Machine, Next, Replay, Stop, step

app = Headway(sys.argv[1] if len(sys.argv) > 1 else f"sqlite:///{tempfile.mkdtemp()}/saga.db")


class SoldOut(Exception):
    """Another try cannot help."""


def book(what: str, trip: int) -> None:
    """Call an outside system; a real one would get the job's id and step as idempotency key."""
    if (what, trip) == ("car", 2):
        raise SoldOut("no car is left")
    print(f"trip {trip}: book {what}")


def undo(what: str, trip: int) -> None:
    print(f"trip {trip}: undo {what}")


@dataclass
class State:
    trip: int
    booked: list[str] = field(default_factory=list)  # undone from the last to the first


@app.machine
class Trip(Machine):
    State = State

    @step
    def start(self, ctx: Context) -> Next:
        self._book("flight", ctx)
        return Next(self.hotel)

    @step
    def hotel(self, ctx: Context) -> Next:
        self._book("hotel", ctx)
        return Next(self.car)

    @step
    def car(self, ctx: Context) -> Next:
        self._book("car", ctx)
        return Next(self.finish)

    @step
    def finish(self, ctx: Context) -> Done:
        return Done(f"booked {', '.join(ctx.state.booked)}")

    @step
    def compensate(self, ctx: Context) -> Next | Stop:
        if not ctx.state.booked:
            return Stop("undone: the trip could not be booked")
        undo(ctx.state.booked.pop(), ctx.state.trip)
        return Next(self.compensate)  # each undo is committed on its own

    def handle(self, error: Exception, ctx: Context) -> Next | Replay:
        """Retry an error that may pass; otherwise start to undo."""
        if ctx.step == "compensate" or (not isinstance(error, SoldOut) and ctx.tries < 5):
            return Replay(delay="10s")
        return Next(self.compensate)

    def _book(self, what: str, ctx: Context) -> None:
        book(what, ctx.state.trip)
        ctx.state.booked.append(what)


def main() -> None:
    logging.getLogger("headway").setLevel(logging.ERROR)  # one booking fails on purpose
    for trip in (1, 2):
        job = Trip.enqueue(trip=trip)
        app.run(until_idle=True)
        outcome = app.result(job.id)
        print(f"trip {trip}: {outcome.status}, {outcome.value or outcome.error}")
        print("  " + " → ".join(execution.step for execution in app.history(job.id)))
    app.close()


if __name__ == "__main__":
    main()
