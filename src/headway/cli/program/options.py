"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from headway.cli.program.failure import Refused
from headway.cli.program.page_parts import brief
from headway.cli.program.params import JsonObject, Pair, Tenant

F = TypeVar("F", bound=Callable[..., Any])

MOST = 10_000
_TEXTS = (
    *("queue", "train", "partition", "concurrency_key", "rate_key"),
    *("idempotency_key", "unique_key", "correlation_id", "trace_id"),
)

tenant_option = click.option("--tenant", type=Tenant(), help="The tenant it belongs to. Default: that of the settings.")
limit_option = click.option(
    "--limit", type=click.IntRange(1, MOST), default=50, show_default=True, help="How many at most."
)
yes_option = click.option("--yes", "-y", is_flag=True, help="Do not ask.")
payload_option = click.option(
    "--payload", type=JsonObject(), metavar="JSON|@FILE|-", help="The arguments: a JSON object, @file, or - for stdin."
)
_option = click.option(
    "--option",
    "pairs",
    type=Pair(*_TEXTS),
    multiple=True,
    metavar="NAME=VALUE",
    help="An option of its jobs, as in headway enqueue: queue=mail, timeout=30s, max_attempts=3; repeatable.",
)
_options = click.option("--options", type=JsonObject(), metavar="JSON|@FILE", help="All options, as one JSON object.")
description_option = click.option("--description", help="What it is for.")


def job_options(fn: F) -> F:
    """Add --payload, --option, --options and --description."""
    for option in (description_option, _options, _option, payload_option):
        fn = option(fn)
    return fn


def run_options(fn: F) -> F:
    """Add --payload and --option."""
    return payload_option(_option(fn))


def options_of(given: dict[str, Any], over: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """What was given, --option and --options merged: --option overrides values of `over`, --options replaces it."""
    from headway.secrets import REDACTED

    pairs, whole = dict(given.pop("pairs", ())), given.pop("options", None)
    if isinstance(pairs.get("tags"), str):
        pairs["tags"] = pairs["tags"].split(",")
    if pairs and whole is None and REDACTED in brief(over or {}):
        # `over` was read with its secrets masked, so it must not be written back
        raise Refused("it has a secret option, which is not shown: give all options again, with --options")
    if pairs or whole is not None:
        given["options"] = {**(over or {} if whole is None else whole), **pairs}
    return given
