"""The PostgreSQL store: every mutation is one SQL function, called from here."""
