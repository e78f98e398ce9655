"""Cron expressions: when they are due in a zone, through gaps and overlaps of its clock."""

from __future__ import annotations

from bisect import bisect_left
from calendar import monthrange
from collections.abc import Iterator
from datetime import MAXYEAR, UTC, date, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from headway.errors import InvalidJob
from headway.model.cron_fields import UNITS, Field, MonthDay, NthWeekday, read

ALIASES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_LONGEST_MONTHS = [0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
_SECOND = timedelta(seconds=1)
_MINUTE = timedelta(minutes=1)
_LONGEST_SHIFT = timedelta(hours=3)  # no zone has set its clock back by more since 1970
_YEARS = 50
"""How far ahead a time is looked for: 29 February on a Monday comes every 28 years, or after 40."""


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
    """Five fields (minute hour day month weekday), six with the seconds before them, or an alias like `@daily`.

    If day and weekday are both restricted, either is enough; if one of them begins with `*`, both must fit.

    Where a zone's clock jumps, the rules are Debian cron's. An expression whose second, minute or hour begins with `*`
    goes by what the clock shows: it has no times in a gap, and those of an overlap twice. Any other means a time of
    day: one that falls into a gap comes at its end, one in an overlap the first time only.
    """

    __slots__ = (
        "_days",
        "_days_seen",
        "_hours",
        "_minutes",
        "_months",
        "_seconds",
        "_weekdays",
        "by_clock",
        "fields",
        "text",
    )

    def __init__(self, text: str) -> None:
        self.text = text
        second, minute, hour, self._days, month, self._weekdays = self.fields = _fields(text)
        self._seconds, self._minutes, self._hours, self._months = (
            sorted(field.values) for field in (second, minute, hour, month)
        )
        self._days_seen: tuple[int, int, list[int]] = (0, 0, [])
        self.by_clock = second.starred or minute.starred or hour.starred
        _check_days(self)

    @property
    def shortest(self) -> timedelta:
        """No two of its times are closer to each other, but where a clock jumps."""
        return _MINUTE if len(self._seconds) == 1 else _SECOND

    @property
    def needs_both_days(self) -> bool:
        """Whether day and weekday must both fit, and not either."""
        return self._days.starred or self._weekdays.starred

    def after(self, moment: datetime, tz: ZoneInfo) -> datetime | None:
        """The first time after this moment, in UTC; None: never again (within fifty years)."""
        local = moment.astimezone(tz).replace(tzinfo=None, fold=0)
        if not self.by_clock:
            return next((time for shown in self._shown(local) if (time := _first(shown, tz)) > moment), None)
        jump = _set_back(moment, tz)
        if jump is not None and moment < jump:
            first = next((time for shown in self._shown(local) for time in _instants(shown, tz)), None)
            if first is None or first < jump:
                return first
            # after the jump the clock shows again what it has shown before
            moment = jump - _SECOND
            local = jump.astimezone(tz).replace(tzinfo=None, fold=0) - _SECOND
        return next((time for shown in self._shown(local) for time in _instants(shown, tz) if time > moment), None)

    def _shown(self, after: datetime) -> Iterator[datetime]:
        """What a clock shows whenever it is due, in order, after it showed this."""
        for day in self._dates(after.date()):
            today = day == after.date()
            for hour in self._hours[bisect_left(self._hours, after.hour) if today else 0 :]:
                this_hour = today and hour == after.hour
                for minute in self._minutes[bisect_left(self._minutes, after.minute) if this_hour else 0 :]:
                    for second in self._seconds:
                        shown = datetime(day.year, day.month, day.day, hour, minute, second)  # noqa: DTZ001
                        if shown > after:
                            yield shown

    def _dates(self, since: date) -> Iterator[date]:
        """The days on which it is due, from this one on."""
        for year in range(since.year, min(since.year + _YEARS, MAXYEAR) + 1):
            for month in self._months:
                if (year, month) < (since.year, since.month):
                    continue
                days = self._days_of(year, month)
                this_month = (year, month) == (since.year, since.month)
                for day in days[bisect_left(days, since.day) if this_month else 0 :]:
                    yield date(year, month, day)

    def _days_of(self, year: int, month: int) -> list[int]:
        """The days of this month on which it is due, in order; kept, as the next question is mostly of the same."""
        seen_year, seen_month, days = self._days_seen
        if (year, month) != (seen_year, seen_month):
            days = self._find_days(year, month)
            self._days_seen = (year, month, days)
        return days

    def _find_days(self, year: int, month: int) -> list[int]:
        first, length = monthrange(year, month)
        sunday_first = (first + 1) % 7  # what weekday the month begins with, where Sunday is 0
        days, weekdays = self._days.values, self._weekdays.values
        by_day = {day for day in days if day <= length}
        by_weekday = {day for day in range(1, length + 1) if (sunday_first + day - 1) % 7 in weekdays}
        for part in self._days.parts:
            if isinstance(part, MonthDay):
                by_day |= _month_day(part, sunday_first, length)
        for part in self._weekdays.parts:
            if isinstance(part, NthWeekday):
                by_weekday |= _nth_weekday(part, sunday_first, length)
        return sorted(by_day & by_weekday if self.needs_both_days else by_day | by_weekday)


def _fields(text: str) -> tuple[Field, ...]:
    if not isinstance(text, str):
        raise InvalidJob(f"cron={text!r} is not text: use five fields like '0 2 * * *'")
    fields = ALIASES.get(text.strip().lower(), text).split()
    if len(fields) not in (5, 6):
        raise InvalidJob(f"cron={text!r} {_miscounted(text, len(fields))}")
    if not text.isascii():
        raise InvalidJob(f"cron={text!r} has a character that no field takes: use digits, names and * , - / ? # only")
    try:
        return tuple(read(unit, field) for unit, field in zip(UNITS, ["0", *fields][-6:], strict=True))
    except ValueError as error:
        raise InvalidJob(f"cron={text!r} cannot be read: {error}") from None


def _miscounted(text: str, count: int) -> str:
    ways = f"write minute hour day month weekday, like '0 2 * * *', or {', '.join(ALIASES)}"
    if text.strip().startswith("@every"):
        return "is not known: give an interval as every='5m', without cron"
    if text.strip().lower() == "@reboot":
        return "is not known: give its times, and run_on_start=True, which fires when workers start, too"
    if text.strip().startswith("@"):
        return f"is not known: {ways}"
    if count == 7:
        return f"has 7 fields, and a year is none of them: give start= and end= instead; {ways}"
    return f"has {count} fields, not five or, with seconds, six: {ways}"


def _check_days(cron: Cron) -> None:
    """Refuse a day that none of the months has, as in `0 0 30 2 *`."""
    *_, day, month, _ = cron.fields
    if not cron.needs_both_days or any(isinstance(part, MonthDay) for part in day.parts):
        return
    if min(day.values) > max(_LONGEST_MONTHS[each] for each in month.values):
        raise InvalidJob(f"cron={cron.text!r} cannot be read: no month of {month.text} has a day {day.text}")


def _month_day(part: MonthDay, sunday_first: int, length: int) -> set[int]:
    day = length - part.before_last if part.day is None else part.day
    if not 1 <= day <= length:
        return set()
    if not part.nearest_weekday:
        return {day}
    match (sunday_first + day - 1) % 7:
        case 6:  # Saturday: the day before, unless that is in another month
            return {day - 1 if day > 1 else day + 2}
        case 0:
            return {day + 1 if day < length else day - 2}
    return {day}


def _nth_weekday(part: NthWeekday, sunday_first: int, length: int) -> set[int]:
    first = 1 + (part.weekday - sunday_first) % 7
    each = range(first, length + 1, 7)
    if part.nth is None:
        return {each[-1]}
    return set(each[part.nth - 1 : part.nth])


def _first(shown: datetime, tz: ZoneInfo) -> datetime:
    """When the clock first shows this time; or, where it jumps over it, the end of the jump."""
    before, after = (shown.replace(tzinfo=tz, fold=fold).astimezone(UTC) for fold in (1, 0))
    return after if _is_shown(shown, tz) else _jump(before, after, tz)


def _instants(shown: datetime, tz: ZoneInfo) -> tuple[datetime, ...]:
    """Every moment at which the clock shows this time: none in a gap, two in an overlap."""
    if not _is_shown(shown, tz):
        return ()
    return tuple(sorted({shown.replace(tzinfo=tz, fold=fold).astimezone(UTC) for fold in (0, 1)}))


def _set_back(moment: datetime, tz: ZoneInfo) -> datetime | None:
    """When the clock is set back, if that is shortly before or after this moment."""
    second = moment.astimezone(UTC).replace(microsecond=0)
    before, after = second - _LONGEST_SHIFT, second + _LONGEST_SHIFT
    return _jump(before, after, tz) if _offset(after, tz) < _offset(before, tz) else None


def _jump(before: datetime, after: datetime, tz: ZoneInfo) -> datetime:
    """The first second with the new offset, where the clock jumps between these two."""
    old = _offset(before, tz)
    while after - before > _SECOND:
        middle = before + (after - before) // 2 // _SECOND * _SECOND
        if _offset(middle, tz) == old:
            before = middle
        else:
            after = middle
    return after


def _offset(moment: datetime, tz: ZoneInfo) -> timedelta:
    offset = moment.astimezone(tz).utcoffset()
    assert offset is not None
    return offset


def _is_shown(shown: datetime, tz: ZoneInfo) -> bool:
    return shown.replace(tzinfo=tz).astimezone(UTC).astimezone(tz).replace(tzinfo=None) == shown
