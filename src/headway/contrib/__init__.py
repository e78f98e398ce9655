"""Headway inside frameworks that bring their own databases, commands and tasks."""
