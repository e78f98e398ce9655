"""Runs the blocks of one page, in order, in the current folder; a process of its own for each page.

Python blocks share a namespace and console blocks share a shell. What a block prints is compared with the `output`
block after it, and what a command prints with the lines below it: spaces count as one, and … stands for anything.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

_END = "\x1e"


class Shell:
    """One bash for a whole page, so that variables and background jobs live on."""

    def __init__(self) -> None:
        self._bash: subprocess.Popen[str] | None = None

    def run(self, command: str) -> tuple[str, int]:
        if self._bash is None:
            self._bash = subprocess.Popen(
                ["bash", "--norc"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        assert self._bash.stdin
        assert self._bash.stdout
        self._bash.stdin.write(f"{{ {command}\n}} < /dev/null; printf '{_END}%s\\n' $?\n")
        self._bash.stdin.flush()
        lines: list[str] = []
        for line in self._bash.stdout:
            text, end, code = line.partition(_END)
            lines.append(text)
            if end:
                return "".join(lines), int(code)
        raise AssertionError(f"the shell ended in: {command}")

    def close(self) -> None:
        if self._bash is not None:
            self.run("kill $(jobs -p) 2>/dev/null; wait")
            assert self._bash.stdin
            self._bash.stdin.close()
            self._bash.wait()


def matches(expected: str, found: str) -> bool:
    squeezed = [re.sub(r"\s+", " ", text).strip() for text in (expected, found)]
    pattern = ".*".join(re.escape(part) for part in re.split(r"\s*…\s*", squeezed[0]))
    return re.fullmatch(pattern, squeezed[1], re.DOTALL) is not None


def compare(expected: str, found: str, where: str) -> None:
    if not matches(expected, found):
        raise AssertionError(f"{where} printed\n{found}\nand the page says\n{expected}")


def commands(text: str) -> list[tuple[str, str]]:
    """Each command of a console block, with the output under it; a line that ends with a backslash goes on."""
    found: list[tuple[str, str]] = []
    goes_on = False
    for line in text.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], ""))
        elif goes_on:
            found[-1] = (found[-1][0] + "\n" + line.removeprefix("> "), "")
        elif found:
            found[-1] = (found[-1][0], found[-1][1] + line + "\n")
        goes_on = line.endswith("\\") and (goes_on or line.startswith("$ "))
    return found


def run_python(block: dict[str, Any], namespace: dict[str, Any]) -> str:
    code = compile("\n" * (block["line"] - 1) + block["text"], block["page"], "exec", dont_inherit=True)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(code, namespace)
    return out.getvalue()


def run_console(block: dict[str, Any], shell: Shell) -> str:
    for command, expected in commands(block["text"]):
        where = f"{block['page']}:{block['line']}: {command}"
        found, code = shell.run(command.replace(":8420", f":{os.environ['HEADWAY_SERVER_PORT']}"))
        # the shell says that a job of its own was killed whenever it comes to notice
        found = re.sub(r"^bash: line \d+: +\d+ Killed .*\n", "", found, flags=re.MULTILINE)
        if expected.strip():
            compare(expected, found, where)
        elif code:
            raise AssertionError(f"{where} ended with {code}:\n{found}")
    return ""


def run_sql(block: dict[str, Any]) -> str:
    import psycopg

    with psycopg.connect(os.environ["HEADWAY_URL"], autocommit=True) as conn:
        if "rollback" in block["words"]:
            conn.execute("begin")
        cursor = conn.execute(block["text"])
        rows: list[Any] = []
        while True:
            rows = cursor.fetchall() if cursor.description else []
            if not cursor.nextset():
                break
        if "rollback" in block["words"]:
            conn.execute("rollback")
    return "\n".join(" | ".join(str(value) for value in row) for row in rows)


def main(blocks: list[dict[str, Any]]) -> None:
    sys.path.insert(0, os.getcwd())
    namespace: dict[str, Any] = {"__name__": "__page__"}
    shell = Shell()
    printed, where = "", ""
    try:
        for block in blocks:
            if block["language"] == "output":
                compare(block["text"], printed, where)
                continue
            where = f"{block['page']}:{block['line']}"
            if block["file"]:
                Path(block["file"]).write_text(block["text"] + "\n", "utf-8")
                compile(block["text"], block["file"], "exec") if block["file"].endswith(".py") else None
            elif block["language"] == "python":
                printed = run_python(block, namespace)
            elif block["language"] == "console":
                printed = run_console(block, shell)
            elif block["language"] == "sql":
                printed = run_sql(block)
    finally:
        shell.close()


if __name__ == "__main__":
    main(json.load(sys.stdin))
