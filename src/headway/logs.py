"""Logging: readable lines on a terminal, JSON elsewhere, each with the fields of its job.

Only the command line calls `configure`. Inside another program, Headway's loggers are plain stdlib loggers below
"headway": their lines go wherever that program sends its logs.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import lru_cache
from json import dumps
from typing import TYPE_CHECKING, Any, Protocol, TextIO

import msgspec

from headway.printable import printable, printable_line
from headway.secrets import REDACTED, Known, is_secret_name, process, redact

if TYPE_CHECKING:
    from structlog.typing import EventDict, Processor, WrappedLogger


class Described(Protocol):
    """What a log line says about the current execution."""

    def log_fields(self) -> Mapping[str, Any]: ...

    def known(self) -> Known: ...


job: ContextVar[Described | None] = ContextVar("headway_job", default=None)
"""The job that the current task or thread runs; set once per execution, read only when a line is written."""

_ON_A_TERMINAL_TOO_MUCH = ("tenant_id", "worker_id", "trace_id")
_OUR_OWN = frozenset({"tenant_id", "job_id", "attempt", "worker_id", "timestamp", "level", "logger"})
FIELDS: dict[str, dict[str, str]] = {
    "headway": {},
    "jobforge": {"kind": "job_type", "attempt": "attempt_no", "event": "message"},
    "zoltag": {"kind": "definition_key", "attempt": "attempt_no"},
}
"""The names that a line's fields have, by --log-fields, where they are not our own."""
_AS_JSON_DUMPS = frozenset({str, int, float, bool, type(None)})  # what msgspec writes as the json module does
_PLAIN = (int, float, bool, type(None))


_encode = msgspec.json.Encoder().encode


class Logger:
    """Takes `event, key=value, …` and works with any logging configuration, or none. Secrets are masked before any
    formatter sees them."""

    def __init__(self, name: str) -> None:
        self._inner = logging.getLogger(name)
        self._inner.addFilter(_redact_traceback)

    def is_enabled_for(self, level: int) -> bool:
        return self._inner.isEnabledFor(level)

    def debug(self, event: str, **fields: Any) -> None:
        self._log(logging.DEBUG, event, fields)

    def info(self, event: str, **fields: Any) -> None:
        self._log(logging.INFO, event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        self._log(logging.WARNING, event, fields)

    def error(self, event: str, **fields: Any) -> None:
        self._log(logging.ERROR, event, fields)

    def _log(self, level: int, event: str, fields: dict[str, Any]) -> None:
        """Logging never fails the caller: an application's handler that raises loses its line, and nothing else."""
        try:
            if self._inner.isEnabledFor(level):
                exc_info = fields.pop("exc_info", None)
                shown = _redact(_merge_job({**fields, "event": event}))
                if not exc_info and self._is_joined(level, shown):
                    return
                caller = sys._getframe(2)  # logging looks for it frame by frame, which takes a third of a line's time
                where = (caller.f_code.co_filename, caller.f_lineno)
                # the text for programs that configured nothing, the fields for formatters that can use them
                text, extra = _Text(shown), {"headway": shown}
                record = self._inner.makeRecord(
                    self._inner.name, level, *where, text, (), _traceback(exc_info), caller.f_code.co_name, extra
                )
                self._inner.handle(record)
        except Exception:
            if logging.raiseExceptions and _complains():
                _complain()

    def _is_joined(self, level: int, fields: EventDict) -> bool:
        """Whether the line was taken by a server's handler, where nobody else listens or filters: it needs no record,
        whose making and passing on takes as long as the rest of a line."""
        handlers = logging.root.handlers
        return (
            len(handlers) == 1
            and isinstance(handlers[0], _Lines)
            and handlers[0].joins
            and handlers[0].level <= level
            and self._inner.propagate
            and _OURS.propagate
            and not (self._inner.handlers or _OURS.handlers or handlers[0].filters)
            and self._inner.filters == [_redact_traceback]
            and handlers[0].join(self._inner.name, level, fields)
        )


_OURS = logging.getLogger("headway")


class _Text:
    """A line as text, made when somebody reads it."""

    def __init__(self, fields: EventDict) -> None:
        self._fields = fields

    def __str__(self) -> str:
        return _text(self._fields)


def _traceback(exc_info: Any) -> Any:
    """What a record has: `exc_info` may be an error, or True for the one that is being handled."""
    if isinstance(exc_info, BaseException):
        return type(exc_info), exc_info, exc_info.__traceback__
    return sys.exc_info() if exc_info is True else exc_info


def get_logger(name: str) -> Logger:
    return Logger(name)


def _complain() -> None:
    """Do what the standard library does when one of its handlers fails."""
    with suppress(Exception):
        sys.stderr.write("a log line of Headway's was lost, since logging raised:\n" + traceback.format_exc())


def configure(
    level: str = "info", json: bool | None = None, stream: TextIO | None = None, *, fields: str = "headway"
) -> None:
    """Configure the process's logging, stdlib and structlog alike; `json=None`: JSON unless this is a terminal.

    `fields` is one of `FIELDS`: the names that other programs gave to what our lines say.
    """
    # with rich and pygments, which it imports, structlog takes a third of a program's start: only workers need it
    import structlog
    from structlog import dev, processors, stdlib
    from structlog.stdlib import ProcessorFormatter

    stream = stream or sys.stderr
    terminal = stream.isatty()
    as_json = not terminal if json is None else json
    # the processors that our loggers (`_unpack`), other stdlib loggers and structlog's loggers share
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        _processor(_merge_job),
        stdlib.add_log_level,
        processors.TimeStamper(fmt="iso" if as_json else "%H:%M:%S", utc=as_json, key="timestamp"),
    ]
    last: list[Processor] = (
        [processors.format_exc_info, _processor(_redact), _renamed(FIELDS[fields]), processors.JSONRenderer()]
        if as_json
        else [
            _processor(_shorten),
            processors.format_exc_info,
            _processor(_redact),
            _processor(_printable),
            _renamed({name: new for name, new in FIELDS[fields].items() if name != "event"}),
            # a plain traceback: a pretty one shows local variables, and would split a secret with color codes
            dev.ConsoleRenderer(colors=terminal, exception_formatter=dev.plain_traceback),
        ]
    )
    handler = _Lines(stream)
    formatter = ProcessorFormatter(
        foreign_pre_chain=[_processor(_unpack), stdlib.add_logger_name, *shared, _processor(_add_extra)],
        processors=[ProcessorFormatter.remove_processors_meta, *last],
    )
    own = _OurLines(formatter, structlog.contextvars.get_contextvars, FIELDS[fields])
    handler.setFormatter(own if as_json else formatter)
    logging.logProcesses = False  # no line says it, and asking the system takes a fifth of a line's time
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    structlog.configure(
        processors=[
            stdlib.filter_by_level,
            stdlib.add_logger_name,
            stdlib.PositionalArgumentsFormatter(),
            *shared,
            ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=stdlib.LoggerFactory(),
        wrapper_class=stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )


def join_lines() -> None:
    """Write the lines of one turn of the event loop together: for a server, which answers many requests in a turn.
    Warnings and errors are written at once, and so is everything before them."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler, _Lines):
            handler.joins = True


class _Lines(logging.StreamHandler[TextIO]):
    """Each write costs a server more than making the line does: other threads run meanwhile, and do not stop at once
    when it is done."""

    joins = False

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._waiting: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self._write_waiting()
        super().emit(record)

    def join(self, name: str, level: int, fields: EventDict) -> bool:
        """Take a line of ours, to be written at the end of this turn; False if it has to be written now."""
        loop = asyncio._get_running_loop() if level <= logging.INFO else None
        if loop is None or not isinstance(self.formatter, _OurLines):
            return False
        line = self.formatter.line(name, level, time.time(), fields)
        if line is None:
            return False
        with self.lock or nullcontext():
            if not self._waiting:
                loop.call_soon(self.flush)
            self._waiting.append(line)
        return True

    def flush(self) -> None:
        with self.lock or nullcontext():
            self._write_waiting()
            super().flush()

    def _write_waiting(self) -> None:
        if self._waiting:
            lines, self._waiting = self._waiting, []
            self.stream.write("".join(f"{line}\n" for line in lines))


class _OurLines(logging.Formatter):
    """Lines of our own as JSON, as structlog would write them, at a tenth of its cost: a busy server writes one for
    each request. Everything else goes to structlog."""

    def __init__(
        self, others: logging.Formatter, bound: Callable[[], Mapping[str, Any]], names: Mapping[str, str]
    ) -> None:
        super().__init__()
        self._others = others
        self._names = names
        self._bound = bound  # fields that the program has bound, for all lines to show

    def format(self, record: logging.LogRecord) -> str:
        fields = getattr(record, "headway", None)
        if fields is None or record.exc_info or record.exc_text:
            return self._others.format(record)
        return self.line(record.name, record.levelno, record.created, fields) or self._others.format(record)

    def line(self, name: str, level: int, created: float, fields: EventDict) -> str | None:
        """The line, unless structlog has to write it."""
        if self._bound():
            return None
        at = datetime.fromtimestamp(created, UTC).isoformat(timespec="microseconds")
        ours = {"logger": name, "level": logging.getLevelName(level).lower(), "timestamp": f"{at[:-6]}Z"}
        line = _rename({"event": fields["event"], **fields, **ours}, self._names)
        try:
            if _AS_JSON_DUMPS.issuperset(map(type, line.values())):
                with suppress(ValueError):  # a lone surrogate, which dumps escapes
                    encoded = msgspec.json.format(_encode(line), indent=0)  # at half the cost of dumps
                    if encoded.isascii():
                        return encoded.decode()
            return dumps(line)
        except (TypeError, ValueError):  # a value that JSON has no form for
            return None


def _processor(change: Callable[[EventDict], EventDict]) -> Processor:
    """A change of a line's fields as structlog calls it: with a logger and the name of its method too."""

    def process(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
        return change(event)

    return process


def _renamed(names: Mapping[str, str]) -> Processor:
    """Gives fields other names, except where the line has a field of that name already."""

    return _processor(lambda event: _rename(event, names))


def _rename(event: EventDict, names: Mapping[str, str]) -> EventDict:
    for name, new in names.items():
        if name in event and new not in event:
            event[new] = event.pop(name)
    return event


def known() -> Known:
    """The secrets to mask here: those of the running job, or else of the process."""
    current = job.get()
    return process() if current is None else current.known()


class Seldom:
    """Allows one line per period and key, so that a lasting problem does not fill the log."""

    def __init__(self, period_s: float) -> None:
        self._period_s = period_s
        self._said: dict[str, float] = {}

    def __call__(self, key: str = "") -> bool:
        now = time.monotonic()
        if now - self._said.get(key, -self._period_s) < self._period_s:
            return False
        self._said[key] = now
        return True


_complains = Seldom(60)


def _merge_job(event: EventDict) -> EventDict:
    current = job.get()
    if current is not None:
        for key, value in current.log_fields().items():
            if value is not None:
                event.setdefault(key, value)
    return event


def _printable(event: EventDict) -> EventDict:
    """For a terminal: a job's text must not control it, nor pass for a line of ours."""
    for key, value in event.items():
        if isinstance(value, str):
            event[key] = _indented(value) if key == "event" else printable(value)
        elif not isinstance(value, _PLAIN) and printable(text := repr(value)) is not text:
            event[key] = printable(text)
    return event


def _indented(text: str) -> str:
    return printable(text).replace("\n", "\n    ")


def _redact(event: EventDict) -> EventDict:
    """Mask secrets in every value of the line; a value whose name is that of a secret is masked whole."""
    hidden = known()
    if _is_clean(event, hidden):
        return event
    for key, value in event.items():
        if key not in _OUR_OWN and key != "exc_info" and not isinstance(value, _PLAIN):
            event[key] = REDACTED if is_secret_name(key) and value else _redacted(value, hidden)
    return event


def _is_clean(event: EventDict, hidden: Known) -> bool:
    """Whether its values are plain and hold no secret: one look at all of them, since most lines are like that."""
    if _names_a_secret(tuple(event)):
        return False
    texts: list[str] = []
    for key, value in event.items():
        if type(value) is str:
            if key not in _OUR_OWN:
                texts.append(value)
        elif not isinstance(value, _PLAIN):
            return False
    text = "\n".join(texts)
    return redact(text, hidden) is text


@lru_cache(maxsize=1024)
def _names_a_secret(names: tuple[str, ...]) -> bool:
    return any(map(is_secret_name, names))


def _redacted(value: Any, hidden: Known) -> Any:
    match value:
        case str():
            return redact(value, hidden)
        case dict():
            return {
                redact(key, hidden) if isinstance(key, str) else key: (
                    REDACTED if isinstance(key, str) and is_secret_name(key) and each else _redacted(each, hidden)
                )
                for key, each in value.items()
            }
        case list() | tuple() | set() | frozenset():
            return [_redacted(each, hidden) for each in value]
        case int() | float() | None:
            return value
    # anything else is shown as text
    try:
        text = f"{value} {value!r}"
    except Exception:
        return f"a {type(value).__name__}"
    return value if redact(text, hidden) is text else redact(repr(value), hidden)


def _redact_traceback(record: logging.LogRecord) -> bool:
    """A filter of our loggers: if the traceback shows a secret, handlers get its masked text instead of the error."""
    if isinstance(record.exc_info, tuple) and record.exc_info[1] is not None:
        try:
            text = "".join(traceback.format_exception(*record.exc_info))
        except Exception:
            text = ""
        clean = printable(redact(text, known()))
        if clean is not text:
            record.exc_info, record.exc_text = None, clean.rstrip("\n")
    return True


def _text(event: EventDict) -> str:
    """The line for programs that configured nothing."""
    text = _indented(str(event["event"]))
    fields = " ".join(f"{key}={printable_line(str(value))}" for key, value in event.items() if key != "event")
    return f"{text}  {fields}" if fields else text


def _unpack(event: EventDict) -> EventDict:
    record: logging.LogRecord = event["_record"]
    event.update(getattr(record, "headway", {}))
    if record.exc_text and not record.exc_info:
        event["exception"] = record.exc_text  # see `_redact_traceback`
    return event


_OF_EVERY_RECORD = vars(logging.makeLogRecord({})).keys() | {"message", "asctime", "taskName", "headway"}


def _add_extra(event: EventDict) -> EventDict:
    """What others give by `extra={…}`; fields that the line has stay as they are."""
    given = vars(event["_record"])
    event.update((name, given[name]) for name in given.keys() - _OF_EVERY_RECORD - event.keys())
    return event


def _shorten(event: EventDict) -> EventDict:
    for key in _ON_A_TERMINAL_TOO_MUCH:
        event.pop(key, None)
    return event
