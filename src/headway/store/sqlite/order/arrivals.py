"""Arrivals: does what was too much for one transaction, tenants in turn, each in order."""

from __future__ import annotations

from uuid import uuid4

import msgspec

from headway.store.ops import Op, Steps
from headway.store.sqlite.engine.verbs import SqliteOp, Verbs
from headway.store.sqlite.jobs.retry import revive_more
from headway.store.sqlite.machines.children import stop_more
from headway.store.sqlite.order import postponed
from headway.store.sqlite.order.follow import follow, follow_late
from headway.store.sqlite.order.group_members import stop_some
from headway.store.sqlite.order.limit_waiters import readmit_tenant
from headway.store.sqlite.order.trains import clear_some


class ArrivalVerbs(Verbs):
    def process_arrivals(self, *, limit: int) -> Op[int]:  # noqa: ARG002 - a piece is what one transaction should do
        def probe() -> Steps[int | None]:
            return None if (yield from postponed.any_postponed()) else 0

        def steps() -> Steps[int]:
            return (yield from do_postponed(self._clock.now()))

        return SqliteOp(steps, writes=True, probe=probe)


def do_postponed(now: int) -> Steps[int]:
    """Do as much of the postponed work as one transaction should; gives how many arrivals that was."""
    done = ended = 0
    tenant = str(uuid4())  # start with a random one
    while done + ended < postponed.PIECE and (arrival := (yield from postponed.take(tenant))) is not None:
        what, key, tenant = arrival
        done += 1
        ended += yield from _do(what, key, now)
    return done


def _do(what: postponed.What, key: str, now: int) -> Steps[int]:
    """Do the next piece of one arrival; gives how many jobs it ended or brought back."""
    match what:
        case "ended":
            return (yield from follow_late(key, now))
        case "stopping":
            left = yield from stop_some(key, now)
        case "orphaned":
            left = yield from stop_more(key, now)
        case "revived":
            return (yield from revive_more(key, now))
        case "resumed":
            return (yield from readmit_tenant(key))
        case "clearing":
            tenant, train = msgspec.json.decode(key)
            return (yield from clear_some(tenant, train, now))
    return len(left) + (yield from follow(left, now=now))
