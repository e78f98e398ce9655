"""Headway over HTTP: the REST API."""

from typing import Unpack

from headway.api.application import Api
from headway.api.serving.settings import ServerOptions, server_settings
from headway.app import Headway

__all__ = ["Api", "asgi"]


def asgi(app: Headway, **settings: Unpack[ServerOptions]) -> Api:
    """The HTTP API of this app's database as an ASGI application, to mount in another one.

    Takes settings of the section [server] by name, as `hosts=["work.example"]`: they win over headway.toml. Raises
    `ConfigError`.
    """
    given = {name: value for name, value in settings.items() if value is not None}
    return Api(app, server_settings({**app._config.get("server", {}), **given}))
