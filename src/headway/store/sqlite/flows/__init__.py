"""Flows: their journals, children and forks."""
