"""Runs a program as `python -W error program arguments` does, in a process that was forked."""

from __future__ import annotations

import runpy
import sys
import warnings
from pathlib import Path

if __name__ == "__main__":
    warnings.simplefilter("error")
    del sys.argv[0]
    sys.path.insert(0, str(Path(sys.argv[0]).parent))
    runpy.run_path(sys.argv[0], run_name="__main__")
