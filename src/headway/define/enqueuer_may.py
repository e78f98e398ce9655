"""The option `enqueuer_may`: which restricted options a kind lets untrusted enqueuers set, and within which bounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headway.define import checks
from headway.errors import InvalidJob
from headway.model.duration import to_ms
from headway.model.rate import parse_rate
from headway.model.restricted import RESTRICTED


def bounds(value: object, option: str = "enqueuer_may") -> dict[str, Any]:
    """The checked bounds, as they are stored: names of queues, milliseconds, [count, milliseconds], or True for any.

    >>> bounds({"timeout": "5m", "rate": "100/min", "partition": True})
    {'timeout': 300000, 'rate': [100, 60000], 'partition': True}
    """
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidJob(f"{option}={value!r} is not a mapping: give one like {{'timeout': '5m', 'queue': ['mail']}}")
    return {name: _bound(name, each, option) for name, each in value.items()}


def _bound(name: object, value: Any, option: str) -> Any:
    if not isinstance(name, str) or name not in RESTRICTED:
        raise InvalidJob(
            f"{option} has {name!r}, which is no restricted option: name some of {', '.join(RESTRICTED)}; "
            "enqueuers may always set the others"
        )
    what = f"{option} of {name}"
    match name:
        case _ if value is True:
            return True
        case "queue":
            if isinstance(value, str) or not isinstance(value, list | tuple | set | frozenset) or not value:
                raise InvalidJob(f"{what}={value!r} is not a list of queues: give one like ['mail'], or True for any")
            names = [checks.name(each, what) for each in value]
            return sorted(names) if isinstance(value, set | frozenset) else names
        case "timeout" if to_ms(value, what) > 0:
            return to_ms(value, what)
        case "concurrency":
            return checks.integer(value, what, 1, 1_000_000)
        case "rate":
            return list(parse_rate(value, what))
    raise InvalidJob(f"{what}={value!r} is no bound: give True, or leave {name} out")
