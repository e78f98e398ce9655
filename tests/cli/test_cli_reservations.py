"""`headway reservations`, on both stores."""

from __future__ import annotations

from typing import Any

from headway import Headway
from headway.model.ids import new_id


def test_a_queue_is_reserved_renewed_and_given_back(cli: Any, either: Headway) -> None:
    either.queues()
    assert "no queue is reserved" in cli("reservations").stderr
    made = cli.json("reservations", "make", "gpu", "--expires", "1h")
    assert made["queue"] == "gpu"
    again = cli.json("reservations", "make", "gpu", "--expires", "2h", "--id", made["id"])
    assert again["expires_at"] > made["expires_at"]
    assert "reserved by" in cli.refused("reservations", "make", "gpu", code=1)
    assert [each["id"] for each in cli.json("reservations", "list")] == [made["id"]]
    assert "gpu" in cli("reservations", "list").stdout
    assert cli.ok("reservations", "end", made["id"]) == "queue gpu is not reserved any more\n"
    for gone in (made["id"], new_id()):
        assert "there is no reservation" in cli.refused("reservations", "end", gone, code=1)
    assert either.reservations() == []
    assert "headway reservations end" in cli("reservations", "make", "mail").stderr
