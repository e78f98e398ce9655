"""Django's app: finds tasks, and keeps Headway's schema current with Django's migrations."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from django.apps import AppConfig
from django.db import connections
from django.db.models.signals import post_migrate
from django.utils.module_loading import autodiscover_modules

import headway
from headway.contrib.django.application import PREFIX, in_memory, the_app


class HeadwayConfig(AppConfig):
    name = "headway.contrib.django"
    label = "headway"
    verbose_name = "Headway"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        post_migrate.connect(migrate, sender=self, dispatch_uid="headway")
        autodiscover_modules("tasks")
        for module in the_app().imports:
            import_module(module)


def migrate(using: str, verbosity: int = 1, stdout: Any = None, **_: Any) -> None:
    """Bring Headway's schema to this library's version, in the database that holds the jobs."""
    if using != the_app().alias or in_memory(using):
        return
    connection = connections[using]
    on_sqlite = connection.vendor == "sqlite"
    if on_sqlite:
        with connection.cursor() as cursor:
            cursor.execute("pragma journal_mode = wal")
    done = headway.migrate(connection, prefix=PREFIX if on_sqlite else "")
    if verbosity:
        for each in done:
            print(f"  Headway: {each}", file=stdout)
