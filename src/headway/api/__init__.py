"""Headway over HTTP: the REST API."""

from headway.api.application import Api

__all__ = ["Api"]
