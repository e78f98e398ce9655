"""Imports what Headway's programs need, for a process that forks them: they start with it, in a third of the time."""

from __future__ import annotations

import gc
import pkgutil
from importlib import import_module

import headway

for _module in pkgutil.walk_packages(headway.__path__, "headway."):
    # the one needs pytest, the others the settings of a Django project
    if _module.name != "headway.testing.plugin" and not _module.name.startswith("headway.contrib."):
        import_module(_module.name)
for _name in ("apsw", "psycopg", "structlog", "uvloop"):  # which a worker imports when it starts
    import_module(_name)
gc.collect()
gc.set_threshold(10_000, 10, 10)  # as a worker would set it
gc.freeze()  # a collection would write to, and so copy, all pages that the forked processes share
