"""The doctor: what is wrong with the database and the work in it, and how to fix it."""

from __future__ import annotations

import asyncio
from typing import Literal

import msgspec

from headway.api.call import Call
from headway.api.routes import SUPERADMINS, Routes
from headway.app.doctor.database import examine_database

routes = Routes("doctor")


class Check(msgspec.Struct):
    """One check: its result, in words, and how to fix it."""

    name: str
    status: Literal["ok", "note", "problem"]
    detail: str
    fix: str | None


class Examined(msgspec.Struct):
    ok: bool
    checks: list[Check]


@routes.get("/doctor", roles=SUPERADMINS, answers={200: Examined})
async def examine(call: Call[None, None]) -> Examined:
    """Check the database, the schema and everything else that work needs, in all tenants."""
    found = await asyncio.to_thread(lambda: list(examine_database(call.app, "default")))
    checks = [Check(each.name, each.status, each.detail, each.fix) for each in found]
    return Examined(not any(each.status == "problem" for each in checks), checks)
