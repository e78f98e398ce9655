"""The version of this client: that of the Headway it was released with."""

__version__ = "0.2.0"
