"""The Python files of a folder, and which of them changed."""

from __future__ import annotations

import os
from collections.abc import Iterator

_SKIPPED = {"__pycache__", "node_modules", "site-packages", "build", "dist"}
_MOST = 20_000  # files that are looked at: a folder with more is no app's own


class WatchedFiles:
    """Looks at times and sizes; nothing has to be installed for it."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._seen = self._look()

    def changed(self) -> str | None:
        """The name of a file that changed since the last call; None if none did."""
        now = self._look()
        before, self._seen = self._seen, now
        different = {path for path in before.keys() | now.keys() if before.get(path) != now.get(path)}
        return os.path.relpath(min(different), self._folder) if different else None

    def _look(self) -> dict[str, tuple[int, int]]:
        found: dict[str, tuple[int, int]] = {}
        for entry in self._files(self._folder):
            try:
                stat = entry.stat()
            except OSError:
                continue  # it is being rewritten
            found[entry.path] = (stat.st_mtime_ns, stat.st_size)
            if len(found) >= _MOST:
                break
        return found

    def _files(self, folder: str) -> Iterator[os.DirEntry[str]]:
        try:
            entries = list(os.scandir(folder))
        except OSError:
            return
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                hidden = entry.name.startswith(".") or entry.name in _SKIPPED
                if not hidden and not os.path.exists(os.path.join(entry.path, "pyvenv.cfg")):
                    yield from self._files(entry.path)
            elif entry.name.endswith(".py") or entry.name == "headway.toml":
                yield entry
