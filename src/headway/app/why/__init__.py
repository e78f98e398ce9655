"""Answers "why is this job not running?" from what is stored, with the way out."""

from headway.app.why.reasons import Why, why

__all__ = ["Why", "why"]
