"""`python -m bench`: measures rounds of everything, one after another, and prints one table of medians and ratios."""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from bench import drain, enqueue, http, idle, latency, machines, peers, raw
from bench.jobs import Options, make_app, plain, set_limits
from bench.jobs import enqueue as fill
from bench.plan import PARTS, QUICK, Plan
from bench.servers import Postgres, Site, sites
from bench.table import as_json, table

Step = tuple[str, Callable[[], None]]
Rates = Callable[..., Iterator[tuple[str, float]]]


class Bench:
    """Collects the samples of a run."""

    def __init__(self, plan: Plan, opened: Sequence[Site]) -> None:
        self.plan = plan
        self.samples: dict[str, list[float]] = {}
        self._sites = opened
        self._full: dict[str, str] = {}  # by store, the database with finished jobs

    def steps(self) -> Iterator[Step]:
        """Everything to do, in order: rounds first, then what is measured once."""
        parts = self.plan.parts
        if "finished" in parts:
            for site in self._sites:
                yield f"{site.store}: make {self.plan.finished:,} finished jobs", partial(self._fill, site)
        for n in range(1, self.plan.rounds + 1):
            for site in self._sites:
                for name, step in self._round(site):
                    yield f"round {n}, {site.store}: {name}", partial(self._measure, site, step)
        for site in self._sites:
            if "idle" in parts and isinstance(site, Postgres):
                yield "postgres: idle workers", partial(self._idle, site)
            if "memory" in parts:
                yield f"{site.store}: memory", partial(self._measure, site, partial(self._memory, site.store))

    def _round(self, site: Site) -> Iterator[tuple[str, Callable[[str], None]]]:
        plan, store, parts = self.plan, site.store, self.plan.parts
        if "drain" in parts:
            yield "raw drain", partial(self._raw_drain, store)
        if "drain" in parts or "finished" in parts:
            yield "drain, 1 worker", partial(self._drain, f"{store}.drain.1", 1)
        if "drain" in parts:
            yield "drain, 2 workers", partial(self._drain, f"{store}.drain.2", 2)
        if "finished" in parts:
            yield "drain beside finished jobs", lambda _: self._drain(f"{store}.drain.finished", 1, self._full[store])
        if "enqueue" in parts:
            yield "enqueue", partial(self._enqueue, store)
        if "order" in parts:
            yield from self._order(store)
        if "machines" in parts:
            yield from self._machines(site)
        if "http" in parts:
            if "drain" not in parts and "finished" not in parts:
                yield "drain, 1 worker", partial(self._drain, f"{store}.drain.1", 1)
            yield "over HTTP", partial(self._enqueue, store, rates=http.rates)
        if "pickup" in parts:
            yield "pick-up", lambda url: self._take(f"{store}.pickup.across", *latency.across(url, plan.pings))
            yield "pick-up inside", lambda url: self._take(f"{store}.pickup.within", *latency.within(url, plan.pings))

    def _measure(self, site: Site, step: Callable[[str], None]) -> None:
        """In a database of its own, on a server that has nothing left to write."""
        site.settle()
        url = site.create()
        step(url)
        site.drop(url)

    def _raw_drain(self, store: str, url: str) -> None:
        app, limit = make_app(url), raw.open_raw(url)
        plain, own = [], []
        for _ in range(3):  # it is short, so one busy moment of the machine would say it all
            limit.bulk(self.plan.jobs)
            plain.append(limit.drain(self.plan.jobs))
            fill(app, self.plan.jobs)
            own.append(limit.own_drain(self.plan.jobs))
        limit.close()
        app.close()
        self._take(f"{store}.raw.plain", median(plain))
        self._take(f"{store}.raw.drain", median(own))

    def _drain(
        self,
        key: str,
        workers: int,
        url: str,
        *,
        jobs: int | None = None,
        options: Options = plain,
        limits: bool = False,
    ) -> None:
        if limits:
            set_limits(url)
        self._take(key, drain.drain(url, jobs=jobs or self.plan.jobs, workers=workers, options=options))

    def _enqueue(self, store: str, url: str, *, rates: Rates = enqueue.rates) -> None:
        for name, rate in rates(url, jobs=self.plan.jobs, singles=self.plan.singles):
            self._take(f"{store}.{name}", rate)

    def _order(self, store: str) -> Iterator[tuple[str, Callable[[str], None]]]:
        """What order and exclusion cost, each beside the same without."""
        plan = self.plan
        many = {"": plain, ".trains": lambda number: {"train": f"train-{number // 3}"}}
        for name, options in many.items():
            key, label = f"{store}.order.drain{name}", f"drain of {3 * plan.trains:,} jobs{name and ' in trains'}"
            yield label, partial(self._drain, key, 1, jobs=3 * plan.trains, options=options)
        one = {"": plain, ".train": lambda _: {"train": "one"}}
        for name, options in one.items():
            yield (
                f"one at a time{name and ', a train'}",
                partial(self._one_at_a_time, f"{store}.order.one{name}", options),
            )
        few = {"": plain, ".unused": plain, ".partitions": lambda number: {"partition": f"part-{number}"}}
        for name, options in few.items():
            key = f"{store}.order.limits{name}"
            yield f"drain, limits{name}", partial(self._drain, key, 1, options=options, limits=name == ".unused")
        yield "enqueue into trains", partial(self._enqueue, store, rates=enqueue.train_rates)

    def _machines(self, site: Site) -> Iterator[tuple[str, Callable[[str], None]]]:
        plan, key = self.plan, f"{site.store}.machines"
        yield "raw steps", lambda url: self._take(f"{key}.raw", raw.steps(url, plan.machines, machines.STEPS))
        yield "steps", lambda url: self._take(f"{key}.steps", machines.steps(url, plan.machines))
        if site.store == "postgres":
            yield "steps by others", partial(self._peers, key)
        yield (
            "signals",
            lambda url: self._take(f"{key}.trips", machines.round_trips(url, plan.echoes, plan.seconds / 2)),
        )
        yield "signal to step", lambda url: self._take(f"{key}.latency", *machines.latencies(url, plan.pings))

    def _peers(self, key: str, url: str) -> None:
        found = {name: peers.steps(name, url, self.plan.machines) for name in peers.NAMES}
        rates = {name: rate for name, rate in found.items() if rate is not None}
        for name, rate in rates.items():
            self._take(f"{key}.{name}", rate)
        if rates:
            self._take(f"{key}.better", max(rates.values()))

    def _one_at_a_time(self, key: str, options: Options, url: str) -> None:
        plan = self.plan
        self._take(key, drain.one_at_a_time(url, jobs=plan.cars, seconds=plan.seconds, options=options))

    def _fill(self, site: Site) -> None:
        self._full[site.store] = site.create("full")
        drain.add_finished(self._full[site.store], self.plan.finished)

    def _idle(self, site: Postgres) -> None:
        for key, value in idle.queries(site, self.plan.fleets, idle_minutes=self.plan.idle_minutes).items():
            self._take(key, value)

    def _memory(self, store: str, url: str) -> None:
        for name, size in drain.memory(url, few=self.plan.few_memory_jobs, many=self.plan.memory_jobs).items():
            self._take(f"{store}.memory.{name}", size)

    def _take(self, key: str, *values: float) -> None:
        self.samples.setdefault(key, []).extend(values)


def main() -> None:
    options = _options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # as after Ctrl-C, the servers are stopped and removed
    plan = QUICK if options.quick else Plan()
    if options.rounds:
        plan = replace(plan, rounds=options.rounds)
    if options.only:
        plan = replace(plan, parts=tuple(options.only))
    if options.idle_minutes is not None:
        plan = replace(plan, idle_minutes=options.idle_minutes)
    stores = [options.store] if options.store else ["postgres", "sqlite"]
    console = Console()
    if not console.is_terminal:
        console.width = 110
    began = time.monotonic()
    with sites(stores) as opened:
        bench = Bench(plan, opened)
        _run(list(bench.steps()), console)
        console.print(table(stores, plan, bench.samples))
        about = [f"{os.cpu_count()} cores, {platform.platform(terse=True)}, Python {platform.python_version()}"]
        about += [site.about for site in opened]
    for line in [*about, *_notes(plan, time.monotonic() - began)]:
        console.print(f"[dim]{line}[/]", highlight=False)
    if options.json:
        found = {"about": about, "rounds": plan.rounds, "rows": as_json(stores, plan, bench.samples)}
        Path(options.json).write_text(json.dumps(found, indent=2) + "\n")


def _run(steps: Sequence[Step], console: Console) -> None:
    columns = (
        SpinnerColumn(),
        BarColumn(20),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=len(steps))
        for name, step in steps:
            progress.update(task, description=name)
            began = time.monotonic()
            step()
            progress.advance(task)
            if not console.is_terminal:
                console.print(f"{name} ({time.monotonic() - began:.1f} s)", highlight=False)


def _notes(plan: Plan, took_s: float) -> list[str]:
    return [
        f"Medians of {plan.rounds} interleaved rounds; a ratio is the median of the rounds' own ratios; "
        f"{took_s:.0f} s in all.",
        "Raw: the same payload, no attempts, one connection; own table: the jobs table with its indexes. "
        f"Drain: {plan.jobs:,} no-op async jobs, concurrency {drain.CONCURRENCY} a process, attempts recorded, from "
        "the first claim to the last batch by the database's times. Beside finished jobs: the limit is the drain "
        "without them.",
        "Pick-up: from the call of enqueue to the handler's first line, idle worker, at random moments. Idle: growth "
        f"of xact_commit + xact_rollback of the fleet's database in {idle.WINDOW_S:g} s, read from another one.",
    ]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--rounds", type=int, help="how often everything is measured (3)")
    parser.add_argument("--quick", action="store_true", help="one small round, without idle workers")
    parser.add_argument("--only", action="append", choices=PARTS, help="measure only this; may be repeated")
    parser.add_argument("--store", choices=("sqlite", "postgres"), help="measure only this store")
    parser.add_argument("--idle-minutes", type=float, help="when to look at idle workers again (1.5; 0: not at all)")
    parser.add_argument("--json", metavar="FILE", help="write the numbers there as well")
    return parser.parse_args()


if __name__ == "__main__":
    main()
