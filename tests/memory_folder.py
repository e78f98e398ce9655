"""A folder in memory for the files of tests: no test waits for a disk, and a SIGKILL leaves the same there."""

from __future__ import annotations

import os
import shutil

_SHM = "/dev/shm"
_ROOM = 6 * 2**30  # for the largest test


def memory_folder() -> str | None:
    """None where there is none, where it has too little room, or where no program may run from it."""
    if not os.path.isdir(_SHM) or shutil.disk_usage(_SHM).free < _ROOM or os.statvfs(_SHM).f_flag & os.ST_NOEXEC:
        return None
    return _SHM
