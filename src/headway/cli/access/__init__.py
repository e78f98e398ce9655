"""Commands about who may use the HTTP API."""
