"""The bytes of artifacts: in a folder, or in S3, GCS or Azure."""

from headway.artifacts.byte_store import ByteStore, Written
from headway.artifacts.off_loop import in_thread
from headway.artifacts.places import Places, checked_place
from headway.artifacts.sources import Data, ablocks, blocks

__all__ = ["ByteStore", "Data", "Places", "Written", "ablocks", "blocks", "checked_place", "in_thread"]
