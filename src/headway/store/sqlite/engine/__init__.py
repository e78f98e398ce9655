"""The file and its connections: opening, reading, writing, migrating."""
