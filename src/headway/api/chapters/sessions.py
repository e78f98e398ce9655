"""Sessions: a browser logs in with a key, and has a cookie from then on."""

from __future__ import annotations

from datetime import datetime

import msgspec

from headway.api.call import Answer, Call
from headway.api.routes import EVERYBODY, Routes
from headway.api.wire.problems import Refused
from headway.model.access import ApiKey

routes = Routes("sessions")


class SessionMade(msgspec.Struct):
    """A new session; its secret is in the cookie alone."""

    key: ApiKey
    expires_at: datetime  # however much it is used
    valid_until: datetime  # later whenever it is used


class Who(msgspec.Struct):
    """Who asks."""

    key: ApiKey


@routes.post("/session", roles=EVERYBODY, answers={201: SessionMade}, problems=(422,))
async def begin_session(call: Call[None, None]) -> Answer:
    """Log in: begin a session of the key that is sent, and set its cookie."""
    if "authorization" not in call.headers or ":" in call.key.id:
        raise Refused(422, "a session begins with a key", fix="send Authorization: Bearer hw_…")
    made, cookie = await call.begin_session()
    return Answer(201, SessionMade(call.key, made.expires_at, made.valid_until), {"Set-Cookie": cookie})


@routes.get("/session", roles=EVERYBODY, answers={200: Who})
async def get_session(call: Call[None, None]) -> Who:
    """Show who asks, and with which rights."""
    return Who(call.key)


@routes.delete("/session", roles=EVERYBODY, answers={204: None})
async def end_session(call: Call[None, None]) -> Answer:
    """Log out: end the session of the cookie, and take the cookie away."""
    return Answer(204, None, {"Set-Cookie": await call.end_session()})
