"""`headway worker`: runs an app's jobs in this process, or in several."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from headway.cli.program.click_classes import Command
from headway.cli.program.invocation import Invocation, override, pass_invocation
from headway.cli.program.output import emit
from headway.cli.program.params import Duration
from headway.cli.program.several import run_several

if TYPE_CHECKING:
    from headway.app import Headway

Chosen = list[str] | dict[str, Any] | None


@click.command(cls=Command, kinds=True, short_help="Run the jobs of an app.")
@click.argument("app", metavar="MODULE:APP", required=False)
@click.option("--queues", metavar="NAMES", help="mail,report-* or mail=5,report-*=20. Default: those of the kinds.")
@click.option("--order", metavar="ORDER", help="Which queue first: turns (default), strict, or mail=3,report-*=1.")
@click.option("--concurrency", type=click.IntRange(1), help="How many jobs to run at a time. Default: 20.")
@click.option("--until-idle", is_flag=True, help="Exit when there is nothing left to do.")
@click.option("--processes", type=click.IntRange(1), default=1, help="How many worker processes. Default: 1.")
@click.option("--lease", type=Duration(), help="How long claims stay valid without a heartbeat. Default: 60s.")
@click.option("--heartbeat", type=Duration(), help="How often to renew the lease. Default: 20s.")
@click.option("--grace", type=Duration(), help="How long a stopping worker lets jobs finish. Default: 30s.")
@click.option("--reap-every", type=Duration(), help="How often to look for lost workers. Default: 30s.")
@click.option("--promote-every", type=Duration(), help="How often to look for due jobs. Default: 1s.")
@click.option("--sweep-every", type=Duration(), help="How often to repair broken trains and joins. Default: 5m.")
@click.option("--pace", type=Duration(), help="How often to poll a busy queue. Default: 25ms.")
@click.option("--idle-pace", type=Duration(), help="How often to poll an idle queue. Default: 100ms.")
@click.option("--metrics", metavar="ADDRESS", help="Where to answer Prometheus: 127.0.0.1:9100.")
@pass_invocation
def worker(
    cli: Invocation,
    /,
    app: str | None,
    queues: str | None,
    order: str | None,
    concurrency: int | None,
    until_idle: bool,
    processes: int,
    metrics: str | None,
    **settings: Any,
) -> None:
    """Run the jobs of an app until SIGTERM or Ctrl-C; a second one ends it at once.

    The app is imported from the current folder. APP is `app` if left out, and may be a Headway, a Registry, or a
    function that returns one. Without MODULE:APP it is --app,
    HEADWAY_APP, or `app` of headway.toml. Without any of them, the worker runs the commands and connectors of
    headway.toml.

    \b
    headway worker myapp:app
    headway worker myapp:app --queues mail=5,default=20 --processes 4
    headway worker myapp:app --queues 'mail,report-*,*' --order strict
    headway --url postgresql:///work worker myapp --queues mail --until-idle
    """
    from headway.cli.fleet.left_jobs import free_at_end
    from headway.logs import get_logger

    cli.configure_logs()
    cli.app_spec = app or cli.app_spec
    cli.warn = get_logger("headway.worker").warning
    chosen = parse_queues(queues if queues is not None else cli.settings.get("queues"))
    found = _prepared(cli, {**settings, "concurrency": concurrency})
    slots = found.settings.concurrency if concurrency is None and not isinstance(chosen, dict) else concurrency
    if processes > 1:
        found.close()
        run_several(processes, cli, "--processes")
    _warn_of_colons(chosen)
    if (address := metrics or cli.settings.get("metrics")) is not None:
        get_logger("headway.worker").info("serving metrics", url=found.serve_metrics(str(address)))
    summary = found.run(
        chosen, concurrency=slots, order=parse_order(order or cli.settings.get("order")), until_idle=until_idle
    )
    if cli.json:
        emit(dataclasses.asdict(summary))
    free_at_end(found)


def parse_queues(value: Any) -> Chosen:
    """`mail,report-*`, or `mail=5,report-*=20`, or what headway.toml has (a list or a table); raises `ConfigError`."""
    from headway.errors import ConfigError, InvalidJob
    from headway.model.served import served

    example = "write mail,default or, with slots for each, mail=5,default=20"
    if value is None:
        return None
    if isinstance(value, Mapping):
        parts = [(str(name), slots) for name, slots in value.items()]
    elif isinstance(value, list):
        parts = [(str(name), None) for name in value]
    else:
        parts = [_part(part, value, example) for part in str(value).split(",")]
    names = [name for name, _ in parts]
    for name, slots in parts:
        if not name:
            raise ConfigError(f"queues {value!r} has an empty name: {example}")
        if names.count(name) > 1:
            raise ConfigError(f"queues {value!r} names {name} twice: {example}")
        if slots is not None and (isinstance(slots, bool) or not isinstance(slots, int) or slots < 1):
            raise ConfigError(f"queues {value!r} gives {name} {slots!r} slots: give a whole number from 1")
    if not parts:
        raise ConfigError(f"queues {value!r} names no queue: {example}")
    if any(slots is None for _, slots in parts) and any(slots is not None for _, slots in parts):
        raise ConfigError(f"queues {value!r} gives slots to some queues only: give them to all or to none")
    chosen: list[str] | dict[str, Any] = names if parts[0][1] is None else dict(parts)
    try:
        served(chosen, total=1)
    except InvalidJob as error:
        raise ConfigError(f"queues {value!r}: {error}") from None
    return chosen


def parse_order(value: Any) -> Any:
    """`turns`, `strict`, or weights: `mail=3,report-*=1`, or a table of headway.toml; raises `ConfigError`."""
    from headway.errors import ConfigError

    if value is None:
        return "turns"
    if isinstance(value, Mapping) or "=" not in str(value):
        return value
    weights = dict(part.strip().split("=", 1) for part in str(value).split(",") if "=" in part)
    if len(weights) < len(str(value).split(",")) or not all(weight.isdigit() for weight in weights.values()):
        raise ConfigError(
            f"order {value!r} cannot be read: write turns, strict, or a weight for each: mail=3,report-*=1"
        )
    return {name: int(weight) for name, weight in weights.items()}


def _part(part: str, whole: str, example: str) -> tuple[str, int | None]:
    from headway.errors import ConfigError

    name, equals, slots = (piece.strip() for piece in part.partition("="))
    if not equals:
        return name, None
    if not slots.isdigit():
        raise ConfigError(f"queues {whole!r} gives {name} {slots!r} slots, not a whole number: {example}")
    return name, int(slots)


def _prepared(cli: Invocation, given: dict[str, Any]) -> Headway:
    """The app, ready to run: it has kinds, and its database exists. Otherwise raises one clear error."""
    from headway.errors import ConfigError

    found = cli.with_kinds
    override(found, None, given)
    if cli.spec is None and not found.kinds.names:
        raise click.UsageError(
            "which app? Give MODULE:APP, such as headway worker myapp:app, or set `app` in headway.toml; or declare "
            "commands or connectors there, which need no app"
        )
    if not found.kinds.names:
        raise ConfigError(
            f"{cli.spec} defines no kinds, so there is nothing to run: decorate functions with @app.job, "
            "and import the modules that do"
        )
    found.jobs(limit=1)
    return found


def _warn_of_colons(chosen: Chosen) -> None:
    from headway.logs import get_logger

    for name in chosen or ():
        if name.rpartition(":")[2].isdigit():
            get_logger("headway.worker").warning(
                f"queue {name} is taken as a name: for slots write {name.replace(':', '=')}"
            )
