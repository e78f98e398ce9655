"""Who asks: the holder of a key, or of a session's cookie."""

from __future__ import annotations

from starlette.requests import Request

from headway.api.access import Keys
from headway.api.sessions import Sessions
from headway.model.access import ApiKey


class Callers:
    """Finds who a request is from. A header wins over a cookie, which browsers send by themselves."""

    def __init__(self, keys: Keys, sessions: Sessions) -> None:
        self._keys = keys
        self._sessions = sessions

    async def check(self, request: Request) -> ApiKey:
        """The caller, with its rights; raises `Refused` with 401, or with 403 for a cookie that another site sent."""
        authorization = request.headers.get("authorization")
        if authorization is None and (key := await self._sessions.check(request)) is not None:
            return key
        return await self._keys.check(authorization)
