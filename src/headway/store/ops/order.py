"""What decides when a job may start: trains, joins, groups, limits, fairness, reservations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from headway.model.fleet import Swept
from headway.model.group import Group
from headway.model.job import Job, Waiter
from headway.model.limit import Limit, Usage
from headway.model.reservation import Reservation
from headway.model.status import Status
from headway.model.train import Train
from headway.store.ops.recipe import Op


class Order(Protocol):
    def process_arrivals(self, *, limit: int) -> Op[int]:
        """Process what arrived: start cars of trains that have no locomotive, queue or cancel jobs whose `after` are
        over, wake machines that have their signals or children; and go on with work that is done in pieces: the
        dependents of one job, the members of a group that stops, the cars of a train that is cleared. Claim and promote
        do this by themselves. Gives how many arrivals it took."""
        ...

    # trains; tenant_id None is the default tenant

    def hold_train(self, train: str, *, tenant_id: str | None, reason: str | None, actor: str | None) -> Op[None]:
        """Put a train on hold: no further car becomes its locomotive; one that is goes on to its end. Audited (job_id
        None)."""
        ...

    def resume_train(self, train: str, *, tenant_id: str | None, actor: str | None) -> Op[bool]:
        """End a hold, so that the next car may start; False if the train was not on hold. Audited."""
        ...

    def skip(self, job_id: str, *, tenant_id: str | None, actor: str | None) -> Op[Status | None]:
        """Take a car out of its train: one that waits ends canceled ("skipped"), and the train moves on whatever its
        on_canceled says; for the finished car that put its train on hold, the hold ends. Gives its status afterwards,
        or None if there is no such job. Raises `NotAllowed` for a running car, and for a job that is not a car.
        Audited."""
        ...

    def clear_train(self, train: str, *, tenant_id: str | None, actor: str | None) -> Op[list[str]]:
        """Cancel every car of the train that is not running ("cleared"), and end its hold; gives their ids. Many are
        canceled in pieces, and the train is on hold until that is done. Audited."""
        ...

    def trains(
        self, *, tenant_id: str | None, train: str | None, blocked: bool | None, limit: int, after: str | None
    ) -> Op[list[Train]]:
        """The trains that have unfinished cars or are on hold, in order of name and tenant id. `train` names one,
        `blocked` picks those on hold (or not), `after` is the last name of the previous page. A page has all trains of
        its last name, so it may have more than `limit`."""
        ...

    def cars(self, train: str, *, tenant_id: str | None, limit: int, raw: bool = False) -> Op[list[Job]]:
        """The unfinished cars of a train in their order, the locomotive first. tenant_id None is the default tenant."""
        ...

    def train_place(self, job_id: str) -> Op[tuple[int, str | None]]:
        """For a held car: how many unfinished cars of its train come before it (up to 10,000), and the locomotive."""
        ...

    def awaited(self, job_id: str, *, tenant_id: str | None) -> Op[list[tuple[str, Status | None]]]:
        """The (id, status) of each job that a job with `after` still waits for; status None if the row is gone."""
        ...

    def waiters(self, job_id: str, *, tenant_id: str | None, limit: int) -> Op[list[Waiter]]:
        """The jobs that wait for this one: those that come after it and machines that wait for it as their child, by
        id, then the held cars behind it in its train, in their order."""
        ...

    def cancel_group(
        self, group_id: str, *, tenant_id: str | None, reason: str | None, actor: str | None
    ) -> Op[dict[str, Status] | None]:
        """Cancel the members that are not over, and the callback; answers like `cancel`, or None if there is no such
        group. From then on no member can be added, until the group is retried. Many are canceled in pieces: the rest is
        answered as it was just before. Audited."""
        ...

    def retry_group(self, group_id: str, *, tenant_id: str | None, actor: str | None) -> Op[list[str] | None]:
        """Retry the members that did not succeed, each at its position (a sequential group goes on from the first of
        them), and make the callback wait for them again, even if it has run. Gives the ids of the members that will
        run; None if there is no such group. Audited."""
        ...

    def group(self, group_id: str, *, tenant_id: str | None) -> Op[Group | None]:
        """A group with the counts of its members; a failed at_most_once job is counted as the job that retries it."""
        ...

    def groups(self, *, tenant_id: str | None, limit: int, after: str | None) -> Op[list[Group]]:
        """Groups with the counts of their members, the newest first; `after` is the id of the last one of a page."""
        ...

    def set_limit(self, limit: Limit, *, actor: str | None) -> Op[None]:
        """Set the limit of a queue, kind or tenant as a whole (an empty one removes it), in force for the next claim;
        jobs set aside under the old limit try again. Audited (job_id None)."""
        ...

    def limits(self) -> Op[list[Limit]]:
        """The limits that operators set, in order of scope and name."""
        ...

    def usage(self, key: str, *, tenant_id: str | None = None) -> Op[Usage]:
        """How many jobs (of this tenant) run under this limit's key (see `model/limit.py`), and how many are set aside
        for it."""
        ...

    def usages(self, keys: Sequence[str]) -> Op[list[Usage]]:
        """The same of several keys, of all tenants, in their order."""
        ...

    def set_fair(self, queue: str, fair: bool, *, actor: str | None) -> Op[None]:
        """Let tenants of a queue take turns, as they do by default, or not. Audited."""
        ...

    def reserve(
        self, queue: str, reservation_id: str, *, holder: str, expires_ms: int, actor: str | None = None
    ) -> Op[Reservation]:
        """Reserve the queue, if nobody else has: once this returned, no claim from it commits until the reservation is
        given back or expires. Gives the reservation in force: this one (a repeat renews it), or somebody else's.
        Audited, as done by the actor, or else by the holder."""
        ...

    def unreserve(self, queue: str, reservation_id: str, *, actor: str | None = None) -> Op[bool]:
        """Give a reservation back; False if it is not in force any more."""
        ...

    def reservations(self) -> Op[list[Reservation]]:
        """The reservations in force, in order of queue."""
        ...

    def running_in(self, queue: str) -> Op[int]:
        """How many jobs of the queue are running."""
        ...

    def sweep(self, *, limit: int) -> Op[Swept]:
        """Repair what somebody broke by SQL, such as deleting a row: trains with waiting cars that nothing will move,
        held jobs whose `after` are over or gone, machines that have what they wait for, jobs set aside under a limit
        that has capacity. Gives what it found. Checks up to `limit` trains and keys per call, going on where the last
        call stopped."""
        ...
