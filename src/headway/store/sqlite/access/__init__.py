"""Who may use the HTTP API."""
