"""An app in full use when its process forks works on in the parent, its children and their children."""

from __future__ import annotations

from collections import Counter

from tests.crash.crash_site import CrashSite


def test_an_app_survives_forks_of_its_process(site: CrashSite) -> None:
    family = site.fleet.script("fork")
    code = family.ended()
    assert site.ledger.subjects("told") == []
    assert code == 0, family.tail()
    acknowledged = site.ledger.subjects("acknowledged")
    assert len(acknowledged) == len(set(acknowledged))
    rows = site.rows.jobs()
    assert rows.keys() == set(acknowledged)
    assert Counter(row["status"] for row in rows.values()) == {"succeeded": len(acknowledged)}
    assert Counter(site.ledger.subjects("start")) == Counter(acknowledged)
    # itself, three children and a child of each
    assert len({entry.pid for entry in site.ledger.of("acknowledged")}) == 7
    assert site.app.workers() == []
    site.rows.check()
