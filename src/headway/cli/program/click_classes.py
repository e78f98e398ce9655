"""Click classes: commands and groups that accept the program's own flags anywhere, and groups that import lazily."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click

from headway.cli.program.invocation import Invocation

LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("auto", "text", "json")
FIELD_NAMES = ("headway", "jobforge", "zoltag")
"""Those of `logs.FIELDS`, which need not be imported for it."""
# for each command: one that is made without its group, as in a test, would keep the help option of its own
_HELP = {"help_option_names": ["-h", "--help"]}


def _take(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    cli = ctx.ensure_object(Invocation)
    if value not in (None, False):
        assert param.name is not None
        setattr(cli, param.name, value)
        if param.name == "config":
            # so that the user's app and a worker's processes read the same file
            os.environ["HEADWAY_CONFIG"] = os.path.abspath(value)


def _shared(hidden: bool, kinds: bool = False) -> list[click.Option]:
    """The program's own flags. Every command accepts them, but its help shows only --json.

    `kinds` also shows those that name an app, for commands that need a kind's code to check their arguments.
    """
    # eager: converting an argument may need the database
    quiet: dict[str, Any] = {"expose_value": False, "callback": _take, "hidden": hidden, "is_eager": True}
    return [
        click.Option(["--url"], metavar="URL", help="The database: sqlite:///file.db or postgresql://…", **quiet),
        click.Option(
            ["--app", "app_spec"],
            metavar="MODULE:APP",
            help="The app: its database and its kinds; or none. Default: HEADWAY_APP.",
            **quiet | {"hidden": hidden and not kinds},
        ),
        click.Option(
            ["--app-dir"],
            type=click.Path(),
            help="Where the app's module is. Default: the current folder.",
            **quiet | {"hidden": hidden and not kinds},
        ),
        click.Option(
            ["--config"],
            type=click.Path(exists=True, dir_okay=False),
            help="The settings file, instead of ./headway.toml.",
            **quiet,
        ),
        click.Option(["--log-level"], type=click.Choice(LEVELS, case_sensitive=False), help="Default: info.", **quiet),
        click.Option(
            ["--log-format"],
            type=click.Choice(FORMATS, case_sensitive=False),
            help="Default: auto, which is text on a terminal and JSON elsewhere.",
            **quiet,
        ),
        click.Option(
            ["--log-fields"],
            type=click.Choice(FIELD_NAMES, case_sensitive=False),
            help="What log lines call their fields. Default: headway.",
            **quiet,
        ),
        click.Option(
            ["--json"],
            is_flag=True,
            help="Answer with JSON, for programs.",
            expose_value=False,
            callback=_take,
            is_eager=True,
        ),
    ]


class Command(click.Command):
    """A command that also accepts the program's own flags."""

    def __init__(self, *args: Any, kinds: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, **{"context_settings": _HELP, **kwargs})
        self.params += _shared(hidden=True, kinds=kinds)


class Group(click.Group):
    """The commands of one noun; for an unknown name it suggests similar ones."""

    command_class = Command
    hides_flags = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"context_settings": _HELP, **kwargs})
        self.params += _shared(self.hides_flags)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if self.get_command(ctx, name) is None and not ctx.resilient_parsing and not name.startswith("-"):
            known = self.list_commands(ctx)
            close = difflib.get_close_matches(name, known, 2)
            hint = f"did you mean {' or '.join(close)}?" if close else f"there are {', '.join(known)}"
            raise click.UsageError(f"{ctx.command_path} has no command {name!r}: {hint}", ctx)
        return super().resolve_command(ctx, args)


class LazyGroup(Group):
    """A group that imports a command's module when it is used, and keeps the commands in their order."""

    hides_flags = False

    def __init__(self, *args: Any, lazy: Mapping[str, str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._lazy = lazy

    def list_commands(self, _ctx: click.Context) -> list[str]:
        return list(self._lazy)

    def get_command(self, _ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._lazy:
            return None
        module, _, name = self._lazy[cmd_name].partition(":")
        command = getattr(import_module(module), name)
        assert isinstance(command, click.Command)
        return command
