"""Logging: a line a human likes on a terminal, JSON elsewhere, each with the fields of its job.

Only the command line calls `configure`. Embedded in somebody's program, Headway's loggers are plain stdlib
loggers below "headway": they go wherever that program sends its logs.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any, Protocol, TextIO

import structlog
from structlog.stdlib import BoundLogger, ProcessorFormatter
from structlog.typing import EventDict, Processor, WrappedLogger


class Described(Protocol):
    """What runs now, as far as a log line wants to know."""

    def log_fields(self) -> Mapping[str, Any]: ...


job: ContextVar[Described | None] = ContextVar("headway_job", default=None)
"""The job that the current task or thread runs; set once per execution, read only when a line is written."""

_ON_A_TERMINAL_TOO_MUCH = ("tenant_id", "worker_id", "trace_id")


def get_logger(name: str) -> BoundLogger:
    """A logger that takes `event, key=value, …` and works with any logging configuration, or none."""
    logger: BoundLogger = structlog.wrap_logger(
        logging.getLogger(name),
        processors=[structlog.stdlib.filter_by_level, _merge_job, _to_record],
        wrapper_class=BoundLogger,
    )
    return logger


def configure(level: str = "info", json: bool | None = None, stream: TextIO | None = None) -> None:
    """Take over the process's logging, stdlib and structlog alike; `json` None: unless this is a terminal."""
    stream = stream or sys.stderr
    terminal = stream.isatty()
    as_json = not terminal if json is None else json
    # what our own loggers (`_unpack`), other stdlib loggers and structlog's loggers have in common
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        _merge_job,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso" if as_json else "%H:%M:%S", utc=as_json, key="timestamp"),
    ]
    last: list[Processor] = (
        [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
        if as_json
        else [_shorten, structlog.dev.ConsoleRenderer(colors=terminal)]
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        ProcessorFormatter(
            foreign_pre_chain=[_unpack, structlog.stdlib.add_logger_name, *shared],
            processors=[ProcessorFormatter.remove_processors_meta, *last],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.stdlib.add_logger_name,
            structlog.stdlib.PositionalArgumentsFormatter(),
            *shared,
            ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=BoundLogger,
        cache_logger_on_first_use=True,
    )


class Seldom:
    """Says yes at most once per period and key, so that trouble does not fill the log."""

    def __init__(self, period_s: float) -> None:
        self._period_s = period_s
        self._said: dict[str, float] = {}

    def __call__(self, key: str = "") -> bool:
        now = time.monotonic()
        if now - self._said.get(key, -self._period_s) < self._period_s:
            return False
        self._said[key] = now
        return True


def _merge_job(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    current = job.get()
    if current is not None:
        for key, value in current.log_fields().items():
            if value is not None:
                event.setdefault(key, value)
    return event


def _to_record(_logger: WrappedLogger, _method: str, event: EventDict) -> tuple[tuple[str], dict[str, Any]]:
    """The text for whoever configured nothing, and the fields as they are for whoever can use them."""
    exc_info = event.pop("exc_info", None)
    fields = dict(event)
    text = str(event.pop("event"))
    if event:
        text += "  " + " ".join(f"{key}={value}" for key, value in event.items())
    return (text,), {"exc_info": exc_info, "extra": {"headway": fields}}


def _unpack(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    record: logging.LogRecord = event["_record"]
    event.update(getattr(record, "headway", {}))
    return event


def _shorten(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    for key in _ON_A_TERMINAL_TOO_MUCH:
        event.pop(key, None)
    return event
