"""Connectors and webhook endpoints."""
