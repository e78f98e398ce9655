"""Allow-listed programs as jobs: what headway.toml declares, and nothing else, is run, without a shell."""

from headway.commands.check import Finding, check
from headway.commands.command import Command
from headway.commands.kind import CommandKind, load

__all__ = ["Command", "CommandKind", "Finding", "check", "load"]
