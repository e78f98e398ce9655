"""Types of command-line values: times, durations, counts, rates, JSON; and the job filters as options."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

import click

from headway.errors import HeadwayError, NotFound
from headway.model.duration import to_ms
from headway.model.ids import is_id
from headway.model.rate import parse_rate
from headway.model.status import STATUSES

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

SOURCES = ("manual", "event", "schedule", "system")

_SHOWN = 10
_BEGINNING = re.compile("[0-9a-f]{6,31}")
_TOO_SHORT = re.compile("[0-9a-f]{1,5}")

F = TypeVar("F", bound=Callable[..., Any])


class Tenant(click.ParamType[Any]):
    """A tenant's name, or its id."""

    name = "text"

    def convert(self, value: Any, _param: click.Parameter | None, _ctx: click.Context | None) -> Any:
        return UUID(value) if isinstance(value, str) and is_id(value) else value


class Duration(click.ParamType[Any]):
    """`90s`, `5m`, `1h30m`, or seconds; with `none`, also the word none."""

    name = "duration"

    def __init__(self, none: bool = False) -> None:
        self._none = none

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if self._none and value == "none":
            return value
        try:
            given = float(value)
        except (TypeError, ValueError):
            given = value
        try:
            to_ms(given, "value")
        except HeadwayError:
            more = ", or none" if self._none else ""
            self.fail(f"{value!r} is not a duration: write 90s, 5m, 1h30m, or seconds{more}", param, ctx)
        return given


class Moment(click.ParamType[Any]):
    """A time with a zone, or one of `words`; with `past`, also a duration, which means that long ago."""

    name = "time"

    def __init__(self, *words: str, past: bool = False) -> None:
        self._words = words
        self._past = past

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, datetime) or value in self._words:
            return value
        if self._past:
            try:
                return datetime.now(UTC) - timedelta(milliseconds=to_ms(value))
            except HeadwayError:
                pass
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            also = "".join(f", or {word}" for word in self._words) + (", or 2h for two hours ago" if self._past else "")
            self.fail(f"{value!r} is not a time: write 2026-01-31T09:30:00Z{also}", param, ctx)
        if moment.tzinfo is None:
            self.fail(f"{value!r} carries no zone: write {value}Z for UTC, or {value}+02:00", param, ctx)
        return moment


class Json(click.ParamType[Any]):
    """Any JSON value, @file to read it from a file (`-` or `@-`: stdin), or one of `words`."""

    name = "json"

    def __init__(self, *words: str) -> None:
        self._words = words

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str) or value in self._words:
            return value
        text = value
        if value == "-" or value.startswith("@"):
            text = self._read(value.removeprefix("@"), param, ctx)
        try:
            return json.loads(text)
        except ValueError as error:
            quotes = f"; a text needs quotes, '\"{_brief(text)}\"'" if text[:1].isalpha() else ""
            self.fail(f"this is not JSON ({error}): {_brief(text)}{quotes}", param, ctx)

    def _read(self, path: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            with click.open_file(path, encoding="utf-8") as file:
                return str(file.read())
        except (OSError, UnicodeDecodeError) as error:
            self.fail(f"{path} cannot be read: {error}", param, ctx)


class JsonObject(Json):
    """A JSON object, or @file to read one from a file."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        found = super().convert(value, param, ctx)
        if not isinstance(found, dict) and found not in self._words:
            self.fail(f"an object is needed, like '{{\"user_id\": 7}}', not {_brief(value)}", param, ctx)
        return found


class Pair(click.ParamType[Any]):
    """`NAME=VALUE`: the value is JSON if it parses, else text; for names in `texts` it is always text."""

    name = "name=value"

    def __init__(self, *texts: str) -> None:
        self._texts = texts

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, tuple):
            return value
        name, equals, text = value.partition("=")
        if not name.strip() or not equals:
            self.fail(f"{value!r} is not NAME=VALUE", param, ctx)
        return name.strip(), text if name.strip() in self._texts else _value(text)


class JobId(click.ParamType[Any]):
    """A job's id, or an unambiguous beginning of one."""

    name = "id"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from headway.cli.program.invocation import Invocation

        digits = value.replace("-", "").lower()
        if _TOO_SHORT.fullmatch(digits):
            self.fail(f"{value!r} is too short to identify a job: give at least 6 digits of its id", param, ctx)
        if ctx is None or ctx.resilient_parsing or not _BEGINNING.fullmatch(digits):
            return value  # a whole id, or a wrong one: the verb that takes it will say so
        cli = ctx.find_object(Invocation)
        assert cli is not None
        app = cli.existing
        first, last = (str(UUID(digits.ljust(32, end))) for end in "0f")
        found = app.store.run(app.store.ops.ids_from(first, last, limit=_SHOWN + 1))
        if not found:
            raise NotFound(f"there is no job whose id begins with {value}")
        if len(found) > 1:
            listed = "".join(f"\n  {job_id}" for job_id in found[:_SHOWN]) + ("\n  …" if len(found) > _SHOWN else "")
            self.fail(f"the ids of several jobs begin with {value}, so give more of it:{listed}", param, ctx)
        return found[0]


class Zone(click.ParamType[Any]):
    """The IANA name of a time zone."""

    name = "zone"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from headway.model.cron import zone

        try:
            return zone(value).key
        except HeadwayError:
            import difflib
            from zoneinfo import available_timezones

            names = {name.lower(): name for name in available_timezones()}
            # people remember the city better than the continent
            cities = {name.rpartition("/")[2].lower(): name for name in sorted(available_timezones())}
            wanted = value.lower().replace(" ", "_")
            close = difflib.get_close_matches(wanted, [*names, *cities], 1)
            hint = (
                f"did you mean {names.get(close[0]) or cities[close[0]]}?" if close else "write Europe/Berlin, or UTC"
            )
            self.fail(f"{value!r} is not a time zone: {hint}", param, ctx)

    def shell_complete(self, _ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from zoneinfo import available_timezones

        from click.shell_completion import CompletionItem

        return [CompletionItem(name) for name in sorted(available_timezones()) if name.startswith(incomplete)]


class Count(click.ParamType[Any]):
    """A whole number from 0, or `none`."""

    name = "count"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, int) or value == "none":
            return value
        if not str(value).isascii() or not str(value).isdigit():
            self.fail(f"{value!r} is not a count: write a whole number from 0, or none", param, ctx)
        return int(value)


class Rate(click.ParamType[Any]):
    """`100/min`, `10/s`, `5/2h`; with `none`, also the word none."""

    name = "rate"

    def __init__(self, none: bool = False) -> None:
        self._none = none

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if self._none and value == "none":
            return value
        try:
            parse_rate(value)
        except HeadwayError:
            more = ", or none" if self._none else ""
            self.fail(f"{value!r} is not a rate: write 100/min, 10/s, 5/2h or 1000/day{more}", param, ctx)
        return value


FILTERS = (
    "status",
    "kind",
    "queue",
    "tenant",
    "train",
    "group_id",
    "parent_id",
    "source",
    "correlation_id",
    "unique_key",
    "retry_of",
    "created_after",
    "created_before",
    "tags",
    "any_tags",
    "meta",
    "error",
)


def filter_options(fn: F) -> F:
    """Add an option for each filter; the command gets them as keywords, None if not given."""
    options = (
        _several("--status", type=click.Choice(STATUSES), help="Only jobs of this status; repeatable."),
        _several("--kind", help="Only jobs of this kind; repeatable."),
        _several("--queue", help="Only jobs of this queue; repeatable."),
        click.option("--tenant", type=Tenant(), help="Only jobs of this tenant."),
        _several("--train", metavar="KEY", help="Only jobs of this train; repeatable."),
        _several("--group", "group_id", metavar="ID", help="Only jobs of this group; repeatable."),
        click.option("--parent", "parent_id", type=JobId(), metavar="ID", help="Only jobs that this machine spawned."),
        _several("--source", type=click.Choice(SOURCES), help="Only jobs from this source; repeatable."),
        click.option("--correlation-id", help="Only jobs with this correlation id."),
        click.option("--unique-key", help="Only jobs with this unique key."),
        click.option("--retry-of", type=JobId(), metavar="ID", help="The job that retries this at_most_once job."),
        click.option("--created-after", type=Moment(past=True), help="Only jobs created after a time, or within 2h."),
        click.option("--created-before", type=Moment(past=True), help="Only jobs created before a time, or 2h ago."),
        _several("--tag", "tags", metavar="TAG", help="Only jobs that have this tag; repeatable: and this one."),
        _several("--any-tag", "any_tags", metavar="TAG", help="Only jobs that have this tag; repeatable: or this one."),
        click.option(
            "--error", metavar="FINGERPRINT", help="Only jobs whose last execution ended so (headway errors)."
        ),
        click.option(
            "--meta",
            type=Pair(),
            multiple=True,
            metavar="PATH=VALUE",
            callback=lambda _ctx, _param, value: dict(value) or None,
            help="Only jobs whose meta has exactly this there, like customer.id=7; repeatable.",
        ),
    )
    for option in reversed(options):
        fn = option(fn)
    return fn


def bulk_options(fn: F) -> F:
    """Add what a command takes that does something to many jobs: limit, dry_run and yes."""
    fn = click.option("--yes", "-y", is_flag=True, help="Do not ask.")(fn)
    fn = click.option("--dry-run", is_flag=True, help="Only count them.")(fn)
    return click.option("--limit", type=click.IntRange(1), metavar="N", help="Only the oldest N of those that match.")(
        fn
    )


def _several(*names: str, **options: Any) -> Callable[[F], F]:
    """An option that may be repeated; None if it is not given."""
    return click.option(*names, multiple=True, callback=lambda _ctx, _param, value: value or None, **options)


_NAMED = {"group_id": "--group", "parent_id": "--parent", "tags": "--tag", "any_tags": "--any-tag"}


def taken_back(options: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """The options that were given, with `none` as None: in all of them, or in those named."""
    return {
        name: None if value == "none" and (not names or name in names) else value
        for name, value in given(options).items()
    }


def given(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that were given."""
    return {name: value for name, value in options.items() if value is not None}


def as_flags(options: Mapping[str, Any]) -> list[str]:
    """The options as one would type them."""
    flags: list[str] = []
    for name, value in given(options).items():
        if isinstance(value, dict):
            value = tuple(f"{path}={json.dumps(each)}" for path, each in value.items())
        for each in value if isinstance(value, tuple) else (value,):
            text = each.isoformat() if isinstance(each, datetime) else str(each)
            flags += [_NAMED.get(name, f"--{name.replace('_', '-')}"), text]
    return flags


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _brief(value: str) -> str:
    return value if len(value) <= 60 else value[:57] + "…"
