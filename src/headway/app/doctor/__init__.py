"""Checks of a database and of the work in it: what is wrong, and its fix."""
