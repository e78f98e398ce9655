"""The registry of metrics: every name, what it means, its labels, and where its numbers come from. Prometheus,
OpenTelemetry, the reference, the dashboard and the alert rules all use these."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from typing import Literal

import msgspec

MOST_SERIES = 200
"""How many series a metric may have; what comes later counts under `OTHER`."""
OTHER = "other"
BUCKETS_S = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1_800.0, 3_600.0),
)
_FOLDED = ("tenant", "queue", "kind")  # labels whose values users make

Labels = tuple[str, ...]


class Metric(msgspec.Struct, frozen=True):
    """One metric. `source` is the process that is asked, or the database, and so the whole fleet."""

    name: str
    type: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[str, ...] = ()
    source: Literal["process", "database"] = "process"

    @property
    def unit(self) -> str:
        """As OpenTelemetry writes it."""
        base = self.name.removesuffix("_total")
        return "s" if base.endswith("_seconds") else "By" if base.endswith("_bytes") else "1"

    def folded(self, labels: Labels) -> Labels:
        return tuple(OTHER if name in _FOLDED else value for name, value in zip(self.labels, labels, strict=True))


def _database(name: str, help_: str, *labels: str) -> Metric:
    return Metric(name, "gauge", help_, labels, "database")


METRICS = (
    Metric("headway_info", "gauge", "1, with the version of Headway.", ("version",)),
    # a worker's own
    Metric("headway_worker_slots", "gauge", "How many jobs this worker runs at once, at most."),
    Metric("headway_worker_slots_taken", "gauge", "How many slots of this worker are taken."),
    Metric("headway_worker_unwritten_outcomes", "gauge", "Outcomes that this worker has not written yet."),
    Metric("headway_worker_lease_age_seconds", "gauge", "How long ago this worker's lease was renewed."),
    Metric("headway_tick_late_seconds", "gauge", "How late the last round of a periodic task began.", ("task",)),
    Metric("headway_polls_total", "counter", "Claims, by whether they found jobs or none.", ("queue", "found")),
    Metric("headway_jobs_claimed_total", "counter", "Jobs that this worker claimed.", ("queue",)),
    Metric("headway_claim_seconds", "histogram", "How long a claim took."),
    Metric("headway_settle_seconds", "histogram", "How long it took to write a batch of outcomes."),
    Metric(
        "headway_jobs_finished_total",
        "counter",
        "Executions whose outcome this worker wrote: succeeded, stepped, retried, snoozed, failed, dead, canceled, "
        "released.",
        ("queue", "kind", "outcome"),
    ),
    Metric("headway_job_run_seconds", "histogram", "How long executions took, from claim to end.", ("queue", "kind")),
    # of the event loop of a worker or a server
    Metric(
        "headway_loop_held_total",
        "counter",
        "Callbacks that were seen to take over 20 ms of the event loop's CPU time, while all else waits; by whose code "
        "it was: engine, or code.",
        ("by",),
    ),
    Metric("headway_loop_longest_seconds", "gauge", "The longest of these since the process began.", ("by",)),
    # the fleet's, out of the database
    _database("headway_up", "Whether the database answered: 1 or 0. At 0 no other metric of the database is given."),
    _database("headway_sample_seconds", "How long it took to ask the database for these numbers."),
    _database(
        "headway_jobs",
        "Jobs by status, counted up to 100,000 per status: queued, scheduled, held, waiting, running, dead.",
        *("tenant", "queue", "status"),
    ),
    _database("headway_queue_oldest_seconds", "How long the oldest queued job has waited.", "queue"),
    _database("headway_workers", "Workers whose lease holds."),
    _database("headway_heartbeat_age_seconds", "The age of the oldest heartbeat of these workers."),
    _database("headway_schedule_lag_seconds", "How late the most overdue schedule is."),
    _database("headway_event_lag_seconds", "How long the oldest event has waited to be handled."),
    _database(
        "headway_recent_jobs_per_second",
        "Rates per second over the last five whole minutes: enqueued, started, succeeded, failed, retried, dead, "
        "canceled, lost.",
        *("tenant", "what"),
    ),
    _database(
        "headway_recent_wait_seconds", "How long executions of the last five minutes waited: quantile q.", "tenant", "q"
    ),
    _database(
        "headway_recent_run_seconds", "How long executions of the last five minutes took: quantile q.", "tenant", "q"
    ),
    _database(
        "headway_errors",
        "How often an error has happened since its first time, of the 50 most frequent that were seen in the last "
        "hour; fingerprint as in headway errors.",
        *("tenant", "kind", "fingerprint"),
    ),
    _database("headway_new_errors", "Errors that happened for the first time in the last five minutes.", "tenant"),
    _database("headway_database_bytes", "The size of the database."),
    _database("headway_wal_bytes", "SQLite: the size of the write-ahead log."),
    _database("headway_server_wal_bytes", "PostgreSQL: the size of pg_wal, if the login may see it (pg_monitor)."),
    _database("headway_oldest_transaction_seconds", "PostgreSQL: the age of the oldest open transaction."),
)
BY_NAME: Mapping[str, Metric] = {metric.name: metric for metric in METRICS}


class Histogram:
    """How many values fell into each bucket; the last one has no end."""

    __slots__ = ("counts", "sum")

    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS_S) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(BUCKETS_S, value)] += 1
        self.sum += value


Value = float | Histogram
Samples = dict[str, dict[Labels, Value]]
"""The values of each metric, by name and labels."""


class ProcessMetrics:
    """The numbers of this process: written by its event loop, read by any thread."""

    def __init__(self) -> None:
        self._counts: dict[str, dict[Labels, float]] = {}
        self._histograms: dict[str, dict[Labels, Histogram]] = {}
        self._gauges: dict[str, Callable[[], Mapping[Labels, float]]] = {}
        self.on_observed: Callable[[str, Labels, float], None] | None = None

    def count(self, name: str, labels: Labels, by: float = 1) -> None:
        series = self._counts.setdefault(name, {})
        if labels not in series and len(series) >= MOST_SERIES:
            labels = BY_NAME[name].folded(labels)
        series[labels] = series.get(labels, 0) + by

    def observe(self, name: str, labels: Labels, value: float) -> None:
        series = self._histograms.setdefault(name, {})
        found = series.get(labels)
        if found is None:
            if len(series) >= MOST_SERIES:
                labels = BY_NAME[name].folded(labels)
            found = series.setdefault(labels, Histogram())
        found.observe(value)
        if self.on_observed is not None:
            self.on_observed(name, labels, value)

    def gauge(self, name: str, read: Callable[[], Mapping[Labels, float]]) -> None:
        """What to call for the current value."""
        self._gauges[name] = read

    def samples(self) -> Samples:
        found: Samples = {name: dict(list(series.items())) for name, series in list(self._counts.items())}
        found |= {name: dict(list(series.items())) for name, series in list(self._histograms.items())}
        return found | {name: dict(read()) for name, read in self._gauges.items()}


def bounded(metric: Metric, series: Iterable[tuple[Labels, float]]) -> dict[Labels, Value]:
    """The largest `MOST_SERIES` of these; the others are added up under `OTHER`."""
    ordered = sorted(series, key=lambda each: -each[1])
    found: dict[Labels, Value] = dict(ordered[:MOST_SERIES])
    for labels, value in ordered[MOST_SERIES:]:
        rest = metric.folded(labels)
        before = found.get(rest, 0.0)
        assert isinstance(before, float | int)
        found[rest] = before + value
    return found
