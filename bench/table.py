"""What is measured, what it is compared with, what it must reach, and the table of it all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median, quantiles
from typing import Any

from rich import box
from rich.table import Table

from bench import http
from bench.plan import Plan

Samples = Mapping[str, Sequence[float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line: the samples it is made of, and its goal (a ratio to the limit `over`, or a number not to exceed)."""

    key: str
    label: str
    unit: str = "/s"
    percentile: int = 50
    over: str = ""
    least_ratio: float | None = None
    most_ratio: float | None = None
    most: float | None = None

    def value(self, samples: Samples) -> float | None:
        found = samples.get(self.key)
        if not found:
            return None
        if self.percentile == 50 or len(found) < 2:
            return median(found)
        return quantiles(found, n=100, method="inclusive")[self.percentile - 1]

    def ratio(self, samples: Samples) -> float | None:
        """The median of the rounds' ratios, each to the limit of its own round."""
        found, limits = samples.get(self.key), samples.get(self.over)
        if not found or not limits:
            return None
        return median(one / limit for one, limit in zip(found, limits, strict=True))

    @property
    def goal(self) -> str:
        if self.least_ratio is not None:
            return f"≥ {self.least_ratio:g} ×"
        if self.most_ratio is not None:
            return f"≤ {self.most_ratio:g} ×"
        return "" if self.most is None else f"≤ {self.most:g}"

    def reached(self, samples: Samples) -> bool | None:
        value, ratio = self.value(samples), self.ratio(samples)
        if self.least_ratio is not None:
            return None if ratio is None else ratio >= self.least_ratio
        if self.most_ratio is not None:
            return None if ratio is None else ratio <= self.most_ratio
        return None if self.most is None or value is None else value <= self.most


def rows(store: str, plan: Plan) -> Iterator[Row]:
    """The lines of one store, in the table's order."""
    yield from _raw(store)
    yield from _speeds(store, plan)
    yield from _order(store, plan)
    yield from _machines(store, plan)
    yield from _pickups(store)
    yield from _http(store)
    if store == "postgres":
        yield from _idle(plan)
    yield from _memory(store, plan)


def table(stores: Sequence[str], plan: Plan, samples: Samples) -> Table:
    """All that was measured; what was not is left out."""
    made = Table(box=box.SIMPLE_HEAD, padding=(0, 1))
    made.add_column("")
    for name in ("median", "limit", "ratio", "goal"):
        made.add_column(name, justify="right", no_wrap=True)
    made.add_column("")
    for store in stores:
        made.add_section()
        made.add_row(f"[bold]{store}[/]")
        for row in rows(store, plan):
            if (value := row.value(samples)) is not None:
                made.add_row(*_cells(row, value, samples))
    return made


def as_json(stores: Sequence[str], plan: Plan, samples: Samples) -> list[dict[str, Any]]:
    return [
        {
            "store": store,
            "what": row.label,
            "unit": row.unit,
            "median" if row.percentile == 50 else f"p{row.percentile}": row.value(samples),
            "ratio": row.ratio(samples),
            "goal": row.goal,
            "reached": row.reached(samples),
            "samples": list(samples[row.key]),
        }
        for store in stores
        for row in rows(store, plan)
        if row.key in samples
    ]


def _cells(row: Row, value: float, samples: Samples) -> list[str]:
    limit, ratio = samples.get(row.over), row.ratio(samples)
    mark = {None: "", True: "[green]✓[/]", False: "[red]✗[/]"}[row.reached(samples)]
    return [
        f"  {row.label}",
        f"{_number(value)} {row.unit}",
        _number(median(limit)) if limit else "",
        "" if ratio is None else f"{ratio:.2f} ×",
        row.goal,
        mark,
    ]


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def _raw(store: str) -> Iterator[Row]:
    if store == "postgres":
        yield Row(key="postgres.raw.drain", label="raw: claim 200 and complete 200 by update, serial, own table")
        yield Row(key="postgres.raw.plain", label="raw: the same on a plain table of three indexes")
        yield Row(key="postgres.raw.single", label="raw: one-row insert commits")
        yield Row(key="postgres.raw.bulk", label="raw: insert from unnest, 1,000 a statement")
    else:
        yield Row(key="sqlite.raw.drain", label="raw: claim 100 and complete 100, serial, own table")
        yield Row(key="sqlite.raw.plain", label="raw: the same on a plain table of three indexes")
        yield Row(key="sqlite.raw.single", label="raw: one-row insert commits")
        yield Row(key="sqlite.raw.bulk", label="raw: inserts, 100 a transaction")


def _http(store: str) -> Iterator[Row]:
    """Goals are for 64 clients, as the API's contract has them."""
    for clients in http.CLIENTS:
        who = "1 client" if clients == 1 else f"{clients} clients"
        goals = (0.5, 0.4) if clients == 64 else (None, None)
        for way, what in (("single", "enqueue"), ("bulk", f"enqueue {http.BATCH} at once")):
            own = f"{store}.http.{way}.own.{clients}"
            yield Row(key=own, label=f"{what}, {who}, in process")
            yield Row(
                key=f"{store}.http.{way}.{clients}",
                label=f"{what}, {who}, over HTTP",
                over=own,
                least_ratio=goals[0],
            )
        yield Row(
            key=f"{store}.http.work.{clients}",
            label=f"claim and settle {http.BATCH}, {who}, over HTTP",
            over=f"{store}.drain.1",
            least_ratio=goals[1],
        )
    yield Row(key=f"{store}.http.streams", label=f"memory of each of {http.STREAMS} open streams", unit="KiB")


def _speeds(store: str, plan: Plan) -> Iterator[Row]:
    raw, own = f"{store}.raw", f"{store}.drain.1"
    least = 1.1 if store == "postgres" else 0.35
    yield Row(key=own, label="drain, 1 worker process", over=f"{raw}.drain", least_ratio=least)
    yield Row(key=f"{store}.drain.2", label="drain, 2 worker processes", over=f"{raw}.drain")
    label = f"drain beside {plan.finished:,} finished jobs"
    yield Row(key=f"{store}.drain.finished", label=label, over=own, least_ratio=0.9)
    yield Row(key=f"{store}.single", label="enqueue one by one", over=f"{raw}.single", least_ratio=0.6)
    # a file's raw limit pays neither for a message to a server nor for more than one index: it is there to be seen
    bulk = 0.6 if store == "postgres" else None
    yield Row(key=f"{store}.bulk", label="enqueue 1,000 a call", over=f"{raw}.bulk", least_ratio=bulk)


def _order(store: str, plan: Plan) -> Iterator[Row]:
    key = f"{store}.order"
    yield Row(key=f"{key}.drain", label=f"drain of {3 * plan.trains:,} jobs")
    label = f"drain of {plan.trains:,} trains of 3 cars"
    yield Row(key=f"{key}.drain.trains", label=label, over=f"{key}.drain", least_ratio=0.55)
    yield Row(key=f"{key}.one", label=f"one at a time, of {plan.cars:,} jobs")
    label = f"one at a time, of a train of {plan.cars:,} cars"
    yield Row(key=f"{key}.one.train", label=label, over=f"{key}.one", least_ratio=0.8)
    yield Row(key=f"{key}.single", label="enqueue one by one into trains", over=f"{key}.single.plain", least_ratio=0.75)
    yield Row(key=f"{key}.bulk", label="enqueue 1,000 a call into trains", over=f"{key}.bulk.plain", least_ratio=0.6)
    label = "drain beside limits of others"
    yield Row(key=f"{key}.limits.unused", label=label, over=f"{key}.limits", least_ratio=0.95)
    yield Row(key=f"{key}.limits.partitions", label="drain of jobs with a partition each", over=f"{key}.limits")


def _machines(store: str, plan: Plan) -> Iterator[Row]:
    key = f"{store}.machines"
    yield Row(key=f"{key}.raw", label="raw: steps, a machine's row and one of history, serial")
    label = f"steps of {plan.machines:,} machines of 3"
    yield Row(key=f"{key}.steps", label=label, over=f"{key}.raw")
    if store == "postgres":
        yield Row(key=f"{key}.dbos", label="the same by DBOS")
        yield Row(key=f"{key}.absurd", label="the same by Absurd")
        yield Row(key=f"{key}.steps", label=f"{label}, over the better", over=f"{key}.better", least_ratio=10)
    yield Row(key=f"{key}.trips", label=f"signal round trips, {plan.echoes} machines")
    for percentile in (50, 95):
        label = f"from signal to step in one process, p{percentile}"
        yield Row(key=f"{key}.latency", label=label, unit="ms", percentile=percentile)


def _pickups(store: str) -> Iterator[Row]:
    for where, label, goals in (
        ("across", "across processes", {50: 4, 95: 10, 99: None}),
        ("within", "in one process", {50: 4, 95: None, 99: None}),
    ):
        for percentile, most in goals.items():
            yield Row(
                key=f"{store}.pickup.{where}",
                label=f"pick-up {label}, p{percentile}",
                unit="ms",
                percentile=percentile,
                most=most,
            )


def _idle(plan: Plan) -> Iterator[Row]:
    later = f"after {plan.idle_minutes:g} min without work"
    for when, label, most in (("", "queue in use", 45), (".later", later, 12)):
        for size in plan.fleets:
            workers = "1 idle worker" if size == 1 else f"{size} idle workers"
            yield Row(key=f"postgres.idle.{size}{when}", label=f"{workers}, {label}", unit="q/s", most=most)


def _memory(store: str, plan: Plan) -> Iterator[Row]:
    few, many = f"{store}.memory.few", f"{store}.memory.many"
    yield Row(key=f"{store}.memory.idle", label="memory of an idle worker", unit="MiB")
    yield Row(key=few, label=f"memory after {plan.few_memory_jobs:,} jobs", unit="MiB")
    label = f"memory after {plan.memory_jobs:,} jobs"
    yield Row(key=many, label=label, unit="MiB", over=few, most_ratio=1.1)
