"""`headway definitions`: what is stored about kinds; list, show, change, activate, deactivate, reset."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from headway.cli.program.click_classes import Group
from headway.cli.program.confirm import confirm
from headway.cli.program.failure import WRONG, Refused
from headway.cli.program.invocation import Invocation, actor, pass_invocation
from headway.cli.program.options import description_option, yes_option
from headway.cli.program.output import Cell, Column, at, emit, note, say, span, status, table
from headway.cli.program.page_parts import blocks, title, values
from headway.cli.program.params import Duration, JsonObject, taken_back

if TYPE_CHECKING:
    from headway.model.definition import Definition

_FIELDS = ("description", "schema", "timeout", "max_attempts", "queue", "enqueuer_may", "tenants")


@click.group(cls=Group, invoke_without_command=True, short_help="See what is stored about kinds, change it.")
@click.pass_context
def definitions(ctx: click.Context) -> None:
    """Look at what is stored about kinds, and change it for jobs enqueued from now on.

    Workers write it from their code when they start; a change made here stays until it is reset.

    \b
    headway definitions list
    headway definitions change welcome --timeout 30s --max-attempts 3
    headway definitions deactivate welcome
    headway definitions reset welcome
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_)


@definitions.command("list")
@pass_invocation
def list_(cli: Invocation) -> None:
    """List the stored kinds. CHANGED names the fields that no longer follow the code.

    \b
    headway definitions list --json | jq -r '.[] | select(.active | not) | .kind'
    """
    found = cli.existing.definitions()
    if cli.json:
        emit(found)
    elif not found:
        note(f"no definitions yet in {cli.app.store.describe()}: a worker writes those of its kinds when it starts")
    else:
        table(_COLUMNS, [_row(definition) for definition in found])


_COLUMNS = (
    Column("KIND", shrink=True),
    Column("STATE"),
    Column("QUEUE", shrink=True),
    Column("ATTEMPTS", right=True),
    Column("TIMEOUT", right=True),
    Column("SCHEMA"),
    Column("FROM", wide=90),
    Column("CHANGED", shrink=True, spare=True),
    Column("FOR", shrink=True, wide=110, spare=True),
)


def _row(definition: Definition) -> list[Cell]:
    return [
        definition.kind,
        status(_state(definition)),
        definition.queue,
        str(definition.max_attempts),
        _timeout(definition),
        "–" if definition.schema is None else "yes",
        definition.origin,
        (", ".join(_changed(definition)), "yellow"),
        definition.description,
    ]


@definitions.command()
@click.argument("kind")
@pass_invocation
def show(cli: Invocation, kind: str) -> None:
    """Show everything that is stored about one kind.

    \b
    headway definitions show welcome
    headway definitions show welcome --json | jq .schema
    """
    definition = cli.existing.get_definition(kind)
    if cli.json:
        emit(definition)
        return
    changed = _changed(definition)
    code = "the code" if definition.origin == "code" else "made here: no worker has declared it yet"
    title(definition.kind, status(_state(definition)))
    lines = [
        ("description", definition.description),
        ("queue", definition.queue),
        ("max_attempts", str(definition.max_attempts)),
        ("timeout", _timeout(definition)),
        ("tenants", "all" if definition.tenants is None else ", ".join(definition.tenants)),
    ]
    values(
        [
            *((name, f"{value}  (changed here)" if name in changed else value) for name, value in lines),
            (
                "keys",
                "made by its code: only a process with that code can enqueue it" if definition.needs_code else None,
            ),
            ("from", code),
            ("made", at(definition.created_at)),
            ("changed", at(definition.updated_at) if definition.updated_at != definition.created_at else None),
        ]
    )
    schema = "schema  (changed here)" if "schema" in changed else "schema"
    enqueuer_may = "enqueuer_may  (changed here)" if "enqueuer_may" in changed else "enqueuer_may"
    blocks({schema: definition.schema, enqueuer_may: definition.enqueuer_may or None, "policy": definition.policy})
    if not definition.active:
        note(f"new jobs of it are refused: {cli.typed('definitions', 'activate', kind)}")
    if changed and definition.origin == "code":
        note(f"to follow the code again: {cli.typed('definitions', 'reset', kind)}")


@definitions.command()
@click.argument("kind")
@description_option
@click.option("--queue", help="Where its jobs go.")
@click.option("--max-attempts", type=int, help="How many failures a job may have.")
@click.option("--timeout", type=Duration(none=True), help="How long an execution may take, or none.")
@click.option(
    "--schema", type=JsonObject("none"), metavar="JSON|@FILE|none", help="The JSON Schema of its payload, or none."
)
@click.option(
    "--enqueuer-may",
    type=JsonObject("none"),
    metavar="JSON|@FILE|none",
    help="The options that untrusted enqueuers may set, with their bounds, or none.",
)
@click.option(
    "--tenants",
    metavar="NAMES|none",
    help="The tenants whose jobs may be of it, by name or id, separated by commas, or none for all of them.",
)
@pass_invocation
def change(cli: Invocation, /, kind: str, **options: Any) -> None:
    """Change what is stored about a kind, for jobs enqueued from now on; what is not given stays.

    Every worker and every app picks it up within seconds. A kind that no worker has declared yet is created.

    \b
    headway definitions change welcome --timeout 30s --max-attempts 3
    headway definitions change welcome --schema @welcome.schema.json
    headway definitions change welcome --enqueuer-may '{"timeout": "5m", "queue": ["mail", "slow"]}'
    headway definitions change backup --tenants acme,globex
    """
    if options["tenants"] not in (None, "none"):
        options["tenants"] = [each.strip() for each in options["tenants"].split(",")]
    changes = taken_back(options, "timeout", "schema", "enqueuer_may", "tenants")
    if not changes:
        raise Refused(
            "there is nothing to change: give some of --description --queue --max-attempts --timeout --schema "
            "--enqueuer-may --tenants",
            WRONG,
        )
    changed = cli.app.change_definition(kind, actor=actor(), **changes)
    if cli.json:
        emit(changed)
        return
    say(f"{kind}: {', '.join(changes)} changed, for jobs from now on")
    if changed.origin != "code":
        note("no worker has declared this kind yet")


@definitions.command()
@click.argument("kinds", metavar="KIND...", nargs=-1, required=True)
@pass_invocation
def activate(cli: Invocation, kinds: tuple[str, ...]) -> None:
    """Accept new jobs of these kinds again.

    \b
    headway definitions activate welcome
    """
    _switch(cli, kinds, active=True)


@definitions.command()
@click.argument("kinds", metavar="KIND...", nargs=-1, required=True)
@pass_invocation
def deactivate(cli: Invocation, kinds: tuple[str, ...]) -> None:
    """Refuse new jobs of these kinds; existing ones still run.

    \b
    headway definitions deactivate welcome
    """
    _switch(cli, kinds, active=False)


def _switch(cli: Invocation, kinds: tuple[str, ...], *, active: bool) -> None:
    app = cli.existing
    known = {kind: app.get_definition(kind) for kind in kinds}  # check all before changing any
    switched = []
    for kind, before in known.items():
        was = before.active == active
        after = before if was else app.change_definition(kind, active=active, actor=actor())
        switched.append(after)
        refused = "" if active or was else "; new jobs of it are refused, existing ones still run"
        if not cli.json:
            say(f"{kind}: {'was ' if was else ''}{_state(after)}{' already' if was else ''}{refused}")
    if cli.json:
        emit(switched)


@definitions.command()
@click.argument("kind")
@click.argument("fields", nargs=-1, type=click.Choice(_FIELDS))
@pass_invocation
def reset(cli: Invocation, kind: str, fields: tuple[str, ...]) -> None:
    """Make changed fields of a kind follow the code again: these, or all.

    \b
    headway definitions reset welcome
    headway definitions reset welcome timeout queue
    """
    app = cli.existing
    before = app.get_definition(kind)
    changed = _changed(before)
    wanted = [field for field in changed if not fields or field in fields]
    after = app.change_definition(kind, reset=wanted, actor=actor()) if wanted else before
    if cli.json:
        emit(after)
    elif wanted:
        say(f"{kind}: {', '.join(wanted)} as the code has it again")
    else:
        which = ", ".join(fields) if fields else "nothing of it"
        say(f"{kind}: {which} was {'not ' if fields else ''}changed")


@definitions.command()
@click.argument("kind")
@yes_option
@pass_invocation
def delete(cli: Invocation, /, kind: str, yes: bool) -> None:
    """Delete a kind's definition and its changes; a worker that defines the kind writes it again when it starts.

    \b
    headway definitions delete welcome --yes
    """
    app = cli.existing
    app.get_definition(kind)
    if not yes:
        confirm(f"delete the definition of {kind}")
    app.delete_definition(kind, actor=actor())
    if cli.json:
        emit({"deleted": kind})
    else:
        say(f"{kind}: deleted")


def _state(definition: Definition) -> str:
    return "active" if definition.active else "inactive"


def _changed(definition: Definition) -> list[str]:
    """The changed fields, by their public names."""
    return ["timeout" if name == "timeout_ms" else name for name in definition.changed]


def _timeout(definition: Definition) -> str:
    return span(definition.timeout_ms) if definition.timeout_ms else "none"
