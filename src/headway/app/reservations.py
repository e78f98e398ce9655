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
        """Hold a queue exclusively: `with app.reserve("gpu"):`, or `async with`. No worker claims from it meanwhile.

        Jobs that are running there go on; `drain=True` waits for them to end. If somebody else holds the queue, this
        waits for up to `timeout` (None: not at all), then raises `ReservationBusy`. It is renewed while held, released
        at the end of the block, and expires after `expires` if the process crashes. `run_now` runs a job inside it.
        """
        if self._is_for_one_tenant:
            raise NotAllowed(
                "queues are shared by all tenants: reserve a queue with the app itself, not for one tenant"
            )
        return Reserved(
            self._whole_store, self._wake, queue, expires=expires, timeout=timeout, drain=drain, holder=holder
        )
