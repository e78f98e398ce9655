"""`headway doctor` and what it checks."""
