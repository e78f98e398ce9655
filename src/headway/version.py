"""The version of Headway, in its one place: everything else reads it here."""

__version__ = "0.2.0"
