"""`headway enqueue`: one job, by its kind's name."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, get_args

import click

from headway.cli.program.click_classes import Command
from headway.cli.program.invocation import Invocation, actor, pass_invocation
from headway.cli.program.output import emit, note
from headway.cli.program.params import SOURCES, Duration, JobId, JsonObject, Moment, Rate, Tenant, given
from headway.model.job import OnConflict
from headway.model.status import STATUSES

if TYPE_CHECKING:
    from headway.app import Headway

_ON_END = click.Choice(("advance", "hold"))


@click.command(cls=Command, kinds=True, short_help="Enqueue one job, print its id.")
@click.argument("kind")
@click.argument("payload", metavar="[JSON | @FILE | -]", required=False)
@click.option("--queue", help="Instead of the kind's queue.")
@click.option("--tenant", type=Tenant(), help="The tenant it belongs to.")
@click.option("--priority", type=int, help="Lower runs first. Default: 100.")
@click.option("--delay", type=Duration(), help="Run it no sooner than in 90s, 5m, 1h30m.")
@click.option("--scheduled-for", type=Moment(), help="Run it no sooner than 2026-01-31T09:30:00Z.")
@click.option("--expires-at", type=Moment(), help="Cancel it if it is not done by then.")
@click.option("--max-attempts", type=int, help="How many failures it may have. Default: 5.")
@click.option("--max-losses", type=int, help="How often it may be lost with its worker. Default: as --max-attempts.")
@click.option("--backoff", type=Duration(), help="The pause after the first failure, doubled after each. Default: 1s.")
@click.option("--timeout", type=Duration(), help="How long an execution may take.")
@click.option(
    "--delivery", type=click.Choice(("at_least_once", "at_most_once")), help="After a crash, run again or not."
)
@click.option("--train", metavar="KEY", help="Jobs of one train run one after another, in order.")
@click.option(
    "--on-canceled", type=_ON_END, help="If it is canceled, its train continues, or is put on hold. Default: advance."
)
@click.option("--on-dead", type=_ON_END, help="If it dies, its train continues, or is put on hold. Default: advance.")
@click.option("--partition", metavar="KEY", help="Jobs of one partition never run at the same time.")
@click.option("--concurrency", type=int, metavar="N", help="How many of its kind, or of its key, may run at once.")
@click.option("--concurrency-key", metavar="KEY", help="Count only jobs with this key.")
@click.option("--rate", type=Rate(), help="How many of its kind, or of its key, may start: 100/min, 5/2h.")
@click.option("--burst", type=int, metavar="N", help="How many of those may start at once. Default: all.")
@click.option("--rate-key", metavar="KEY", help="Count only jobs with this key.")
@click.option("--after", type=JobId(), multiple=True, metavar="ID", help="Wait for this job to end; repeatable.")
@click.option(
    "--on-failure",
    type=click.Choice(("stop", "continue")),
    help="If one of those does not succeed: end canceled, or run anyway. Default: stop.",
)
@click.option("--group", metavar="ID", help="Add it to this group.")
@click.option("--idempotency-key", metavar="KEY", help="One job per kind and key, until it is pruned.")
@click.option("--unique-key", metavar="KEY", help="One unfinished job per kind and key.")
@click.option("--unique-by", metavar="NAMES", help="Make the key of these arguments instead: user,region.")
@click.option("--unique-scope", metavar="STATUSES", help="The statuses in which the key is taken: queued,running.")
@click.option("--unique-for", type=Duration(), help="Take the key for at least this long, even if the job ends sooner.")
@click.option("--unique-group", metavar="NAME", help="Share the key with all kinds of this group.")
@click.option(
    "--on-conflict",
    type=click.Choice(get_args(OnConflict)),
    help="When the unique key is taken: return that job, fail, replace it if it never ran, or else follow it. "
    "Default: return.",
)
@click.option("--replace", metavar="NAMES", help="What to replace of it: payload,scheduled_for. Default: everything.")
@click.option("--debounce", type=Duration(), help="Run it this long after the last enqueue with its unique key.")
@click.option("--debounce-max", type=Duration(), help="At most this long after the first.")
@click.option("--correlation-id", metavar="ID", help="An id that related jobs share.")
@click.option("--trace-id", metavar="ID", help="The trace this belongs to.")
@click.option("--source", type=click.Choice(SOURCES), help="What caused it. Default: manual.")
@click.option("--source-ref", metavar="REF", help="What it was made from.")
@click.option("--created-by", metavar="WHO", help="Default: you, as user@host.")
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="Find it by this later; repeatable.")
@click.option("--meta", multiple=True, metavar="KEY=VALUE", help="Kept with the job; repeatable, or a JSON object.")
@pass_invocation
def enqueue(cli: Invocation, /, kind: str, payload: str | None, **options: Any) -> None:
    """Enqueue one job and print its id; it is durable once the id is printed.

    The payload is a JSON object of the function's parameters, @file, or - to read it from stdin. With --app, the
    code checks the arguments and the kind's own options apply (queue, attempts, timeout). Without it, what workers
    stored about the kind decides; a kind that no worker has declared is enqueued with the usual defaults.

    \b
    headway enqueue welcome '{"user_id": 7}' --app myapp:app
    headway enqueue welcome '{"user_id": 7}' --queue mail --delay 5m --unique-key w7
    headway enqueue welcome '{"user_id": 7}' --unique-key w7 --on-conflict replace --replace payload
    headway enqueue sync '{"dest": 42}' --train dest_42 --on-dead hold
    headway enqueue publish --after ID --after ID
    jq -c . order.json | headway enqueue bill - --json
    """
    body = _payload(payload)
    wanted = given(options)
    wanted["meta"] = _meta(wanted["meta"]) or None
    wanted["after"] = wanted["after"] or None
    wanted["tags"] = wanted["tags"] or None
    if "unique_scope" in wanted:
        wanted["unique_scope"] = _scope(wanted["unique_scope"])
    for option in ("unique_by", "replace"):
        if option in wanted:
            wanted[option] = [name.strip() for name in wanted[option].split(",")]
    if wanted.get("delay") is not None and wanted.get("scheduled_for") is not None:
        raise click.UsageError("--delay and --scheduled-for exclude each other: give one")
    app = _app(cli, kind)
    is_new = app.store.dialect == "sqlite" and not os.path.exists(app.store.describe())
    made = app.enqueue(kind, body, **({"created_by": actor()} | given(wanted)))
    if cli.json:
        emit(made)
        return
    click.echo(made.id)
    if is_new:
        note(f"made a new database, {app.store.describe()}")
    if made.replaced:
        note(f"this job existed already, and is {made.status}: it was replaced")
    elif not made.created:
        note(f"this job exists already, and is {made.status}: nothing new was enqueued")


def _app(cli: Invocation, kind: str) -> Headway:
    from headway.errors import UnknownKind

    app = cli.with_kinds
    if cli.spec is not None:
        try:
            app.kinds[kind]
        except UnknownKind as error:
            raise UnknownKind(f"{error}. To enqueue it by name anyway, add --app none") from None
    return app


def _payload(text: str | None) -> dict[str, Any]:
    if text is None:
        return {}
    if text == "-":
        if sys.stdin.isatty():
            note("reading the payload from the terminal: end with Ctrl-D")
        text = sys.stdin.read()
    try:
        found: dict[str, Any] = JsonObject().convert(text, None, click.get_current_context())
    except click.BadParameter as error:
        error.param_hint = "the payload"
        raise
    return found


def _meta(items: tuple[str, ...]) -> dict[str, Any]:
    meta: dict[str, Any] = {}
    for item in items:
        if item.lstrip().startswith("{"):
            meta |= JsonObject().convert(item, None, click.get_current_context())
            continue
        key, equals, value = item.partition("=")
        if not key or not equals:
            raise click.BadParameter(f"{item!r} is neither KEY=VALUE nor a JSON object", param_hint="--meta")
        meta[key] = value
    return meta


def _scope(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in STATUSES:
            raise click.BadParameter(
                f"{name!r} is no status: use some of {', '.join(STATUSES)}", param_hint="--unique-scope"
            )
    return names
