"""Cron expressions: when they are due in a zone, through gaps and overlaps of its clock."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from headway.errors import InvalidJob

ALIASES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_FIELDS = {
    "minute": "0-59",
    "hour": "0-23",
    "day-of-month": "1-31, or L for the last",
    "month": "1-12, or JAN to DEC",
    "day-of-week": "0-7 (0 and 7 are Sunday), or SUN to SAT",
}
_RANGES: dict[str, tuple[int | str, int | str]] = {
    "minute": (0, 59),
    "hour": (0, 23),
    "day-of-month": (1, 31),
    "month": (1, 12),
    "day-of-week": (0, 6),
}
_NAMES = {
    name: str(number)
    for names, first in (("JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC", 1), ("SUN MON TUE WED THU FRI SAT", 0))
    for number, name in enumerate(names.split(), first)
}
_SUNDAY_LAST = re.compile(r"\b(MON|TUE|WED|THU|FRI|SAT|[1-6])-SUN\b", re.IGNORECASE)  # a week ends with it, too
_MINUTE = timedelta(minutes=1)
_LONGEST_SHIFT = timedelta(hours=3)  # no zone has set its clock back by more since 1970


def zone(name: str) -> ZoneInfo:
    """The zone of an IANA name; raises `InvalidJob`."""
    try:
        return _zone(name)
    except (ZoneInfoNotFoundError, ValueError, OSError, TypeError):
        raise InvalidJob(
            f"tz={name!r} is not a time zone: use an IANA name like 'Europe/Berlin' or 'UTC', not an abbreviation"
        ) from None


@lru_cache(1_000)
def _zone(name: str) -> ZoneInfo:
    return ZoneInfo(name)


class Cron:
    """Five fields (minute hour day month weekday), with names, lists, ranges and steps, or an alias like `@daily`.

    Where a zone's clock jumps, the rules are Debian cron's, as cronsim has them. An expression whose minute or hour
    begins with `*` goes by what the clock shows: it has no times in a gap, and those of an overlap twice. Any other
    means a time of day: one that falls into a gap comes at its end, one in an overlap the first time only.
    """

    __slots__ = ("_fields", "by_clock", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        if not isinstance(text, str):
            raise InvalidJob(f"cron={text!r} is not text: use five fields like '0 2 * * *'")
        fields = ALIASES.get(text.strip().lower(), text).split()
        if len(fields) != 5:
            said = "is not known" if text.strip().startswith("@") else f"has {len(fields)} fields, not five"
            raise InvalidJob(
                f"cron={text!r} {said}: write minute hour day month weekday, like '0 2 * * *', or {', '.join(ALIASES)}"
            )
        if not text.isascii():
            raise InvalidJob(f"cron={text!r} has a character that no field takes: use digits, names and * , - / only")
        fields[4] = _SUNDAY_LAST.sub(r"\1-7", fields[4])
        self._fields = " ".join(fields)
        self.by_clock = fields[0].startswith("*") or fields[1].startswith("*")
        try:
            CronSim(self._fields, datetime(2000, 1, 1))  # noqa: DTZ001
        except (CronSimError, ValueError, AssertionError) as error:
            raise InvalidJob(f"cron={text!r} cannot be read: {_explained(str(error), fields)}") from None

    def after(self, moment: datetime, tz: ZoneInfo) -> datetime | None:
        """The first time after this moment, in UTC; None: never again (within fifty years)."""
        local = moment.astimezone(tz).replace(tzinfo=None, fold=0)
        if not self.by_clock:
            times = (_first(shown, tz) for shown in CronSim(self._fields, local))
            return next((time for time in times if time > moment), None)
        found: datetime | None = None
        # a clock that is set back will show times again that it has shown before
        for shown in CronSim(self._fields, local - _LONGEST_SHIFT if _is_set_back(moment, tz) else local):
            instants = _instants(shown, tz)
            if found is not None and instants and instants[0] >= found:
                break  # the first of each come in order
            found = min((time for time in (*instants, found) if time is not None and time > moment), default=None)
        return found


def _explained(fault: str, fields: list[str]) -> str:
    name = fault.removeprefix("Bad ").lower()
    if name not in _FIELDS:
        return name or "a field is wrong"
    place = list(_FIELDS).index(name)
    if name == "day-of-month" and fields[place].isdigit() and 1 <= int(fields[place]) <= 31:
        return f"no month of {fields[3]} has a day {fields[place]}"
    for part in fields[place].split(","):
        start, _, end = part.partition("/")[0].partition("-")
        first, last = _NAMES.get(start.upper(), start), _NAMES.get(end.upper(), end)
        if first.isdecimal() and last.isdecimal() and int(first) > int(last):
            lowest, highest = _RANGES[name]
            if start.isalpha():
                lowest, highest = ("JAN", "DEC") if name == "month" else ("SUN", "SAT")
            return f"{part!r} runs backwards, and ranges go upwards: write {start}-{highest},{lowest}-{end}"
    return f"{fields[place]!r} is no {name}: use {_FIELDS[name]}"


def _first(shown: datetime, tz: ZoneInfo) -> datetime:
    """When the clock first shows this time; or, where it jumps over it, the end of the jump."""
    while not _is_shown(shown, tz):
        shown += _MINUTE
    return shown.replace(tzinfo=tz).astimezone(UTC)


def _instants(shown: datetime, tz: ZoneInfo) -> tuple[datetime, ...]:
    """Every moment at which the clock shows this time: none in a gap, two in an overlap."""
    if not _is_shown(shown, tz):
        return ()
    return tuple(sorted({shown.replace(tzinfo=tz, fold=fold).astimezone(UTC) for fold in (0, 1)}))


def _is_set_back(moment: datetime, tz: ZoneInfo) -> bool:
    """Whether the clock is set back shortly before or after this moment."""
    before, after = ((moment + shift).astimezone(tz).utcoffset() for shift in (-_LONGEST_SHIFT, _LONGEST_SHIFT))
    assert before is not None
    assert after is not None
    return after < before


def _is_shown(shown: datetime, tz: ZoneInfo) -> bool:
    return shown.replace(tzinfo=tz).astimezone(UTC).astimezone(tz).replace(tzinfo=None) == shown
