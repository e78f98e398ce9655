"""Sessions of browsers: found by the hash of their secret until they end; workers forget them."""

from __future__ import annotations

from datetime import timedelta

from headway.model.access import Session

ONE, TWO = b"1" * 32, b"2" * 32


def test_a_session_lasts_while_it_is_used_and_not_for_ever(db):
    began, hour = db.now(), timedelta(hours=1)
    for secret_hash, key_id in ((ONE, "k1"), (TWO, "k2")):
        db.run(db.ops.create_session(secret_hash, key_id, expires_at=began + 3 * hour, valid_until=began + hour))
    assert db.run(db.ops.find_session(ONE)) == Session("k1", began, began + 3 * hour, began + hour)
    assert db.run(db.ops.find_session(b"3" * 32)) is None
    db.advance("50m")
    db.run(db.ops.extend_sessions({ONE: began + 2 * hour}))
    db.run(db.ops.extend_sessions({ONE: began + hour, b"3" * 32: began}))
    assert db.run(db.ops.prune_sessions(limit=5)) == 0
    db.advance("20m")
    assert db.run(db.ops.find_session(TWO)) is None, "it was not used"
    assert db.run(db.ops.find_session(ONE)).valid_until == began + 2 * hour
    db.run(db.ops.extend_sessions({ONE: began + 9 * hour}))
    assert db.run(db.ops.find_session(ONE)).valid_until == began + 3 * hour
    assert [db.run(db.ops.prune_sessions(limit=5)) for _ in range(2)] == [1, 0]
    db.run(db.ops.delete_session(ONE))
    assert db.run(db.ops.find_session(ONE)) is None
