"""`headway demo`."""
