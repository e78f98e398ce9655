"""A payload never becomes a part of a script: such a command is refused when it is read."""

from __future__ import annotations

import pytest

from headway.commands import load
from headway.errors import ConfigError


@pytest.mark.parametrize(
    "argv",
    [
        ["/bin/sh", "-c", "echo {name}"],
        ["/bin/bash", "-x", "-c", "{name}"],
        ["/bin/bash", "-xc", "{name}"],
        ["/usr/bin/env", "bash", "-c", "echo {name}"],
        ["/usr/bin/env", "FOO=1", "python3.12", "-c", "print('{name}')"],
        ["/usr/bin/python3", "-W", "ignore", "-c", "{name}"],
        ["/usr/bin/perl", "-e", "{name}"],
        ["/usr/bin/node", "--eval", "{name}"],
        ["/usr/bin/sudo", "sh", "-c", "{name}"],
        ["/usr/bin/awk", "{name}"],
        ["/usr/bin/mawk", "/{name}/"],
        ["/bin/busybox", "sh", "-c", "{name}"],
    ],
)
def test_a_placeholder_in_a_script_is_refused(argv: list[str]) -> None:
    with pytest.raises(ConfigError, match=r"\[commands\.greet\].*would be run as code"):
        load({"greet": {"argv": argv}}, "headway.toml")


@pytest.mark.parametrize(
    "argv",
    [
        ["/bin/sh", "-c", 'echo "$1"', "sh", "{name}"],
        ["/usr/bin/python3", "/srv/tool.py", "-c", "{name}"],
        ["/usr/bin/python3", "tool.py", "-e", "{name}"],
        ["/usr/bin/env", "LANG=C", "/usr/bin/rsync", "-e", "{name}"],
        ["/usr/bin/rsync", "-r", "{name}"],
        ["/usr/bin/awk", "-f", "/srv/sum.awk", "{name}"],
    ],
)
def test_a_placeholder_after_a_script_is_an_argument_of_it(argv: list[str]) -> None:
    assert len(load({"greet": {"argv": argv}}, "headway.toml")) == 1
