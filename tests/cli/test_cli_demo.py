"""The demo tells the truth, and ends by itself."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from typing import Any

from headway import Headway

Start = Callable[..., "subprocess.Popen[str]"]


def test_the_demo_ends_well_and_its_numbers_are_the_databases(start: Start, tmp_path: Any) -> None:
    import os

    process = start("demo", "--json", env={**os.environ, "TMPDIR": str(tmp_path)})
    out, err = process.communicate(timeout=180)
    assert process.returncode == 0, err
    told = json.loads(out)
    total = told["total"]
    assert total["jobs"] > 300
    assert (total["dead"], total["canceled"]) == (1, 1)
    assert total["succeeded"] == total["jobs"] - 2
    assert total["failures"] > 10
    assert told["killed"]["running"] > 0
    assert total["losses"] >= told["killed"]["running"]
    app = Headway(told["url"])
    try:
        assert app.counts() == {"succeeded": total["succeeded"], "dead": 1, "canceled": 1}
        assert app.workers() == []
        (dead,) = app.jobs(status="dead")
        assert len(app.attempts(dead.id)) == dead.fence
    finally:
        app.close()
