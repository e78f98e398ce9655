"""The façade: `Headway` and what it needs to be one."""

from headway.app.headway import Headway
from headway.app.verbs import Verbs

__all__ = ["Headway", "Verbs"]
