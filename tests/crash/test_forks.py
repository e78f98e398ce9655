"""An app in full use when its process forks works on in the parent, its children and their children."""

from __future__ import annotations

from collections import Counter

from tests.crash.crash_site import Ground


def test_an_app_survives_forks_of_its_process(ground: Ground) -> None:
    family = ground.fleet.script("fork")
    code = family.ended()
    assert ground.ledger.subjects("told") == []
    assert code == 0, family.tail()
    acknowledged = ground.ledger.subjects("acknowledged")
    assert len(acknowledged) == len(set(acknowledged))
    rows = ground.rows.jobs()
    assert rows.keys() == set(acknowledged)
    assert Counter(row["status"] for row in rows.values()) == {"succeeded": len(acknowledged)}
    assert Counter(ground.ledger.subjects("start")) == Counter(acknowledged)
    # itself, three children and a child of each
    assert len({entry.pid for entry in ground.ledger.of("acknowledged")}) == 7
    assert ground.app.workers() == []
    ground.rows.check()
