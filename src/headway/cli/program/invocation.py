"""One run of the program: its flags, and the app that they select."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import click

from headway.cli.program.output import note

if TYPE_CHECKING:
    from headway.app import Headway

F = TypeVar("F", bound=Callable[..., Any])
NO_APP = "none"


@dataclass
class Invocation:
    """The program's own flags; settings and app are read and opened when first used."""

    url: str | None = None
    app_spec: str | None = None
    app_dir: str | None = None
    json: bool = False
    config: str | None = None
    log_level: str | None = None
    log_format: str | None = None
    log_fields: str | None = None
    warn: Callable[[str], None] = note  # a worker logs instead

    @cached_property
    def settings(self) -> dict[str, Any]:
        """The environment and headway.toml, overridden by flags; raises `ConfigError`."""
        from headway.config import read

        flags = {"url": self.url} | {name: getattr(self, name) for name in ("log_level", "log_format", "log_fields")}
        return read() | {name: value for name, value in flags.items() if value is not None}

    @property
    def spec(self) -> str | None:
        """The MODULE:APP of --app, HEADWAY_APP or headway.toml; None if there is none."""
        spec = self.app_spec or self.settings.get("app")
        return None if spec in (None, NO_APP) else str(spec)

    @cached_property
    def app(self) -> Headway:
        """An app on the database, without kinds: enough to look and operate.

        Every command finds its database in this order: --url, the URL in the code of the named app, HEADWAY_URL,
        headway.toml, ./headway.db.
        """
        from headway.app import Headway

        if self.url is not None:
            app = Headway(self.url)  # no need to import the user's code
        elif self.spec is not None:
            app = Headway(self.code.url)
        else:
            self._mention({})
            app = Headway()
        close_later(app)
        return app

    @cached_property
    def code(self) -> Headway:
        """The named app from the user's code, on the database that the flags select; raises `ConfigError`."""
        from headway.cli.program.load_app import load

        assert self.spec is not None
        if self.url is not None:
            # for an app that reads its settings while its module is imported
            os.environ["HEADWAY_URL"] = self.url
        found = load(self.spec, self.app_dir)
        self._mention({"--url": self.url, self.spec: found._url})
        override(found, self.url, {})
        close_later(found)
        return found

    def _mention(self, named: Mapping[str, str | None]) -> None:
        """If several databases are named, say which one this uses and which it ignores."""
        from headway.app.database_url import same_database
        from headway.config import urls

        # an explicit --url needs no warning about the settings
        both = named if self.url else {**named, **urls()}
        (used, its_url), *others = [(source, url) for source, url in both.items() if url is not None] or [("", "")]
        for source, url in others:
            if not same_database(its_url, url):
                self.warn(f"this acts on the database that {used} names, not on the one of {source}")

    @property
    def existing(self) -> Headway:
        """The app, if its database exists: looking must not create an empty file in the wrong folder."""
        return _existing(self.app)

    @property
    def with_kinds(self) -> Headway:
        """The named app with its kinds; without one, the app that has none."""
        return self.app if self.spec is None else self.code

    @property
    def existing_with_kinds(self) -> Headway:
        return _existing(self.with_kinds)

    @property
    def tenant(self) -> str:
        """The tenant of commands that name none."""
        return str(self.settings.get("tenant") or "default")

    def typed(self, *args: str) -> str:
        """A command on the same database, as one would type it here."""
        from headway.secrets import show_url
        from headway.shell import quoted

        url = None if self.url is None else show_url(self.url)
        flags = {"--url": url, "--app": self.app_spec, "--app-dir": self.app_dir}
        given = [part for flag, value in flags.items() if value for part in (flag, value)]
        return quoted([*program().split(), *given, *args])

    def configure_logs(self) -> None:
        """Configure this process's logging from flags and settings; raises `ConfigError`."""
        from headway.cli.program.click_classes import FIELD_NAMES, FORMATS, LEVELS
        from headway.errors import ConfigError
        from headway.logs import configure

        level = str(self.settings.get("log_level", "info")).lower()
        form = str(self.settings.get("log_format", "auto")).lower()
        fields = str(self.settings.get("log_fields", "headway")).lower()
        given = (("log_level", level, LEVELS), ("log_format", form, FORMATS), ("log_fields", fields, FIELD_NAMES))
        for name, value, choices in given:
            if value not in choices:
                raise ConfigError(f"{name}={value!r} does not exist: use {', '.join(choices)}")
        configure(level, {"auto": None, "text": False, "json": True}[form], fields=fields)


pass_invocation = click.make_pass_decorator(Invocation, ensure=True)


def program() -> str:
    """How this program was started, so that people can run the commands we print."""
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

    from headway.model.actor import as_actor

    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # a user id without a name, as in some containers
        user = f"uid {os.getuid()}" if hasattr(os, "getuid") else "somebody"
    return as_actor(f"{user}@{socket.gethostname()}")


def close_later(app: Headway) -> None:
    """Close the app's connections when the command ends, if it opened any."""
    click.get_current_context().find_root().call_on_close(lambda: app.close() if "_store" in app.__dict__ else None)


def _existing(app: Headway) -> Headway:
    from headway.errors import StoreError

    store = app.store
    if store.is_absent:
        raise StoreError(
            f"there is no database file {store.describe()}: name another with --url, --app, HEADWAY_URL or "
            "headway.toml (a worker, whatever creates something, or headway migrate makes a new one)"
        )
    return app


def override(app: Headway, url: str | None, given: Mapping[str, Any]) -> None:
    """Let the command line's settings win over those in the app's code; raises `ConfigError`."""
    app.configure(url, **given)
