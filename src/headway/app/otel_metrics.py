"""The same numbers through OpenTelemetry: what Prometheus would scrape is observed whenever the SDK collects."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from opentelemetry import metrics

from headway.app.exporter import Exporter
from headway.telemetry.metrics import BUCKETS_S, BY_NAME, METRICS, Histogram, Labels, Metric, ProcessMetrics


def otel_name(metric: Metric) -> str:
    """headway_job_run_seconds is headway.job_run in s, of which an exporter to Prometheus makes the first."""
    name = metric.name.removeprefix("headway_")
    for suffix in ("_total", "_seconds", "_bytes"):
        name = name.removesuffix(suffix)
    return f"headway.{name}"


def observe(exporter: Exporter, process: ProcessMetrics, provider: metrics.MeterProvider | None = None) -> None:
    """Register every metric with the meter of this program."""
    meter = metrics.get_meter("headway", meter_provider=provider)
    histograms: dict[str, Any] = {}
    for metric in METRICS:
        options = {"unit": metric.unit, "description": metric.help}
        match metric.type:
            case "histogram":
                histograms[metric.name] = meter.create_histogram(
                    otel_name(metric), metric.unit, metric.help, explicit_bucket_boundaries_advisory=BUCKETS_S
                )
            case "counter":
                meter.create_observable_counter(otel_name(metric), [_callback(exporter, metric)], **options)
            case "gauge":
                meter.create_observable_gauge(otel_name(metric), [_callback(exporter, metric)], **options)

    def record(name: str, labels: Labels, value: float) -> None:
        histograms[name].record(value, dict(zip(BY_NAME[name].labels, labels, strict=True)))

    process.on_observed = record


def _callback(exporter: Exporter, metric: Metric) -> Callable[[metrics.CallbackOptions], Iterable[metrics.Observation]]:
    def collect(_: metrics.CallbackOptions) -> Iterable[metrics.Observation]:
        for labels, value in exporter.samples().get(metric.name, {}).items():
            assert not isinstance(value, Histogram)
            yield metrics.Observation(value, dict(zip(metric.labels, labels, strict=True)))

    return collect
