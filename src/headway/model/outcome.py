"""What a handler may raise to say how its execution ends: Retry, Snooze, Cancel."""

from __future__ import annotations

from datetime import timedelta

from headway.model.duration import Duration, to_ms


class Retry(Exception):
    """Fail this execution and try again, after `delay` or the usual backoff; charges a try.

    >>> Retry("5m", "rate limited").delay
    datetime.timedelta(seconds=300)
    """

    def __init__(self, delay: Duration | None = None, reason: str | None = None) -> None:
        super().__init__(delay, reason)
        self.delay = None if delay is None else _delay(delay)
        self.reason = reason

    def __str__(self) -> str:
        return self.reason or "the handler asked for a retry"


class Snooze(Exception):
    """Put the job off by `delay`; charges nothing."""

    def __init__(self, delay: Duration) -> None:
        super().__init__(delay)
        self.delay = _delay(delay)

    def __str__(self) -> str:
        return f"snoozed for {self.delay}"


class Cancel(Exception):
    """End the job `canceled`, without another try."""

    def __init__(self, reason: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return self.reason or "the handler canceled its job"


def _delay(value: Duration) -> timedelta:
    return timedelta(milliseconds=to_ms(value, "delay"))
