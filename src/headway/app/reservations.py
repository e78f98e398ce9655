"""The verb that reserves a queue."""

from __future__ import annotations

from headway.app.aio.reservation import Reserved
from headway.app.base import VerbBase
from headway.app.reservation import EXPIRES
from headway.errors import NotAllowed
from headway.model.duration import Duration


class ReservationVerbs(VerbBase):
    def reserve(
        self,
        queue: str,
        *,
        expires: Duration = EXPIRES,
        timeout: Duration | None = None,
        drain: bool = False,
        holder: str | None = None,
    ) -> Reserved:
        """Have a queue to oneself: `with app.reserve("gpu"):`, or `async with`. Inside, no worker claims from it.

        Jobs that run there go on; `drain=True` waits for them. If somebody else has the queue it waits for up to
        `timeout` (None: not at all) and raises `ReservationBusy`. It is renewed while it is held, given back at the end
        of the block, and `expires` after a crash. `run_now` runs a job inside.
        """
        if self._is_narrow:
            raise NotAllowed(
                "queues are shared by all tenants: reserve a queue with the app itself, not for one tenant"
            )
        return Reserved(self._whole, self._wake, queue, expires=expires, timeout=timeout, drain=drain, holder=holder)
