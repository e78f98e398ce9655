"""What the retention deletes: for each of its names, an op that deletes one batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast, get_args

from headway.model.retention import FOREVER_MS
from headway.model.stats import STAT_RETENTIONS
from headway.model.status import Status
from headway.store.ops import Op, Ops

BATCH = 500

_FIRES = {"events": "events_ms", "failed_events": "failed_ms", "fires": "fires_ms"}


def prunes(ops: Ops, kept_ms: Mapping[str, int]) -> dict[str, Op[int]]:
    """The ops by name; repeat each until it gives less than `BATCH`."""
    found: dict[str, Op[int]] = {}
    for name, older_than_ms in kept_ms.items():
        if name in get_args(Status):
            found[name] = ops.prune(cast(Status, name), older_than_ms=older_than_ms, limit=BATCH)
        elif name == "audit":
            found[name] = ops.prune_audit(older_than_ms=older_than_ms, limit=BATCH)
        elif name == "errors":
            found[name] = ops.prune_errors(older_than_ms=older_than_ms, limit=BATCH)
        elif name in STAT_RETENTIONS:
            found[name] = ops.prune_stats(STAT_RETENTIONS[name], older_than_ms=older_than_ms, limit=BATCH)
        else:
            ages = dict.fromkeys(_FIRES.values(), FOREVER_MS) | {_FIRES[name]: older_than_ms}
            found[name] = ops.prune_fires(**ages, limit=BATCH)
    return found


def duties(ops: Ops, kept_ms: Mapping[str, int]) -> list[Op[int]]:
    """What a worker seals, and then prunes: by retention, and what ends by itself: windows of unique keys,
    what the API keeps."""
    sealing = ops.seal_audit(limit=BATCH)
    ending = [
        ops.prune_windows(limit=BATCH),
        ops.prune_requests(limit=BATCH),
        ops.prune_lists(),
        ops.prune_sessions(limit=BATCH),
    ]
    return [sealing, *prunes(ops, kept_ms).values(), *ending]
