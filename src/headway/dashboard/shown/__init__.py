"""How values are shown: times, JSON, ids, numbers. Everything here gives text that is safe in a page."""
