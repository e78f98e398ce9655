"""`python -m tests.transfer.worker URL`: a worker of the lifelike app, until it is killed."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.transfer.lifelike import app_at

if __name__ == "__main__":
    app_at(sys.argv[1], Path(os.environ["LEDGER"])).run(concurrency=4)
