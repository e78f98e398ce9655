"""The async verbs, generated from the blocking ones by tools/async_twins.py."""
