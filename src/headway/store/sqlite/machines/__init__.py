"""Machines: their turns, signals and children."""
