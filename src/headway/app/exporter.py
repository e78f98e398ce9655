"""Exporter: gives this process's numbers and the database's to Prometheus, and to OpenTelemetry."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from headway.clock import from_micros
from headway.errors import ConfigError, HeadwayError
from headway.logs import Seldom, get_logger
from headway.model.error_groups import ErrorFilter, ErrorGroup
from headway.model.stats import COUNTS, Stat, Times, added, begin, quantile
from headway.model.vitals import Vitals
from headway.telemetry.metrics import (
    BUCKETS_S,
    BY_NAME,
    METRICS,
    MOST_SERIES,
    OTHER,
    Histogram,
    ProcessMetrics,
    Samples,
    Value,
    bounded,
)
from headway.version import __version__

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from headway.app.headway import Headway

log = get_logger("headway.metrics")

FRESH_S = 5.0
"""How long an answer of the database serves: ten scrapers cost as much as one."""
COST_FACTOR = 20
"""And longer where it took long: metrics take up no more than a twentieth of a connection."""
PATIENCE_S = 3.0
"""How long a scrape waits for the database."""
RECENT = timedelta(minutes=5)
QUANTILES = (0.5, 0.95, 0.99)
MOST_TENANTS = 50
"""Tenants with numbers of their own; the others are `other`."""
MOST_ERRORS = 50
"""Errors with a count of their own, the most frequent; others have none: a sum of different errors says nothing."""
ERRORS_SHOWN = timedelta(hours=1)
"""For how long an error is shown after it was seen last, so that the next time has something to be compared with."""
_NONE: tuple[str, ...] = ()


class Exporter:
    def __init__(self, app: Headway, process: ProcessMetrics | None = None) -> None:
        self._app = app
        self._process = process or ProcessMetrics()
        self._lock = threading.Lock()
        self._asking: Future[Samples] | None = None
        self._asked: Samples = {}
        self._fresh_until = 0.0
        self._took_s = 0.0
        self._says = Seldom(60)
        self._registry: CollectorRegistry | None = None

    def samples(self) -> Samples:
        """Every number, as it is now or was a few seconds ago. Never raises because of the database."""
        own: Samples = {"headway_info": {(__version__,): 1.0}}
        return own | self._process.samples() | self._of_database()

    def render(self) -> bytes:
        """The numbers in Prometheus's text format."""
        from prometheus_client import generate_latest

        return bytes(generate_latest(self.registry))

    @property
    def registry(self) -> CollectorRegistry:
        if self._registry is None:
            try:
                from prometheus_client import CollectorRegistry, ProcessCollector
            except ImportError as error:
                raise ConfigError(
                    f"metrics need prometheus-client, which is not installed ({error}): "
                    "pip install 'headway-engine[metrics]'"
                ) from None
            self._registry = CollectorRegistry(auto_describe=False)
            ProcessCollector(registry=self._registry)
            self._registry.register(_Collector(self))
        return self._registry

    def _of_database(self) -> Samples:
        with self._lock:
            if self._asking is None and time.monotonic() < self._fresh_until:
                return self._asked
            if self._asking is None:
                self._asking = Future()
                # a daemon: a database that hangs must not keep the process from ending
                threading.Thread(target=self._answer, args=(self._asking,), name="headway metrics", daemon=True).start()
            asking = self._asking
        try:
            found = asking.result(PATIENCE_S)
        except NotYet:
            return _away()  # it goes on, and the next scrape may find it done
        with self._lock:
            if self._asking is asking:
                self._asking, self._asked = None, found
                self._fresh_until = time.monotonic() + max(FRESH_S, COST_FACTOR * self._took_s)
        return found

    def _answer(self, asking: Future[Samples]) -> None:
        try:
            asking.set_result(self._ask())
        except Exception as error:
            self._tell(error)
            asking.set_result(_away())

    def _ask(self) -> Samples:
        began = time.monotonic()
        app = self._app
        try:
            vitals = app.store.run(app.store.ops.vitals())
            now = begin(from_micros(app.clock.now()), "minute")
            stats = app.stats("minute", since=now - RECENT, until=now, by="tenant")
            errors = self._errors(from_micros(app.clock.now()))
            names = app.store.run(app.store.ops.tenants(sorted(_tenants(vitals, stats, errors))))
        except HeadwayError as error:
            self._tell(error)
            return _away()
        found = _of_vitals(vitals, names) | _of_stats(stats, names) | _of_file(app)
        found |= _of_errors(errors, from_micros(app.clock.now()), names)
        self._took_s = time.monotonic() - began
        found["headway_sample_seconds"] = {_NONE: self._took_s}
        found["headway_up"] = {_NONE: 1.0}
        return found

    def _errors(self, now: datetime) -> list[_Error]:
        """The errors of the last hour, the most frequent first."""
        store = self._app.store
        found = _together(store.run(store.ops.errors(ErrorFilter(since=now - ERRORS_SHOWN))))
        for error in found.values():
            if error.first_seen_at > now - RECENT:
                # its group may be one that was seen last long ago, and to which this is not added yet
                alike = store.ops.errors(ErrorFilter(tenant_id=error.tenant_id, fingerprint=error.fingerprint))
                (whole,) = _together(store.run(alike)).values()
                error.count, error.first_seen_at = whole.count, whole.first_seen_at
        return sorted(found.values(), key=lambda error: -error.count)

    def _tell(self, error: Exception) -> None:
        if self._says():
            log.warning("the database did not answer: metrics say headway_up 0", error=str(error))


def listen(exporter: Exporter, address: str) -> str:
    """Answer requests there, in a thread; gives the address, as a URL. Raises `ConfigError`."""
    registry = exporter.registry
    from prometheus_client import start_http_server

    host, port = parse_address(address)
    if port:
        # the processes of one command listen beside each other
        port += int(os.environ.get("HEADWAY_PROCESS", "0"))
    try:
        server, _ = start_http_server(port, host, registry)
    except OSError as error:
        raise ConfigError(f"metrics cannot be served on {host}, port {port}: {error}") from None
    return f"http://{f'[{host}]' if ':' in host else host}:{server.server_port}/metrics"


def parse_address(text: str) -> tuple[str, int]:
    """`127.0.0.1:9100`, or `9100` for loopback; raises `ConfigError`."""
    host, colon, port = text.strip().rpartition(":")
    host = host.strip("[]") if colon else ""
    if not port.isdigit() or int(port) > 65_535:
        raise ConfigError(f"metrics={text!r} is no address: write 127.0.0.1:9100, or 9100 for this machine alone")
    return host or "127.0.0.1", int(port)


def _away() -> Samples:
    return {"headway_up": {_NONE: 0.0}}


class _Error(msgspec.Struct):
    """An error of a tenant, in all its queues."""

    tenant_id: str
    kind: str
    fingerprint: str
    first_seen_at: datetime
    count: int = 0


def _together(groups: list[ErrorGroup]) -> dict[tuple[str, str], _Error]:
    found: dict[tuple[str, str], _Error] = {}
    for group in groups:
        error = found.setdefault(
            (group.tenant_id, group.fingerprint),
            _Error(group.tenant_id, group.kind, group.fingerprint, group.first_seen_at),
        )
        error.count += group.count
        error.first_seen_at = min(error.first_seen_at, group.first_seen_at)
    return found


def _tenants(vitals: Vitals, stats: list[Stat], errors: list[_Error]) -> set[str]:
    found = {depth.tenant_id for depth in vitals.depths} | {stat.tenant_id for stat in stats if stat.tenant_id}
    return found | {error.tenant_id for error in errors}


def _of_vitals(vitals: Vitals, names: Mapping[str, str]) -> Samples:
    jobs: dict[tuple[str, ...], float] = {}
    oldest: dict[tuple[str, ...], float] = {}
    for each in vitals.depths:
        jobs[_name(each.tenant_id, names), each.queue, each.status] = float(each.count)
        if each.oldest_ms is not None:
            oldest[each.queue,] = max(oldest.get((each.queue,), 0.0), each.oldest_ms / 1_000)
    gauges = {
        "headway_workers": float(vitals.workers),
        "headway_heartbeat_age_seconds": _seconds(vitals.heartbeat_ms),
        "headway_schedule_lag_seconds": vitals.schedule_lag_ms / 1_000,
        "headway_event_lag_seconds": vitals.event_lag_ms / 1_000,
        "headway_oldest_transaction_seconds": _seconds(vitals.oldest_transaction_ms),
        "headway_database_bytes": vitals.database_bytes,
        "headway_server_wal_bytes": vitals.wal_bytes,
    }
    found: Samples = {name: {_NONE: float(value)} for name, value in gauges.items() if value is not None}
    found["headway_jobs"] = bounded(BY_NAME["headway_jobs"], jobs.items())
    found["headway_queue_oldest_seconds"] = dict(sorted(oldest.items(), key=lambda each: -each[1])[:MOST_SERIES])
    return found


def _of_stats(stats: list[Stat], names: Mapping[str, str]) -> Samples:
    """The numbers of the last minutes by tenant; those of tenants beyond the limit are added up."""
    by_tenant: dict[str, list[Stat]] = {}
    for stat in stats:
        by_tenant.setdefault(_name(stat.tenant_id or "", names), []).append(stat)
    busiest = sorted(by_tenant, key=lambda tenant: -sum(stat.enqueued + stat.started for stat in by_tenant[tenant]))
    rest = [stat for tenant in busiest[MOST_TENANTS:] for stat in by_tenant.pop(tenant)]
    if rest:
        by_tenant.setdefault(OTHER, []).extend(rest)  # a tenant may be called so
    rates: dict[tuple[str, ...], Value] = {}
    waits: dict[tuple[str, ...], Value] = {}
    runs: dict[tuple[str, ...], Value] = {}
    for tenant, minutes in by_tenant.items():
        for name in COUNTS:
            rates[tenant, name] = sum(getattr(stat, name) for stat in minutes) / RECENT.total_seconds()
        for series, times in ((waits, "waits"), (runs, "runs")):
            together: Times = {}
            for stat in minutes:
                together = added(together, getattr(stat, times))
            for q in QUANTILES:
                if (value := quantile(together, q)) is not None:
                    series[tenant, str(q)] = value / 1_000
    return {
        "headway_recent_jobs_per_second": rates,
        "headway_recent_wait_seconds": waits,
        "headway_recent_run_seconds": runs,
    }


def _of_errors(errors: list[_Error], now: datetime, names: Mapping[str, str]) -> Samples:
    new: dict[tuple[str, ...], float] = {}
    for error in errors:
        labels = (_name(error.tenant_id, names),)
        new[labels] = new.get(labels, 0.0) + (error.first_seen_at > now - RECENT)
    counts: dict[tuple[str, ...], Value] = {
        (_name(error.tenant_id, names), error.kind, error.fingerprint): float(error.count)
        for error in errors[:MOST_ERRORS]
    }
    return {"headway_errors": counts, "headway_new_errors": bounded(BY_NAME["headway_new_errors"], new.items())}


def _of_file(app: Headway) -> Samples:
    if app.store.dialect != "sqlite":
        return {}
    path = app.store.describe()
    sizes = {"headway_database_bytes": path, "headway_wal_bytes": f"{path}-wal"}
    return {name: {_NONE: _size(file)} for name, file in sizes.items()}


def _size(file: str) -> float:
    try:
        return float(os.path.getsize(file))
    except OSError:
        return 0.0


def _seconds(ms: float | None) -> float | None:
    return None if ms is None else ms / 1_000


def _name(tenant_id: str, names: Mapping[str, str]) -> str:
    return names.get(tenant_id, tenant_id)


class _Collector:
    """What prometheus-client asks."""

    def __init__(self, exporter: Exporter) -> None:
        self._exporter = exporter

    def collect(self) -> Iterator[Any]:
        from prometheus_client import metrics_core

        families = {
            "counter": metrics_core.CounterMetricFamily,
            "gauge": metrics_core.GaugeMetricFamily,
            "histogram": metrics_core.HistogramMetricFamily,
        }
        samples = self._exporter.samples()
        for metric in METRICS:
            if not samples.get(metric.name):
                continue
            family = families[metric.type](metric.name, metric.help, labels=metric.labels)
            for labels, value in samples[metric.name].items():
                if isinstance(value, Histogram):
                    family.add_metric(labels, list(_cumulated(value)), value.sum)
                else:
                    family.add_metric(labels, value)
            yield family


def _cumulated(histogram: Histogram) -> Iterator[tuple[str, float]]:
    total = 0
    for bound, count in zip((*map(str, BUCKETS_S), "+Inf"), histogram.counts, strict=True):
        total += count
        yield bound, total
