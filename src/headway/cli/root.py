"""The `headway` command: its subcommands, imported when they are used, and its exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from headway.cli.program.click_classes import LazyGroup
from headway.cli.program.failure import BROKEN_PIPE, report

# the sections of the help; each command is named like its module, and the value is the folder it is in
_SECTIONS = {
    "Run": {"demo": "demo", "dev": "dev", "worker": "fleet", "serve": "fleet", "enqueue": "jobs"},
    "Work": {
        "jobs": "jobs",
        "flows": "flows",
        "machines": "machines",
        "trains": "order",
        "groups": "order",
        "artifacts": "jobs",
    },
    "Work that starts itself": dict.fromkeys(("schedules", "triggers", "events", "templates"), "triggers"),
    "Kinds": {"definitions": "kinds", "commands": "kinds", "connectors": "connectors", "webhooks": "connectors"},
    "Access": {"keys": "access", "tenants": "access"},
    "Capacity": {"queues": "fleet", "limits": "order", "reservations": "fleet", "workers": "fleet"},
    "Care": {
        "overview": "care",
        "top": "care",
        "stats": "care",
        "errors": "care",
        "migrate": "care",
        "doctor": "doctor",
        "audit": "care",
        "prune": "care",
        "backup": "care",
        "transfer": "care",
        "completion": "care",
    },
}
_SHOWN = {name: f"headway.cli.{folder}.{name}:{name}" for names in _SECTIONS.values() for name, folder in names.items()}
_COMMANDS = {**_SHOWN, "help": "headway.cli.root:help_"}

_WIDEST = max(map(len, _SHOWN))


class Root(LazyGroup):
    """Exits with 0, 1 (it failed) or 2 (wrong usage), and prints one message if it fails."""

    def main(self, args: Sequence[str] | None = None, prog_name: str | None = None, *rest: Any, **extra: Any) -> Any:
        given = list(sys.argv[1:] if args is None else args)
        extra["standalone_mode"] = False
        try:
            code = super().main(given, prog_name or "headway", *rest, **extra)
        except (Exception, click.Abort) as error:
            code = report(error, given)
        sys.exit(code if isinstance(code, int) else 0)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        found = {name: self.get_command(ctx, name) for name in _SHOWN}
        limit = formatter.width - 6 - _WIDEST
        for section, names in _SECTIONS.items():
            with formatter.section(section):
                commands = ((name, found[name]) for name in names)
                # pad the names, so that the texts of all sections line up
                formatter.write_dl(
                    [(f"{name:<{_WIDEST}}", command.get_short_help_str(limit)) for name, command in commands if command]
                )

    def invoke(self, ctx: click.Context) -> Any:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
            return result
        except BrokenPipeError:
            # the reader of our output has closed it; keep the interpreter's last flush quiet too
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise click.exceptions.Exit(BROKEN_PIPE) from None


def _version(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    if value:
        import platform

        from headway.version import __version__

        click.echo(f"headway {__version__} (Python {platform.python_version()})")
        ctx.exit()


@click.group("headway", cls=Root, lazy=_COMMANDS)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_version,
    help="Show the version and exit.",
)
def main() -> None:
    """Headway: durable work for Python, on a SQLite file or on PostgreSQL.

    \b
    Try it:               headway demo
    Run an app's jobs:    headway worker myapp:app
    Enqueue by name:      headway enqueue welcome '{"user_id": 7}' --app myapp:app
    Look:                 headway jobs list --status dead
    Why is it stuck?      headway jobs why ID
    Check the setup:      headway doctor

    Settings come from flags, then from HEADWAY_* variables (HEADWAY_URL, HEADWAY_APP, …), then from
    headway.toml in the current folder.

    \b
    Every command uses the first database that is named by:
      1. --url
      2. the app's code, Headway("postgresql://…"), if an app is given
         (as MODULE:APP, or by --app, HEADWAY_APP or headway.toml)
      3. HEADWAY_URL
      4. url in headway.toml
      5. the file ./headway.db
    """


@click.command("help", hidden=True)
@click.argument("words", metavar="[COMMAND]...", nargs=-1)
@click.pass_context
def help_(ctx: click.Context, words: tuple[str, ...]) -> None:
    """Show the help of a command: headway help jobs list."""
    assert ctx.parent is not None
    found = ctx.parent
    for word in words:
        group = found.command
        if not isinstance(group, click.Group):
            raise click.UsageError(f"{found.command_path} has no commands", found)
        _, command, _ = group.resolve_command(found, [word])
        assert command is not None
        found = click.Context(command, found, word)
    click.echo(found.get_help())
