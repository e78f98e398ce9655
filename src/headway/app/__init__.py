"""The façade: `Headway`, and the verbs it offers."""

from headway.app.headway import Headway
from headway.app.verbs import Verbs

__all__ = ["Headway", "Verbs"]
