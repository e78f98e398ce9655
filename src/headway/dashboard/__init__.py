"""The dashboard: pages for people, made of the API's own answers and held to the API's own permissions."""

from headway.dashboard.site import Site

__all__ = ["Site"]
