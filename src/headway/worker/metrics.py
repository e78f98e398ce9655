"""A worker's own metrics, counted only if somebody collects them; per batch instead of per job where possible."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from headway.telemetry.metrics import ProcessMetrics
from headway.worker.lease import Lease
from headway.worker.loop import Loop
from headway.worker.slots import Slots
from headway.worker.summary import name_of

if TYPE_CHECKING:
    from headway.worker.settle import Entry, Settler


class WorkerMetrics(ProcessMetrics):
    def watch(self, slots: Slots, settler: Settler, lease: Lease, loops: Sequence[Loop]) -> None:
        """Report the current values whenever metrics are collected."""
        own: tuple[str, ...] = ()
        self.gauge("headway_worker_slots", lambda: {own: slots.total})
        self.gauge("headway_worker_slots_taken", lambda: {own: slots.taken})
        self.gauge("headway_worker_unwritten_outcomes", lambda: {own: settler.backlog})
        self.gauge("headway_worker_lease_age_seconds", lambda: {own: time.monotonic() - lease.renewed_at})
        self.gauge("headway_tick_late_seconds", lambda: {(loop.name,): loop.late_s for loop in loops})

    def polled(self, queue: str, jobs: int, took_s: float) -> None:
        self.observe("headway_claim_seconds", (), took_s)
        self.count("headway_polls_total", (queue, "jobs" if jobs else "none"))

    def claimed(self, queue: str, jobs: int) -> None:
        """By a poll, or by a settle that takes what it sets free."""
        self.count("headway_jobs_claimed_total", (queue,), jobs)

    def settled(self, written: Sequence[Entry], took_s: float) -> None:
        self.observe("headway_settle_seconds", (), took_s)
        ended: Counter[tuple[str, str, str]] = Counter()
        for claim, settlement, _, ran_s in written:
            ended[claim.queue, claim.kind, name_of(settlement)] += 1
            if ran_s is not None:
                self.observe("headway_job_run_seconds", (claim.queue, claim.kind), ran_s)
        for labels, count in ended.items():
            self.count("headway_jobs_finished_total", labels, count)
