"""Sweep: finds and repairs what SQL from outside broke, a part at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headway.model.capacity import limit_keys
from headway.model.fleet import Swept
from headway.model.train import TrainKey
from headway.store.ops import Op, Rows, Statement, Steps
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import SqliteOp, Verbs, json_list
from headway.store.sqlite.machines.children import stop_siblings
from headway.store.sqlite.machines.inbox import meets, names_there
from headway.store.sqlite.machines.wake import wake_signaled
from headway.store.sqlite.order.capacity import Candidate, read_capacity
from headway.store.sqlite.order.follow import follow
from headway.store.sqlite.order.joins import decide_gone
from headway.store.sqlite.order.limit_waiters import admit, first_limited, limited_keys
from headway.store.sqlite.order.next_car import hold, stuck_trains
from headway.store.sqlite.order.postponed import any_postponed
from headway.store.sqlite.order.reservations import any_expired, expire

_SQL = statements("order/sweep")
_LOOK_AHEAD = 1_000  # how far into a queue to look for a job that holds the limit's free slot


@dataclass
class _Cursor:
    """Where a sweep stopped; empty begins again."""

    train: TrainKey = ("", "")
    job: str = ""
    machine: str = ""
    key: str = ""


@dataclass(frozen=True, slots=True)
class _Broken:
    trains: list[TrainKey]
    jobs: list[str]
    signaled: list[str]
    keys: list[str]

    def __bool__(self) -> bool:
        return bool(self.trains or self.jobs or self.signaled or self.keys)


class SweepVerbs(Verbs):
    _swept_to: _Cursor | None = None

    def sweep(self, *, limit: int) -> Op[Swept]:
        def probe() -> Steps[Swept | None]:
            now = self._clock.now()
            if (yield from any_postponed()):
                return Swept()  # what is postponed is not broken
            begin = self._swept_to or _Cursor()
            broken, end = yield from _find_broken(begin, limit, now)
            if broken or (yield from any_expired(now)):
                return None  # `steps` searches again, from the same cursor
            self._swept_to = end
            return Swept()

        def steps() -> Steps[Swept]:
            now = self._clock.now()
            if (yield from any_postponed()):
                return Swept()
            broken, end = yield from _find_broken(self._swept_to or _Cursor(), limit, now)
            self._swept_to = end
            yield from expire(now)
            decided = yield from decide_gone(broken.jobs, now)
            ended = yield from stop_siblings(decided.failed, now)
            ended += yield from wake_signaled(decided.flows, now)
            ended += yield from wake_signaled(broken.signaled, now)
            # their cars ask for a hold if something goes wrong: a person should look at it
            rows = yield Statement(_SQL["holding"], (json_list(broken.trains),))
            for tenant, train in rows:
                yield hold(tenant, train, now, reason="its locomotive was deleted", actor=None)
            yield from follow(ended, now=now, held=broken.jobs, trains=broken.trains, machines=broken.jobs)
            if broken.keys:
                yield from admit(dict.fromkeys(broken.keys, 1))
            jobs = (*broken.jobs, *broken.signaled)
            return Swept(tuple(train for _, train in broken.trains), jobs, tuple(broken.keys))

        return SqliteOp(steps, writes=True, probe=probe)


def _find_broken(begin: _Cursor, limit: int, now: int) -> Steps[tuple[_Broken, _Cursor]]:
    """What is broken in the next part, and where that part ends."""
    trains = [(tenant, train) for tenant, train in (yield Statement(_SQL["trains"], (*begin.train, limit)))]
    stuck = (yield from stuck_trains(trains, now)) if trains else []
    pending = yield Statement(_SQL["pending"], (begin.job, limit))
    machines = yield Statement(_SQL["awaiting"], (begin.machine, limit))
    signaled = yield from _signaled(machines)
    keys = yield from limited_keys(begin.key, limit)
    idle = (yield from _idle(keys, now)) if keys else []
    end = _Cursor(
        trains[-1] if len(trains) == limit else ("", ""),
        pending[-1][0] if len(pending) == limit else "",
        machines[-1][0] if len(machines) == limit else "",
        keys[-1] if len(keys) == limit else "",
    )
    jobs = [job_id for job_id, awaits in pending if not awaits] + [row[0] for row in machines if row[4]]
    return _Broken(stuck, jobs, signaled, idle), end


def _signaled(machines: Rows) -> Steps[list[str]]:
    """The ids of those of these machines whose signals are there."""
    asked = {row[0]: row[2:4] for row in machines if row[1] and row[2] is not None}
    there = (yield from names_there(list(asked))) if asked else {}
    return [job_id for job_id, (names, every) in asked.items() if meets(names, every, there.get(job_id, ()))]


def _idle(keys: Sequence[str], now: int) -> Steps[list[str]]:
    """The keys that limit jobs although they have room, and no queued job holds that free slot."""
    firsts = yield from first_limited(keys)
    capacity = yield from read_capacity([job for _, _, job in firsts], now)
    idle: list[str] = []
    for key, queue, job in firsts:
        if capacity.blocks(job, key):
            continue
        ((waker,),) = yield Statement(_SQL["waker"], (key,))
        if waker:
            continue
        ahead = yield Statement(_SQL["standing_for"], (queue, _LOOK_AHEAD))
        if not any(key in limit_keys(Candidate(*row)) for row in ahead):
            idle.append(key)
    return idle
