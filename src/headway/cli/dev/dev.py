"""`headway dev`: the worker, the API and the dashboard of an app, started again whenever its code changes."""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import socket
import sys
import webbrowser
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from headway.cli.program.click_classes import Command
from headway.cli.program.invocation import Invocation, pass_invocation
from headway.cli.program.server_packages import need_server_packages
from headway.errors import HeadwayError

if TYPE_CHECKING:
    from headway.app import Headway

_LISTENER_FD = "HEADWAY_LISTENER_FD"
_LINK = "HEADWAY_DEV_LINK"  # the server's process is told the token of the link, and the key that it logs in with;
# one that was started again has another link: the first may have been used
_KEY = "HEADWAY_DEV_KEY"
_GRACE = "2s"  # nobody who has just changed a line wants to wait for the jobs of the old one
_KEY_LASTS = timedelta(days=1)


@click.command(cls=Command, kinds=True, short_help="Work on an app: worker, API and dashboard at once.")
@click.argument("app", metavar="MODULE:APP", required=False)
@click.option("--port", type=click.IntRange(0, 65_535), default=8420, help="0: any free one.  [default: 8420]")
@click.option("--open/--no-open", "opens", default=True, help="Open the dashboard in the browser.")
@click.option("--reload/--no-reload", default=True, help="Start again when a Python file changes.")
@pass_invocation
def dev(cli: Invocation, /, app: str | None, port: int, opens: bool, reload: bool) -> None:
    """Run an app's jobs, its HTTP API and its dashboard on this machine, until Ctrl-C.

    Creates the database if there is none, prints a link that logs in once, and starts the worker and the server again
    when a Python file of the current folder changes. For a server that others use, see headway worker and serve.

    \b
    headway dev myapp:app
    headway dev myapp:app --port 0 --no-open
    """
    cli.app_spec = app or cli.app_spec
    if cli.spec is None:
        raise click.UsageError("which app? Give MODULE:APP, such as headway dev myapp:app")
    if _LINK in os.environ:
        _serve(cli)
        return
    need_server_packages()
    cli.code.migrate()
    run(cli, port=port, opens=opens, reload=reload)


def run(
    cli: Invocation,
    *,
    port: int,
    opens: bool,
    reload: bool,
    flags: Sequence[str] = (),
    worker_flags: Sequence[str] = (),
) -> None:
    """The processes of the named app, until they are asked to end; `flags` are those of the program for both."""
    from headway.api.serving.server import listen
    from headway.cli.dev.processes import Processes
    from headway.cli.dev.watched_files import WatchedFiles

    code = cli.code
    assert cli.spec is not None
    with contextlib.closing(listen("127.0.0.1", port)) as listener, _dev_key(code) as key:
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        click.echo(f"database   {code.store.describe()}")
        code.close()
        to_open = [_open] if opens else []

        def with_link() -> dict[str, str]:
            token = secrets.token_urlsafe(24)
            link = f"{address}/login/once?token={token}"
            click.echo(f"dashboard  {link}  (works once)")
            while to_open:
                to_open.pop()(link)
            return {_LISTENER_FD: str(listener.fileno()), _LINK: token, _KEY: key}

        own = [*flags, *(("--url", cli.url) if cli.url else ()), *(("--app-dir", cli.app_dir) if cli.app_dir else ())]
        processes = Processes(
            worker=[*own, "worker", cli.spec, "--grace", _GRACE, *worker_flags],
            server=[*own, "dev", cli.spec],
            server_env=with_link,
            server_fds=(listener.fileno(),),
        )
        raise click.exceptions.Exit(processes.run(WatchedFiles(cli.app_dir or os.curdir) if reload else None))


@contextlib.contextmanager
def _dev_key(code: Headway) -> Any:
    """The text of a key that is valid while this runs, or at most a day if it is killed."""
    made = code.create_api_key("headway dev", "superadmin", expires=_KEY_LASTS, actor="headway dev")
    url = code.url
    try:
        yield made.text
    finally:
        from headway.app import Headway

        with contextlib.closing(Headway(url)) as again:
            try:
                again.revoke_api_key(made.key.id, actor="headway dev")
            except HeadwayError as error:
                click.echo(f"key {made.key.id} could not be revoked, and is valid for a day: {error}", err=True)


def _serve(cli: Invocation) -> None:
    """The server's process: with the app's code, so that machines have their graphs."""
    cli.configure_logs()
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)  # the person who started it knows that it started
    logging.getLogger("headway.api").addFilter(_is_news)
    from headway.api import Api
    from headway.api.serving.server import serve
    from headway.dashboard import Site

    token, key = os.environ.pop(_LINK), os.environ.pop(_KEY)

    def site(api: Api) -> Site:
        made = Site(api)
        made.let_in_once(token, key)
        return made

    listener = socket.socket(fileno=int(os.environ.pop(_LISTENER_FD)))
    serve(Api(cli.code, site=site), listener, grace_s=1.0)


def _is_news(record: logging.LogRecord) -> bool:
    """Open pages ask all the time: of requests, those that were refused or failed are worth a line among the jobs'."""
    fields = getattr(record, "headway", {})
    return bool(fields.get("event") != "request" or fields.get("status", 500) >= 400)


def _open(link: str) -> None:
    """Where there is a screen: a browser in the terminal would take it over."""
    if sys.platform in ("darwin", "win32") or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        with contextlib.suppress(webbrowser.Error):
            webbrowser.open(link)
