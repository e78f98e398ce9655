"""`headway serve`: the HTTP API."""

from __future__ import annotations

import ipaddress
import socket
from typing import Any

import click

from headway.cli.program.click_classes import Command
from headway.cli.program.invocation import Invocation, pass_invocation
from headway.errors import ConfigError


@click.command(cls=Command, short_help="Serve the HTTP API.")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=8420,
    show_default=True,
    envvar="HEADWAY_PORT",
    help="0: any free one.",
)
@click.option("--root-path", default="", help="The path under which a proxy serves this.")
@click.option("--tls-cert", type=click.Path(exists=True, dir_okay=False), help="The certificate, for TLS.")
@click.option("--tls-key", type=click.Path(exists=True, dir_okay=False), help="The certificate's private key.")
@click.option(
    "--trusted-proxy", "proxies", multiple=True, help="The address of a proxy whose X-Forwarded headers to believe."
)
@pass_invocation
def serve(
    cli: Invocation,
    /,
    host: str,
    port: int,
    root_path: str,
    tls_cert: str | None,
    tls_key: str | None,
    proxies: tuple[str, ...],
) -> None:
    """Serve the HTTP API until SIGTERM or Ctrl-C.

    It needs none of your code: kinds are known from the definitions that workers have stored. Whoever asks needs a
    key: headway keys create. Without any key it listens on loopback only.

    \b
    headway serve
    headway --url postgresql:///work serve --host 0.0.0.0 --tls-cert cert.pem --tls-key key.pem
    """
    cli.configure_logs()
    if (tls_cert is None) != (tls_key is None):
        raise click.UsageError("--tls-cert and --tls-key go together")
    from headway.logs import get_logger

    api, uvicorn = _imported()
    app = cli.app
    if not app.api_keys():
        if not _is_loopback(host):
            raise ConfigError(
                f"nobody could ask: there is no key yet, so this does not listen on {host}. "
                f"Make one first: {cli.typed('keys', 'create', 'NAME', '--role', 'superadmin')}"
            )
        cli.warn(f"there is no key yet; make one: {cli.typed('keys', 'create', 'NAME', '--role', 'superadmin')}")
    listener = _listener(host, port)
    config = uvicorn.Config(
        api(app),
        root_path=root_path,
        ssl_certfile=tls_cert,
        ssl_keyfile=tls_key,
        proxy_headers=bool(proxies),
        forwarded_allow_ips=list(proxies) or None,
        log_config=None,
        access_log=False,  # the API writes its own, with key and request id
        server_header=False,
        timeout_graceful_shutdown=30,
        h11_max_incomplete_event_size=65_536,
    )
    address, bound, *_ = listener.getsockname()
    shown = f"[{address}]" if ":" in address else address
    get_logger("headway.api").info(
        "serving",
        url=f"{'http' if tls_cert is None else 'https'}://{shown}:{bound}{root_path}",
        database=app.store.describe(),
    )
    uvicorn.Server(config).run(sockets=[listener])


def _imported() -> Any:
    try:
        import uvicorn

        from headway.api import Api
    except ImportError as error:
        raise ConfigError(f"the server's packages are not installed ({error}): pip install 'headway[server]'") from None
    return Api, uvicorn


def _listener(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise ConfigError(f"cannot listen on {host}, port {port}: {error}") from None


def _is_loopback(host: str) -> bool:
    try:
        found = {each[4][0] for each in socket.getaddrinfo(host, None)}
    except OSError as error:
        raise ConfigError(f"--host {host} is not an address of this machine: {error}") from None
    return all(ipaddress.ip_address(address).is_loopback for address in found)
