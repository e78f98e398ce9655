"""Commands that look after the database: migrate, audit, prune; and shell completion."""
