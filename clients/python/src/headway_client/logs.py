"""Logs: one JSON object a line, with the job that a line is about."""

from __future__ import annotations

import contextvars
import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any

from headway_client.settings import Settings

job: contextvars.ContextVar[dict[str, Any] | None] = contextvars.ContextVar("headway_job", default=None)
"""What is said of the job that runs here: id, kind, fence."""

_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonFormatter(logging.Formatter):
    """One object a line: time, level, logger, message, the job's fields, and what `extra` gives."""

    def format(self, record: logging.LogRecord) -> str:
        said: dict[str, Any] = {
            "timestamp": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        said |= job.get() or {}
        said |= {name: value for name, value in vars(record).items() if name not in _OWN}
        if record.exc_info:
            said["error"] = self.formatException(record.exc_info)
        return json.dumps(said, default=str)


def configure(settings: Settings) -> None:
    """Write logs to standard error, unless the application has set up its own."""
    root = logging.getLogger()
    if root.handlers:
        return
    handler = logging.StreamHandler(sys.stderr)
    if settings.log_format == "json":
        handler.setFormatter(JsonFormatter())
    else:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    root.addHandler(handler)
    root.setLevel(settings.log_level.upper())
    logging.getLogger("httpx2").setLevel(logging.WARNING)
