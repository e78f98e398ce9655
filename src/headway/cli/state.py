"""What the flags said, and the app that they mean."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from headway.app import Headway

F = TypeVar("F", bound=Callable[..., Any])
NO_APP = "none"


@dataclass
class State:
    """The flags of the whole program; everything behind them is read and opened when it is asked for."""

    url: str | None = None
    json: bool = False
    config: str | None = None
    log_level: str | None = None
    log_format: str | None = None

    @cached_property
    def settings(self) -> dict[str, Any]:
        """What variables and file say, with the flags over it; raises `ConfigError`."""
        from headway.config import read

        flags = {"url": self.url, "log_level": self.log_level, "log_format": self.log_format}
        return read() | {name: value for name, value in flags.items() if value is not None}

    @cached_property
    def app(self) -> Headway:
        """An app on the database, without kinds: what looking and operating needs."""
        from headway.app import Headway

        url = self.settings.get("url")
        if url is None and self.settings.get("app"):
            # the app that enqueue and worker use knows its database
            from headway.cli.load import load

            url = load(str(self.settings["app"]), None).url
        app = Headway(url)
        close_later(app)
        return app

    @property
    def existing(self) -> Headway:
        """The app, if its database is there: looking must not make an empty file in the wrong folder."""
        from headway.errors import StoreError

        store = self.app.store
        if store.dialect == "sqlite" and not os.path.exists(store.describe()):
            raise StoreError(
                f"there is no database file {store.describe()}: name another with --url, $HEADWAY_URL or headway.toml "
                "(a worker, whatever creates something, or headway migrate makes a new one)"
            )
        return self.app

    def with_kinds(self, spec: str | None, app_dir: str | None) -> Headway:
        """The app that a command or the settings name, with its kinds; else the one without. `none` means that too."""
        spec = spec or self.settings.get("app")
        existing = self.existing
        if spec in (None, NO_APP):
            return existing
        from headway.cli.load import load

        app = load(str(spec), app_dir)
        override(app, self.url, {})
        close_later(app)
        return app

    @property
    def tenant(self) -> str:
        """The tenant that is meant where none is named."""
        return str(self.settings.get("tenant") or "default")

    def typed(self, *args: str) -> str:
        """A command on the same database, as it would be typed here."""
        import shlex

        url = ["--url", self.url] if self.url else []
        return shlex.join([*program().split(), *url, *args])

    def configure_logs(self) -> None:
        """Take over this process's logging as the flags and settings say; raises `ConfigError`."""
        from headway.cli.command import FORMATS, LEVELS
        from headway.errors import ConfigError
        from headway.logs import configure

        level = str(self.settings.get("log_level", "info")).lower()
        form = str(self.settings.get("log_format", "auto")).lower()
        for name, value, choices in (("log_level", level, LEVELS), ("log_format", form, FORMATS)):
            if value not in choices:
                raise ConfigError(f"{name}={value!r} does not exist: use {', '.join(choices)}")
        configure(level, {"auto": None, "text": False, "json": True}[form])


def app_options(fn: F) -> F:
    """Add --app and --app-dir, as `spec` and `app_dir`: for what only the code of a kind can judge."""
    spec = click.option(
        "--app", "spec", metavar="MODULE:APP", help="The app that defines the kind, or none. Default: $HEADWAY_APP."
    )
    folder = click.option("--app-dir", type=click.Path(), help="Where the module is. Default: the current folder.")
    return spec(folder(fn))


pass_state = click.make_pass_decorator(State, ensure=True)


def program() -> str:
    """How this program was called, so that a command we print can be typed as it is."""
    import shutil
    import sys

    called = sys.argv[0]
    if os.path.basename(called) == "__main__.py":
        return "python -m headway"
    if os.path.basename(called) != "headway":
        return "headway"
    found = shutil.which("headway")
    return "headway" if found and os.path.realpath(found) == os.path.realpath(called) else called


def actor() -> str:
    """Who did it, for the audit trail: user@host."""
    import getpass
    import socket

    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # a user id without a name, as in some containers
        user = f"uid {os.getuid()}" if hasattr(os, "getuid") else "somebody"
    return f"{user}@{socket.gethostname()}"


def close_later(app: Headway) -> None:
    """Close the app's connections when the command ends, if it opened any."""
    click.get_current_context().find_root().call_on_close(lambda: app.close() if "_store" in app.__dict__ else None)


def override(app: Headway, url: str | None, given: Mapping[str, Any]) -> None:
    """Let the command line win over what the code that made this app says; raises `ConfigError`."""
    app.configure(url, **given)
