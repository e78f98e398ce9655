"""`headway serve`: the HTTP API."""

from __future__ import annotations

import dataclasses
import ipaddress
import os
import socket
from typing import TYPE_CHECKING, Any

import click

from headway.cli.program.click_classes import Command
from headway.cli.program.invocation import Invocation, pass_invocation
from headway.cli.program.server_packages import need_server_packages
from headway.cli.program.several import run_several
from headway.errors import ConfigError

if TYPE_CHECKING:
    from headway.api.serving.settings import ServerSettings
    from headway.app import Headway

_LISTENER_FD = "HEADWAY_LISTENER_FD"
"""The socket that the processes of --workers inherit."""
_SHARES_FD = "HEADWAY_SHARES_FD"
"""The file in which they tell each other how many connections each has."""


@click.command(cls=Command, short_help="Serve the HTTP API.")
@click.argument("named_app", metavar="[MODULE:APP]", required=False)
@click.option("--host", help="The address to listen on.  [default: 127.0.0.1]")
@click.option("--port", type=click.IntRange(0, 65_535), help="0: any free one.  [default: 8420]")
@click.option("--prefix", metavar="PATH", help="The path to serve everything under: /work.")
@click.option("--root-path", metavar="PATH", help="The path under which a proxy serves this, if the proxy strips it.")
@click.option("--workers", type=click.IntRange(1), help="How many processes.  [default: 1]")
@click.option("--tls-cert", type=click.Path(exists=True, dir_okay=False), help="The certificate, for TLS.")
@click.option("--tls-key", type=click.Path(exists=True, dir_okay=False), help="The certificate's private key.")
@click.option(
    "--trusted-proxy",
    "trusted_proxies",
    multiple=True,
    help="The address or network of a proxy whose X-Forwarded headers to believe; repeatable.",
)
@click.option("--allow-host", "hosts", multiple=True, help="A name under which this may be asked; repeatable.")
@click.option(
    "--tick/--no-tick",
    default=None,
    help="Also do what workers do for the fleet: fire schedules, queue what is due, prune.  [default: tick]",
)
@click.option("--metrics", metavar="ADDRESS", help="Where to answer Prometheus without a key: 127.0.0.1:9100.")
@pass_invocation
def serve(cli: Invocation, /, named_app: str | None, **options: Any) -> None:
    """Serve the HTTP API until SIGTERM or Ctrl-C; requests that are under way finish, within `grace`.

    Schedules fire, and what is due is queued, also where no worker runs. It needs none of your code: kinds are known
    from the definitions that workers have stored. With MODULE:APP it uses the database of that app. Every request needs
    a key: headway keys create. Without any key it listens on loopback only. Each option can be a line of the section
    [server] in headway.toml, or a variable: HEADWAY_SERVER_PORT.

    \b
    headway serve
    headway --url postgresql:///work serve --host 0.0.0.0 --tls-cert cert.pem --tls-key key.pem \\
        --allow-host work.example
    """
    cli.configure_logs()
    cli.app_spec = named_app or cli.app_spec
    settings = _settings(cli, options)
    from headway.api.serving.acceptor import Shares
    from headway.api.serving.server import check_certificate, listen
    from headway.api.serving.server import serve as run
    from headway.logs import get_logger

    check_certificate(settings)
    inherited = os.environ.pop(_LISTENER_FD, None)  # to a program started from here, the number is another file
    app = cli.app
    if settings.metrics is not None and (inherited is not None or settings.workers == 1):
        get_logger("headway.api").info("serving metrics", url=app.serve_metrics(settings.metrics))
    if inherited is not None:
        shares = Shares.inherited(int(os.environ.pop(_SHARES_FD)), int(os.environ["HEADWAY_PROCESS"]))
        listener = socket.socket(fileno=int(inherited))
        run(_api(app, settings), listener, grace_s=app.settings.grace_ms / 1_000, shares=shares)
        return
    _check_reach(cli, app, settings.host)
    if app.store.walls() == 1 and app.store.dialect == "postgres":
        cli.warn(
            "there is one wall between tenants, the server's own: with roles the database is a second one "
            f"({cli.typed('migrate', '--roles')})"
        )
    listener = listen(settings.host, settings.port)
    address, bound, *_ = listener.getsockname()
    shown = f"[{address}]" if ":" in address else address
    get_logger("headway.api").info(
        "serving",
        url=f"{'http' if settings.tls_cert is None else 'https'}://{shown}:{bound}{settings.prefix}",
        database=app.store.describe(),
        processes=settings.workers,
    )
    if settings.workers > 1:
        app.close()
        with Shares.file(settings.workers) as shared:
            fds = {_LISTENER_FD: listener.fileno(), _SHARES_FD: shared.fileno()}
            run_several(settings.workers, cli, "--workers", fds=fds)
    run(_api(app, settings), listener, grace_s=app.settings.grace_ms / 1_000)


def _settings(cli: Invocation, options: dict[str, Any]) -> ServerSettings:
    need_server_packages()
    from headway.api.serving.settings import server_settings

    given = {name: value for name, value in options.items() if value not in (None, ())}
    found = server_settings({**cli.settings.get("server", {}), **given})
    # of several processes the first: one is enough
    tick = found.tick is not False and os.environ.get("HEADWAY_PROCESS", "0") == "0"
    return dataclasses.replace(found, hosts=(*found.hosts, found.host.lower()), tick=tick)


def _api(app: Headway, settings: ServerSettings) -> Any:
    from headway.api import Api
    from headway.dashboard import Site

    return Api(app, settings, site=Site)


def _check_reach(cli: Invocation, app: Headway, host: str) -> None:
    """Without key and issuer, say how to make the first key; raise `ConfigError` where others could reach it."""
    from headway.api.access.oidc_settings import oidc_settings

    # both, and the keys first: a database that cannot be used, or a wrong setting, is told before it serves
    keys, issuer = app.api_keys(), oidc_settings(cli.settings.get("oidc", {}))
    if keys or issuer is not None:
        return
    make = cli.typed("keys", "create", "NAME", "--role", "superadmin")
    if not _is_loopback(host):
        raise ConfigError(
            f"nobody could ask: there is no key yet, so this does not listen on {host}. Make one first: {make}"
        )
    cli.warn(f"there is no key yet; make one: {make}")


def _is_loopback(host: str) -> bool:
    try:
        found = {each[4][0] for each in socket.getaddrinfo(host, None)}
    except OSError as error:
        raise ConfigError(f"--host {host} is not an address of this machine: {error}") from None
    return all(ipaddress.ip_address(address).is_loopback for address in found)
