"""Headway over HTTP: the REST API."""

from headway.api.application import Api
from headway.app import Headway

__all__ = ["Api", "asgi"]


def asgi(app: Headway) -> Api:
    """The HTTP API of this app's database as an ASGI application, to serve or to mount in another one."""
    return Api(app)
