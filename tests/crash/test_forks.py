"""An app that was used before a fork works on in the parent, the child and the grandchild."""

from __future__ import annotations

from collections import Counter

from conftest import Ground


def test_an_app_survives_forks_of_its_process(ground: Ground) -> None:
    family = ground.fleet.script("fork")
    code = family.ended()
    assert ground.ledger.subjects("told") == []
    assert code == 0, family.tail()
    acknowledged = ground.ledger.subjects("acknowledged")
    # the parent used it before and after its fork, the child too, and the grandchild once: fifteen jobs each time
    assert len(acknowledged) == len(set(acknowledged)) == 5 * 15
    rows = ground.rows.jobs()
    assert rows.keys() == set(acknowledged)
    assert Counter(row["status"] for row in rows.values()) == {"succeeded": 75}
    assert Counter(ground.ledger.subjects("start")) == Counter(acknowledged)
    assert len({entry.pid for entry in ground.ledger.of("acknowledged")}) == 3
    assert ground.app.workers() == []
    ground.rows.check()
