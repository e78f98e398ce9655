"""Points an app at another database for a while: apps are made at import, test databases later."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from headway.app import Headway

_OPENED = ("url", "_store", "_results", "_definitions")  # what an app keeps of its database once it was used


@contextmanager
def on_database(app: Headway, url: str) -> Iterator[Headway]:
    """Use the database of this URL for the app until the block ends, then its own again.

        @pytest.fixture(autouse=True)
        def database(headway_url):
            with on_database(shop.app, headway_url):
                yield

    `app.tenant(…)` objects follow, wherever they were made.
    """
    before = app._url, {name: app.__dict__.pop(name) for name in _OPENED if name in app.__dict__}
    app._url = url
    try:
        yield app
    finally:
        app.close()
        for name in _OPENED:
            app.__dict__.pop(name, None)
        app._url = before[0]
        app.__dict__.update(before[1])
