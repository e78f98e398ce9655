"""`python -m tests.transfer.killed SOURCE TARGET STAGE`: a transfer that kills itself where it reports this stage."""

from __future__ import annotations

import os
import signal
import sys

from headway.app.transfer import transfer
from headway.store.transfer.transfer import Step


def main(source: str, target: str, at: str) -> None:
    def kill(step: Step) -> None:
        if at == f"{step.stage} {step.table}".strip():
            os.kill(os.getpid(), signal.SIGKILL)

    transfer(source, target, progress=kill)


if __name__ == "__main__":
    main(*sys.argv[1:])
