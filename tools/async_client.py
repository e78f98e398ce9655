"""Writes the Python client's asyncio half, clients/python/src/headway_client/aio.py, from client.py."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

CLIENT = Path(__file__).parents[1] / "clients" / "python" / "src" / "headway_client"

_TEXTS = (
    (
        '"""Client: Headway\'s verbs over HTTP."""',
        '"""AsyncClient: the same verbs for asyncio. Made from client.py by tools/async_client.py: do not edit."""',
    ),
    ("class Client:", "class AsyncClient:"),
    ("safe to share between threads. What", "for one event loop. What"),
    ("httpx2.Client(", "httpx2.AsyncClient("),
    ("import time\n", "import asyncio\nimport time\n"),
    ("Iterator, Mapping, Sequence", "AsyncIterator, Mapping, Sequence"),
    (") -> Iterator[", ") -> AsyncIterator["),
    ("__enter__", "__aenter__"),
    ("__exit__", "__aexit__"),
    ("def close(", "def aclose("),
    ("self.close()", "await self.aclose()"),
    ("self._http.close()", "await self._http.aclose()"),
    ("self._http.request(", "await self._http.request("),
    ("time.sleep(", "await asyncio.sleep("),
    ("self.send(", "await self.send("),
    ("page = self.page(", "page = await self.page("),
    ("            yield from page.items\n", "            for job in page.items:\n                yield job\n"),
    ("with self._http.stream(", "async with self._http.stream("),
    ("for chunk in response.iter_bytes()", "async for chunk in response.aiter_bytes()"),
    (" response.read()", " await response.aread()"),
    (
        "yield from stream.read(chunk)\n",
        "for event in stream.read(chunk):\n                                yield event\n",
    ),
    ("return self.change(", "return await self.change("),
    ("return self.retry(", "return await self.retry("),
    ("`client.", "`await client."),
)


def derived() -> str:
    """aio.py as client.py makes it."""
    text = (CLIENT / "client.py").read_text("utf-8")
    text = re.sub(r"    def (?!__init__)(\w+)\(", r"    async def \1(", text)
    for sync, asynchronous in _TEXTS:
        text = text.replace(sync, asynchronous)
    settings = str(CLIENT.parents[3] / "pyproject.toml")
    command = [sys.executable, "-m", "ruff", "format", "--config", settings, "--stdin-filename", "aio.py", "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True, cwd=CLIENT).stdout


if __name__ == "__main__":
    (CLIENT / "aio.py").write_text(derived(), "utf-8")
