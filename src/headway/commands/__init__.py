"""Allow-listed programs as jobs: only what headway.toml declares runs, and without a shell."""

from headway.commands.check import Finding, check
from headway.commands.command import Command
from headway.commands.kind import CommandKind, load

__all__ = ["Command", "CommandKind", "Finding", "check", "load"]
