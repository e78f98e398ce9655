"""Commands that people copy into a shell: each word comes out as the one argument that it was."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence

from headway.printable import UNPRINTABLE, is_printable_line

_IN_QUOTES = re.compile(f"['\\\\{UNPRINTABLE}\\n\\t]")
_COMMAND = "headway"


def quoted(words: Iterable[str]) -> str:
    """The words as a shell splits them again: text that somebody chose is never code.

    >>> print(quoted(["echo", "x; rm -rf /", "it's", "two\\nlines"]))
    echo 'x; rm -rf /' 'it'"'"'s' $'two\\nlines'
    """
    return " ".join(map(_word, words))


def command(path: str, *names: str, **flags: str | bool | None) -> str:
    """One of our commands about these names. `path` is ours, and stays as it is; a flag that is None is left out.

    >>> command("trains resume", "x; rm -rf /", tenant="acme")
    "headway trains resume 'x; rm -rf /' --tenant acme"
    >>> command("trains resume", "--first", tenant="acme")
    'headway trains resume --tenant acme -- --first'
    """
    return " ".join([_COMMAND, path, *map(_word, arguments(names, flags))])


def arguments(names: Sequence[str], flags: Mapping[str, str | bool | None]) -> list[str]:
    """The words after a command's own, unquoted."""
    given = [word for name, value in flags.items() for word in flag(name, value)]
    # a name that looks like an option would be taken for one
    is_option = any(name.startswith("-") for name in names)
    return [*given, "--", *names] if is_option else [*names, *given]


def flag(name: str, value: str | bool | None) -> list[str]:
    """The words of a flag.

    >>> flag("max_running", "5"), flag("fair", True), flag("tag", "-x"), flag("kind", None)
    (['--max-running', '5'], ['--fair'], ['--tag=-x'], [])
    """
    option = f"--{name.replace('_', '-')}"
    match value:
        case None | False:
            return []
        case True:
            return [option]
        case _ if value.startswith("-"):
            return [f"{option}={value}"]
    return [option, value]


def _word(text: str) -> str:
    # in quotes such characters would reach the terminal, where they control it or end the line
    if not is_printable_line(text):
        return "$'" + _IN_QUOTES.sub(_escaped, text) + "'"
    return shlex.quote(text)


def _escaped(match: re.Match[str]) -> str:
    character = match[0]
    if character == "\\":
        return "\\\\"
    if character in "\n\t":
        return "\\n" if character == "\n" else "\\t"
    # as bytes, which do not depend on the shell's locale; so is a quote, which a shell that has no $'…' would end at
    return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", "replace"))
