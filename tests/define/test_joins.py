"""Jobs that belong together: the edges of groups, and circles of `after`."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from headway.define.cycles import check_acyclic
from headway.define.groups import grouped
from headway.errors import InvalidJob
from headway.model.group import NewGroup
from headway.model.ids import new_id
from headway.model.job import NewJob
from tests.tenant_ids import tenant_id


def job(**fields: Any) -> NewJob:
    return NewJob(id=fields.pop("id", None) or new_id(), kind="work", **fields)


def make(jobs: list[NewJob], **options: Any) -> tuple[NewGroup, list[NewJob]]:
    return grouped(jobs, **{"mode": "parallel", "on_failure": "stop", "callback": None} | options)


def test_members_carry_the_group_and_the_callback_waits_for_them_all() -> None:
    jobs, last = [job(), job(), job()], job()
    group, batch = make(jobs, callback=last)
    assert group == NewGroup(id=group.id, tenant_id=last.tenant_id, callback_id=last.id)
    assert [each.id for each in batch] == [each.id for each in (*jobs, last)]
    assert [each.group_id for each in batch] == [group.id] * 3 + [None]
    assert [each.after for each in batch] == [(), (), (), tuple(each.id for each in jobs)]


def test_sequential_members_wait_for_each_other() -> None:
    jobs = [job(), job(), job()]
    group, batch = make(jobs, mode="sequential")
    assert (group.mode, group.callback_id) == ("sequential", None)
    assert [each.after for each in batch] == [(), (jobs[0].id,), (jobs[1].id,)]


@pytest.mark.parametrize(
    ("on_failure", "member", "callback"),
    [("stop", "stop", "stop"), ("continue", "continue", "continue"), ("skip", "continue", "stop")],
)
def test_what_a_failure_means_to_the_others(on_failure: str, member: str, callback: str) -> None:
    group, batch = make([job(), job()], mode="sequential", on_failure=on_failure, callback=job())
    assert group.on_failure == on_failure
    assert [each.on_failure for each in batch] == ["stop", member, callback]
    _, batch = make([job(), job()], on_failure=on_failure, callback=job())
    assert [each.on_failure for each in batch] == ["stop", "stop", callback]


def test_members_keep_an_after_of_their_own() -> None:
    first = new_id()
    jobs = [job(after=(first,)), job(after=(first,))]
    _, batch = make(jobs, mode="sequential", callback=job(after=(first,)))
    assert [each.after for each in batch] == [
        (first,),
        (first, jobs[0].id),
        (first, jobs[0].id, jobs[1].id),
    ]
    with pytest.raises(InvalidJob, match="a job has one on_failure, so give it the same"):
        make([job(), job(after=(first,))], mode="sequential", on_failure="continue")


def test_a_group_of_nothing_but_its_callback_runs_that() -> None:
    last = job()
    group, batch = make([], callback=last)
    assert (batch, group.callback_id) == ([last], last.id)


def test_what_cannot_be_a_group_is_refused() -> None:
    one = job()
    acme = job(tenant="acme", tenant_id=tenant_id("acme"))
    for jobs, options, message in (
        ([], {}, "a group needs at least one job"),
        ([one, one], {}, f"job {one.id} is in this group twice"),
        ([one], {"callback": one}, "is in this group twice"),
        ([job(group_id=one.id)], {}, "belongs to group .* already: a job has one group"),
        ([one, acme], {}, "a group has one tenant, and these have None and acme"),
        ([one], {"callback": acme}, "a group has one tenant"),
        ([one], {"mode": "serial"}, "mode='serial' is unknown: use 'parallel' or 'sequential'"),
        ([one], {"on_failure": "hold"}, "on_failure='hold' is unknown: use 'stop' or 'continue' or 'skip'"),
    ):
        with pytest.raises(InvalidJob, match=message):
            make(jobs, **options)


def test_a_circle_is_refused_with_its_ids() -> None:
    a, b, c, elsewhere = "a", "b", "c", "z"
    check_acyclic([job(id=a, after=(b, c)), job(id=b, after=(c,)), job(id=c, after=(elsewhere,))])
    check_acyclic([job(id=a), job(id=b)])
    with pytest.raises(InvalidJob, match=r"could ever run: a → b → c → a \(each waits for the next\)"):
        check_acyclic([job(id=a, after=(b,)), job(id=b, after=(elsewhere, c)), job(id=c, after=(a,)), job(id="d")])
    with pytest.raises(InvalidJob, match="a → a"):
        check_acyclic([job(id=a, after=(a,))])
    with pytest.raises(InvalidJob, match="b → c → b"):
        check_acyclic([job(id=a, after=(b,)), job(id=b, after=(c,)), job(id=c, after=(b,))])


def test_a_long_chain_is_no_circle() -> None:
    ids = [str(number) for number in range(20_001)]
    chain = [job(id=one, after=(next_,)) for one, next_ in pairwise(ids)]
    check_acyclic(chain)
    with pytest.raises(InvalidJob, match=r"0 → 1 → 2 → 3 → 4 → 5 → 6 → 7 → 8 → 9 → … "):
        check_acyclic([*chain, job(id=ids[-1], after=(ids[0],))])
