"""The dashboard: pages for people, made from the API's own answers and held to the API's own permissions."""

from typing import Unpack

from headway.api import Api
from headway.api.serving.settings import ServerOptions, server_settings
from headway.app import Headway
from headway.dashboard.site import Site

__all__ = ["Site", "asgi"]


def asgi(app: Headway, **settings: Unpack[ServerOptions]) -> Api:
    """The HTTP API and the dashboard of this app's database as an ASGI application, to mount in another one.

    Takes settings of the section [server] by name, as `hosts=["work.example"]`: they win over headway.toml. Raises
    `ConfigError`.
    """
    given = {name: value for name, value in settings.items() if value is not None}
    return Api(app, server_settings({**app._config.get("server", {}), **given}), site=Site)
