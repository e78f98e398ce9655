"""The trace of a job: what came with it, or its own id."""

from __future__ import annotations

import pytest

from headway.model.trace import carried, is_traceparent, trace_id, traceparent, tracestate

JOB = "01890a5d-ac96-774b-bcce-b302099a8057"
OWN = JOB.replace("-", "")
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"


@pytest.mark.parametrize(
    ("given", "trace", "parent", "state"),
    [
        (None, OWN, f"00-{OWN}-{OWN[16:]}-01", None),
        (PARENT, PARENT[3:35], PARENT, None),
        (f"{PARENT} vendor=1,other=2", PARENT[3:35], PARENT, "vendor=1,other=2"),
        ("cc" + PARENT[2:] + "-later", PARENT[3:35], "cc" + PARENT[2:] + "-later", None),  # of a version to come
        (OWN[::-1], OWN[::-1], f"00-{OWN[::-1]}-{OWN[16:]}-01", None),
        ("request 7", "request 7", f"00-{OWN}-{OWN[16:]}-01", None),  # not W3C: programs get the job's own
        ("0" * 32, "0" * 32, f"00-{OWN}-{OWN[16:]}-01", None),
    ],
)
def test_every_job_has_a_trace(given: str | None, trace: str, parent: str, state: str | None) -> None:
    assert (trace_id(given, JOB), traceparent(given, JOB), tracestate(given)) == (trace, parent, state)
    assert is_traceparent(given) == (given is not None and given.startswith(parent))


def test_what_is_kept_of_the_two_headers() -> None:
    assert carried(PARENT, None) == carried(PARENT, "") == PARENT
    assert carried(PARENT, "vendor=1") == f"{PARENT} vendor=1"
    assert carried(PARENT, "x" * 513) == carried(PARENT, "a\nb") == PARENT
    for bad in (
        None,
        "",
        "ff" + PARENT[2:],
        PARENT.upper(),
        f"{PARENT} more",
        PARENT[:-1],
        "00-" + "0" * 32 + PARENT[35:],
    ):
        assert carried(bad, "vendor=1") is None
