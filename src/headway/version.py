"""The version of Headway, in its one place: everything else reads it here."""

__version__ = "0.1.0"
