"""How much is measured: the sizes of a run, and of a quick one."""

from __future__ import annotations

from dataclasses import dataclass

PARTS = ("drain", "finished", "enqueue", "order", "machines", "pickup", "http", "idle", "memory")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    rounds: int = 3
    parts: tuple[str, ...] = PARTS
    jobs: int = 20_000  # of a drain and of a bulk enqueue
    singles: int = 1_000
    trains: int = 100_000  # of three cars each
    cars: int = 100_000  # of one train
    seconds: float = 8.0  # how long jobs are run one at a time
    machines: int = 1_000  # of three steps each
    echoes: int = 200  # that signals go to
    finished: int = 1_000_000
    pings: int = 110  # a round
    memory_jobs: int = 200_000
    fleets: tuple[int, ...] = (1, 8, 60)
    # 0: only while the queue counts as in use; sessions report what they did before that up to ten seconds late
    idle_minutes: float = 1.5

    @property
    def few_memory_jobs(self) -> int:
        return self.memory_jobs // 10


QUICK = Plan(
    rounds=1,
    parts=("drain", "finished", "enqueue", "order", "machines", "pickup", "http", "memory"),
    jobs=10_000,
    singles=400,
    trains=10_000,
    cars=10_000,
    seconds=3.0,
    finished=100_000,
    pings=40,
    memory_jobs=20_000,
    idle_minutes=0,
)
