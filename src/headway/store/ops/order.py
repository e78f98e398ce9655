"""What decides when a job may start: trains, joins, groups, limits, fairness, reservations."""

from __future__ import annotations

from typing import Protocol

from headway.model.fleet import Swept
from headway.model.group import Group
from headway.model.job import (
    Job,
)
from headway.model.limit import Limit, Usage
from headway.model.reservation import Reservation
from headway.model.status import Status
from headway.model.train import Train
from headway.store.ops.recipe import Op


class Order(Protocol):
    def couple(self, *, limit: int) -> Op[int]:
        """Let go what arrived: cars whose train has no locomotive, jobs whose `after` are over, machines whose signals
        or children are there; and go on with what is done in pieces: the dependents of one job, the members of a group
        that stops, the cars of a train that is cleared. Claim and promote do it by themselves. Gives how many
        arrivals were looked at."""
        ...

    # trains; tenant_id None is the default tenant

    def hold_train(self, train: str, *, tenant_id: str | None, reason: str | None, actor: str | None) -> Op[None]:
        """Let no further car become the locomotive; one that is goes on to its end. Audited (job_id None)."""
        ...

    def resume_train(self, train: str, *, tenant_id: str | None, actor: str | None) -> Op[bool]:
        """End a hold and let the next car go; False if the train was not on hold. Audited."""
        ...

    def skip(self, job_id: str, *, tenant_id: str | None, actor: str | None) -> Op[Status | None]:
        """Take a car out of its train: one that waits ends canceled ("skipped") and, whatever its on_canceled says, the
        train goes on; for the finished car that put its train on hold, the hold ends. Gives its status after, or None
        if there is no such job. Raises `NotAllowed` for one that is running, or is not a car. Audited."""
        ...

    def clear_train(self, train: str, *, tenant_id: str | None, actor: str | None) -> Op[list[str]]:
        """Cancel every car of the train that is not running ("cleared") and end its hold; gives their ids. Many are
        canceled in pieces, and the train is on hold until that is done. Audited."""
        ...

    def trains(
        self, *, tenant_id: str | None, train: str | None, blocked: bool | None, limit: int, after: str | None
    ) -> Op[list[Train]]:
        """The trains that have unfinished cars or are on hold, in order of name and tenant id; `train` names one,
        `blocked` picks those on hold (or not), `after` is the name that the last page ended with. A page has all the
        trains of its last name, and so may have more than `limit`."""
        ...

    def cars(self, train: str, *, tenant_id: str | None, limit: int) -> Op[list[Job]]:
        """The unfinished cars of a train in their order, the locomotive first. tenant_id None is the default tenant."""
        ...

    def train_place(self, job_id: str) -> Op[tuple[int, str | None]]:
        """For a held car: how many unfinished cars of its train come before it (up to 10,000), and the locomotive."""
        ...

    def awaited(self, job_id: str, *, tenant_id: str | None) -> Op[list[tuple[str, Status | None]]]:
        """For a job with `after`: (id, status) of each job that it still waits for; status None: the row is gone."""
        ...

    def cancel_group(
        self, group_id: str, *, tenant_id: str | None, reason: str | None, actor: str | None
    ) -> Op[dict[str, Status] | None]:
        """Cancel the members that are not over, and the callback; answers like `cancel`; None if there is no such
        group. No member can be added from then on, until the group is retried. Many are canceled in pieces: the rest is
        answered as it is now. Audited."""
        ...

    def retry_group(self, group_id: str, *, tenant_id: str | None, actor: str | None) -> Op[list[str] | None]:
        """Retry the members that ended without having succeeded, each in its place (a sequential group goes on from the
        first of them), and let the callback wait for them again: it runs when they are over, also if it had run. Gives
        the ids of the members that will run; None if there is no such group. Audited."""
        ...

    def group(self, group_id: str, *, tenant_id: str | None) -> Op[Group | None]:
        """A group with the counts of its members (a failed at_most_once job is counted by the job that retries it)."""
        ...

    def set_limit(self, limit: Limit, *, actor: str | None) -> Op[None]:
        """Set the limit of a queue, kind or tenant as a whole (an empty one removes it), for the very next claim; what
        waited for a limit that is now wider may go. Audited (job_id None)."""
        ...

    def limits(self) -> Op[list[Limit]]:
        """What operators set, in order of scope and name."""
        ...

    def usage(self, key: str, *, tenant_id: str | None = None) -> Op[Usage]:
        """How many jobs (of this tenant) run under this limit key (see `model/limit.py`), and how many wait for it."""
        ...

    def set_fair(self, queue: str, fair: bool, *, actor: str | None) -> Op[None]:
        """Let the queue take tenants in turn, or not. Audited."""
        ...

    def reserve(self, queue: str, reservation_id: str, *, holder: str, expires_ms: int) -> Op[Reservation]:
        """Reserve the queue, if nobody else has it: once this returned, no claim of it commits until the reservation is
        given back or expires. Gives the reservation that stands: this one (again: renewed), or the other's."""
        ...

    def unreserve(self, queue: str, reservation_id: str) -> Op[bool]:
        """Give a reservation back; False if it had expired and another has the queue, or nobody."""
        ...

    def reservations(self) -> Op[list[Reservation]]:
        """The reservations that stand, in order of queue."""
        ...

    def running_in(self, queue: str) -> Op[int]:
        """How many jobs of the queue are running."""
        ...

    def sweep(self, *, limit: int) -> Op[Swept]:
        """Repair what an outside hand broke (a row deleted by SQL): trains with waiting cars that nothing will move,
        held jobs whose `after` are over or gone, waiting machines that have what they wait for, jobs aside for a limit
        that has room. Gives what it found; looks at
        up to `limit` trains and keys a call, going on where the last call stopped."""
        ...
