"""The audit's chain is whole, whatever is killed while it is sealed or pruned."""

from __future__ import annotations

from tests.crash.crash_site import CrashSite
from tests.crash.killed_seals import MOST_STATEMENTS


def test_a_kill_within_a_seal_or_a_prune_leaves_a_whole_chain_and_loses_no_entry(site: CrashSite) -> None:
    process = site.fleet.script(program="killed_seals")
    assert process.ended(within=60) == 0, process.tail()
    ended = [subject.split(",") for subject in site.ledger.subjects("ended")]
    assert len(ended) == 2 * MOST_STATEMENTS
    assert {("seal", "0", "-9"), ("prune", "0", "-9"), ("seal", str(MOST_STATEMENTS - 1), "0")} <= {
        tuple(each) for each in ended
    }, ended
    check = site.app.verify_audit()
    assert check.faults == ()
    # pruned are only entries that were sealed
    pruned = 2 * MOST_STATEMENTS - len(site.app.audit_log(limit=100))
    assert pruned + check.entries + check.unsealed == 2 * MOST_STATEMENTS == len(site.ledger.subjects("written"))
    assert check.unsealed <= 2 * MOST_STATEMENTS - pruned
    site.app.seal_audit()
    assert (site.app.verify_audit().faults, site.app.verify_audit().unsealed) == ((), 0)
    assert site.app.verify_audit(seal=check.newest).is_whole
