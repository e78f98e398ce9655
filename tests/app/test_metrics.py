"""Metrics: every number that is promised, bounded labels, and an answer while the database is away."""

from __future__ import annotations

import re
import urllib.request
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client.parser import text_string_to_metric_families

from headway import Headway, Snooze
from headway.app.exporter import MOST_TENANTS, Exporter, _of_stats, parse_address
from headway.app.otel_metrics import observe, otel_name
from headway.errors import ConfigError, StoreUnavailable
from headway.model.stats import COUNTS, Stat
from headway.telemetry.metrics import BUCKETS_S, METRICS, MOST_SERIES, ProcessMetrics, bounded
from headway.testing import drain, held


def scraped(app: Headway) -> dict[str, dict[tuple[str, ...], float]]:
    """The samples by name, with the values of their labels in order of the labels' names."""
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(app.metrics().decode()):
        for sample in family.samples:
            labels = tuple(value for _, value in sorted(sample.labels.items()))
            found.setdefault(sample.name, {})[labels] = sample.value
    return found


def test_everything_that_is_promised_is_there(app: Headway, url: str) -> None:
    @app.job(queue="mail", max_attempts=1)
    async def fails() -> None:
        raise ValueError("no")

    @app.job(queue="mail")
    async def works() -> None: ...

    @app.job(queue="mail")
    async def sleeps() -> None:
        raise Snooze("1h")

    _ = app._exporter  # as serve_metrics does: the worker counts from now on
    for _ in range(3):
        works.using(tenant="acme").enqueue()
    works.using(delay="1h").enqueue()
    fails.enqueue()
    sleeps.enqueue()
    drain(app)
    works.enqueue()
    app.create_schedule("nightly", "0 2 * * *", kind="works")
    app.emit("nobody.listens")
    found = scraped(app)
    counters = {metric.name for metric in METRICS if metric.type == "counter"}
    expected = {metric.name for metric in METRICS if metric.type == "gauge"} | counters
    expected |= {f"{metric.name}_bucket" for metric in METRICS if metric.type == "histogram"}
    # nothing happened in whole minutes yet, and each store has its own numbers
    expected -= {name for name in expected if name.startswith("headway_recent_")}
    sqlite = url.startswith("sqlite")
    expected -= {"headway_oldest_transaction_seconds", "headway_server_wal_bytes"} if sqlite else {"headway_wal_bytes"}
    expected.discard("headway_heartbeat_age_seconds")  # no worker is left
    assert expected <= found.keys()
    assert found["headway_up"] == {(): 1}
    assert found["headway_jobs"] == {
        ("mail", "dead", "default"): 1,
        ("mail", "scheduled", "default"): 2,
        ("mail", "queued", "default"): 1,
    }
    assert found["headway_queue_oldest_seconds"]["mail",] >= 0
    (error,) = app.errors()
    assert found["headway_errors"] == {(error.fingerprint, "fails", "default"): 1}
    assert found["headway_new_errors"] == {("default",): 1}
    assert found["headway_jobs_finished_total"] == {
        ("fails", "dead", "mail"): 1,
        ("sleeps", "snoozed", "mail"): 1,
        ("works", "succeeded", "mail"): 3,
    }
    assert found["headway_jobs_claimed_total"]["mail",] == 5
    assert found["headway_job_run_seconds_count"]["works", "mail"] == 3
    assert found["headway_settle_seconds_count"][()] > 0
    assert found["headway_polls_total"]["jobs", "mail"] > 0
    assert found["headway_database_bytes"][()] > 0
    assert found["process_cpu_seconds_total"][()] > 0


def test_rates_and_quantiles_of_the_last_minutes(app: Headway) -> None:
    @app.job
    async def works() -> None: ...

    with held(app, datetime.now(UTC) - timedelta(minutes=10)) as clock:
        app.enqueue_many([works.using(tenant="acme").build() for _ in range(30)])
        clock.advance("3s")
        drain(app)
        clock.advance("1m")
        found = scraped(app)
    assert found["headway_recent_jobs_per_second"]["acme", "enqueued"] == pytest.approx(30 / 300)
    assert found["headway_recent_jobs_per_second"]["acme", "succeeded"] == pytest.approx(30 / 300)
    assert found["headway_recent_jobs_per_second"]["acme", "dead"] == 0
    assert 2 < found["headway_recent_wait_seconds"]["0.95", "acme"] < 5
    assert found["headway_recent_run_seconds"]["0.5", "acme"] < 1


def test_while_the_database_is_away_the_process_answers(app: Headway, monkeypatch: pytest.MonkeyPatch) -> None:
    process = ProcessMetrics()
    process.count("headway_jobs_claimed_total", ("mail",), 7)
    asked: list[int] = []

    def away() -> Any:
        asked.append(1)
        raise StoreUnavailable("gone")

    exporter = Exporter(app, process)
    app.jobs(limit=1)
    monkeypatch.setattr(app.store.ops, "vitals", away)
    for _ in range(10):  # ten scrapers cost one question
        found = exporter.samples()
    assert asked == [1]
    assert found["headway_up"] == {(): 0.0}
    assert found["headway_jobs_claimed_total"] == {("mail",): 7}
    assert "headway_jobs" not in found


def test_labels_are_bounded() -> None:
    process = ProcessMetrics()
    for n in range(MOST_SERIES + 50):
        process.count("headway_jobs_finished_total", (f"q{n}", "kind", "dead"))
        process.observe("headway_job_run_seconds", (f"q{n}", "kind"), BUCKETS_S[0])
    found = process.samples()
    assert len(found["headway_jobs_finished_total"]) == len(found["headway_job_run_seconds"]) == MOST_SERIES + 1
    assert found["headway_jobs_finished_total"]["other", "other", "dead"] == 50
    rest: Any = found["headway_job_run_seconds"]["other", "other"]
    assert (rest.counts[0], sum(rest.counts)) == (50, 50)
    jobs = next(metric for metric in METRICS if metric.name == "headway_jobs")
    series = [((f"t{n}", "mail", "queued"), float(n)) for n in range(MOST_SERIES + 2)]
    few = bounded(jobs, series)
    assert (len(few), few["other", "other", "queued"]) == (MOST_SERIES + 1, 1.0)
    # the last of them is called as the rest is
    tenants = [*(f"t{n}" for n in range(MOST_TENANTS + 3)), "other"]
    stats = [Stat(at=datetime.now(UTC), tenant_id=name, enqueued=300 - n) for n, name in enumerate(tenants)]
    rates = _of_stats(stats, {})["headway_recent_jobs_per_second"]
    assert len(rates) == (MOST_TENANTS + 1) * len(COUNTS)
    assert sum(rates[name, "enqueued"] for name, what in rates if what == "enqueued") * 300 == pytest.approx(
        sum(stat.enqueued for stat in stats)
    )


def test_a_listener_of_its_own(app: Headway, monkeypatch: pytest.MonkeyPatch) -> None:
    url = app.serve_metrics("127.0.0.1:0")
    with urllib.request.urlopen(url, timeout=30) as answer:
        assert b"headway_up 1.0" in answer.read()
    taken = int(re.findall(r":(\d+)/", url)[0])
    monkeypatch.setenv("HEADWAY_PROCESS", "1")
    with pytest.raises(ConfigError, match=f"metrics cannot be served on 127.0.0.1, port {taken}"):
        app.serve_metrics(f"{taken - 1}")  # the second process listens on the next port
    assert parse_address("[::1]:9100") == ("::1", 9_100)
    assert parse_address("9100") == ("127.0.0.1", 9_100)
    for bad in ("here", "127.0.0.1", "a:b", "1:99999"):
        with pytest.raises(ConfigError, match="is no address"):
            parse_address(bad)


def test_names_follow_prometheus_conventions() -> None:
    assert len({metric.name for metric in METRICS}) == len(METRICS)
    for metric in METRICS:
        # promtool check metrics says so: these are the parts of a histogram
        assert not metric.name.endswith(("_count", "_sum", "_bucket"))
        assert re.fullmatch(r"headway(_[a-z]+)+", metric.name)
        assert metric.name.endswith("_total") == (metric.type == "counter")
        assert metric.help.endswith(".")
        assert not {"quantile", "le"} & set(metric.labels)  # only of summaries and histograms
        assert metric.type != "histogram" or metric.name.endswith("_seconds")


def test_opentelemetry_gets_the_same_numbers(app: Headway, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])

    @app.job(queue="mail")
    async def works() -> None: ...

    app.configure(otel=True)
    exporter = app._exporter
    assert app._worker_metrics is not None
    observe(exporter, app._worker_metrics, provider)
    monkeypatch.setitem(app.__dict__, "_is_observed", True)
    works.enqueue()
    drain(app)
    works.enqueue()
    data: Any = reader.get_metrics_data()
    (scope,) = data.resource_metrics[0].scope_metrics
    points = {metric.name: (metric.unit, list(metric.data.data_points)) for metric in scope.metrics}
    names = {otel_name(metric) for metric in METRICS}
    assert points.keys() <= names
    assert len(names) == len(METRICS)
    unit, (finished,) = points["headway.jobs_finished"]
    assert (unit, finished.value) == ("1", 1)
    assert finished.attributes == {"queue": "mail", "kind": "works", "outcome": "succeeded"}
    unit, (ran,) = points["headway.job_run"]
    assert (unit, ran.count, tuple(ran.explicit_bounds)) == ("s", 1, BUCKETS_S)
    _, (jobs,) = points["headway.jobs"]
    assert (jobs.value, jobs.attributes) == (1, {"tenant": "default", "queue": "mail", "status": "queued"})
    assert points["headway.database"][0] == "By"
    provider.shutdown()


def test_an_error_that_comes_back_is_not_new_and_keeps_its_count(app: Headway) -> None:
    @app.job(max_attempts=1)
    async def fails(n: int) -> None:
        raise ValueError(f"no {n}")

    @app.job(max_attempts=1)
    async def other() -> None:
        raise KeyError("no")

    with held(app) as clock:
        for n in range(3):
            fails.enqueue(n=n)
        drain(app)
        app.store.run(app.store.ops.fold_errors(limit=100))
        (known,) = app.errors()
        clock.advance("2h")
        assert not Exporter(app).samples().get("headway_errors"), "nobody has seen it for an hour"
        fails.enqueue(n=7)
        other.enqueue()
        drain(app)
        seen = Exporter(app).samples()
        (new,) = (each for each in app.errors() if each.fingerprint != known.fingerprint)
        assert seen["headway_errors"] == {
            ("default", "fails", known.fingerprint): 4,
            ("default", "other", new.fingerprint): 1,
        }
        assert seen["headway_new_errors"] == {("default",): 1}
