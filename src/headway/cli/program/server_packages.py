"""Says at once what is missing for a server, before anything else is done."""

from __future__ import annotations

from importlib.util import find_spec

from headway.errors import ConfigError

# httptools: h11 is there in any case, but would wait for the head of a request for ever
_PACKAGES = ("starlette", "jinja2", "uvicorn", "httptools", "joserfc", "httpx2")


def need_server_packages() -> None:
    """Raises `ConfigError` if the packages of a server are not installed."""
    missing = [name for name in _PACKAGES if find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"the server's packages are not installed ({', '.join(missing)}): pip install 'headway-engine[server]'"
        )
