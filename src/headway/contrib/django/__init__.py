"""Headway for Django: an app on Django's database, a backend of Django Tasks, migrations and a management command."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headway.contrib.django.application import DjangoHeadway
    from headway.contrib.django.backend import HeadwayBackend

    app: DjangoHeadway

__all__ = ["HeadwayBackend", "app"]


def __getattr__(name: str) -> Any:
    """Made when first used: Django's settings must be there, and its apps loaded."""
    if name == "app":
        from headway.contrib.django.application import set_up, the_app

        set_up()
        return the_app()
    if name == "HeadwayBackend":
        from headway.contrib.django.backend import HeadwayBackend

        return HeadwayBackend
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
