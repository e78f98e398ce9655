"""Finds scripts among a command's arguments, where a value from the payload would run as code."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from headway.commands.argument import Argument

_SHELLS = re.compile(r"(?:ba|da|z|k|mk|a|fi|c|tc)?sh|busybox|pwsh")
_INTERPRETERS = re.compile(r"(?:python|pypy|perl|ruby|node|nodejs|php|lua|Rscript|guile|tclsh)[\d.]*|deno|bun|[gm]?awk")
_AWK = re.compile("[gm]?awk")  # whose script needs no flag
_WRAPPERS = frozenset(
    {
        *("env", "sudo", "doas", "nice", "ionice", "timeout"),
        *("nohup", "setsid", "stdbuf", "chroot", "flock", "xargs"),
    }
)
_SCRIPT_FLAG = re.compile(r"-[A-Za-z]*[ceEr]|--eval|--command|--execute|-p|--print")


def language_of(program: str, arguments: Sequence[Argument]) -> str | None:
    """The shell or interpreter that the program is or starts, judged by its name; None: neither."""
    name = os.path.basename(program)
    if name in _WRAPPERS:
        names = (os.path.basename(each.before) for each in arguments if each.field is None)
        return next((each for each in names if _is_language(each)), None)
    return name if _is_language(name) else None


def is_shell(language: str) -> bool:
    return _SHELLS.fullmatch(language) is not None


def field_in_script(program: str, arguments: Sequence[Argument]) -> str | None:
    """The placeholder inside a script of `sh -c` and the like, if there is one."""
    language = language_of(program, arguments)
    if language is None:
        return None
    script = False  # the next argument is one
    for argument in _own(program, language, arguments):
        if argument.field is not None and (script or _AWK.fullmatch(language)):
            return argument.field
        script = argument.field is None and _SCRIPT_FLAG.fullmatch(argument.before) is not None
        if not script and _is_file(argument):
            return None  # from here on they are the script file's
    return None


def _own(program: str, language: str, arguments: Sequence[Argument]) -> Sequence[Argument]:
    """The arguments after the interpreter's name."""
    if os.path.basename(program) == language:
        return arguments
    names = [os.path.basename(each.before) for each in arguments]
    return arguments[names.index(language) + 1 :]


def _is_file(argument: Argument) -> bool:
    return argument.field is None and not argument.before.startswith("-") and bool({"/", "."} & set(argument.before))


def _is_language(name: str) -> bool:
    return is_shell(name) or _INTERPRETERS.fullmatch(name) is not None
