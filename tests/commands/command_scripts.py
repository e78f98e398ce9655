"""Python programs as the argv of a command, and one run of it."""

from __future__ import annotations

from typing import Any

from headway.commands import CommandKind
from tests.commands.supervised_programs import python
from tests.worker_harness import WorkerHarness

ARGV = "import json, sys; print(json.dumps(sys.argv[1:]))"


def braced(script: str) -> str:
    """As argv has it."""
    return script.replace("{", "{{").replace("}", "}}")


def script(text: str, *arguments: str) -> list[str]:
    return [*python(braced(text)), *arguments]


def run(harness: WorkerHarness, kind: CommandKind, /, **payload: Any) -> tuple[Any, Any]:
    (job_id,) = harness.enqueue(kind.build(**payload))
    harness.drain()
    return harness.get(job_id), harness.last(job_id)
