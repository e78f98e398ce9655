"""Which queue a worker claims from next: each in turn, in strict order, or by weights."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from headway.model.served import Entry, Order


class Candidate(Protocol):
    """A queue, as far as its order matters: `full` and `woken` say that it is known to have work."""

    name: str
    full: bool
    woken: bool


class _Group:
    """The queues of one entry; they take turns."""

    def __init__(self, entry: Entry, queues: Sequence[Candidate]) -> None:
        self.weight = entry.weight
        self.queues = deque(queues)
        self.served = 0.0  # jobs divided by weight: the group with the least is next (start-time fair queueing)

    def ready(self, is_ready: Callable[[Candidate], bool]) -> Candidate | None:
        return next((queue for queue in self.queues if is_ready(queue)), None)

    def rotate(self, queue: Candidate) -> None:
        """Move the queue to the end of its group's line."""
        self.queues.remove(queue)
        self.queues.append(queue)

    @property
    def has_work(self) -> bool:
        return any(queue.full or queue.woken for queue in self.queues)


class QueueOrder:
    """Decides between queues that are ready for a claim; the first entry that matches a queue is its own."""

    def __init__(self, order: Order, groups: Sequence[tuple[Entry, Sequence[Candidate]]]) -> None:
        self.order = order
        made = [_Group(entry, queues) for entry, queues in groups if queues]
        if order == "turns" and made:
            # one group of all queues: they take turns, whichever entry they belong to
            made = [_Group(groups[0][0], [queue for _, queues in groups for queue in queues])]
        self._groups = made
        self._group_of = {queue.name: group for group in made for queue in group.queues}
        self._served = 0.0  # the `served` of the last group, before its claim
        self._asked: set[str] = set()  # strict order: queues found empty since the last claim that brought something

    def next(self, is_ready: Callable[[Candidate], bool], free: Callable[[str], int]) -> Candidate | None:
        """The queue to claim from now, or None if none is ready."""
        if self.order == "weights":
            groups: Iterator[_Group] = iter(sorted(self._groups, key=self._start))
        else:
            groups = iter(self._groups)
        before: list[Candidate] = []
        for group in groups:
            queue = group.ready(is_ready)
            if queue is None:
                before += group.queues
                continue
            if self.order == "strict":
                # a claim of this one might take the slots of an earlier one that has work since its last poll
                earlier = [each for each in before if each.name not in self._asked and free(each.name) > 0]
                queue = earlier[0] if earlier else queue
            self._group_of[queue.name].rotate(queue)
            return queue
        return None

    def most(self, name: str, free: int) -> int:
        """How many of the free slots a claim of this queue may take: by weights, its share among those with work."""
        if self.order != "weights":
            return free
        mine = self._group_of[name]
        others = sum(group.weight for group in self._groups if group is not mine and group.has_work)
        return math.ceil(free * mine.weight / (mine.weight + others))

    def claimed(self, name: str, count: int) -> None:
        """A claim of this queue brought this many jobs."""
        if self.order == "strict":
            if count:
                self._asked.clear()
            else:
                self._asked.add(name)
        elif self.order == "weights" and count and (mine := self._group_of.get(name)) is not None:
            self._served = self._start(mine)
            mine.served = self._served + count / mine.weight

    def _start(self, group: _Group) -> float:
        """What the group counts as served: one that was idle does not catch up on what the others got meanwhile."""
        return max(group.served, self._served)

    def is_first(self, name: str) -> bool:
        """Whether no other queue has precedence, so that a settle may claim from this one."""
        return self.order != "strict" or self._group_of.get(name) is self._groups[0]
