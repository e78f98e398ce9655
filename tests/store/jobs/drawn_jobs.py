"""The jobs that random walks enqueue: few values of each option, so that they meet."""

from __future__ import annotations

from hypothesis import strategies as st

from headway.model.status import UNFINISHED

SCOPES = (UNFINISHED, ("queued", "scheduled"), ("queued",), ("queued", "running", "succeeded"))

jobs = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(["x", "y"]),
        "queue": st.sampled_from(["a", "a", "b"]),
        "priority": st.sampled_from([100, 1, 2]),
        "delay_ms": st.sampled_from([None, None, 0, 5_000, 60_000]),
        "expires_ms": st.sampled_from([None, None, None, 8_000, 100_000]),
        "unique_key": st.sampled_from([None, None, "u1", "u2"]),
        "unique_scope": st.sampled_from(SCOPES),
        "idempotency_key": st.sampled_from([None, None, None, "i1", "i2"]),
        "unique_group": st.sampled_from([None, None, None, "x", "g"]),
        "on_conflict": st.sampled_from(["return", "raise", "replace", "replace", "replace_or_follow"]),
        "replace": st.sampled_from([(), (), ("payload",), ("priority", "scheduled_for", "queue")]),
        "debounce_max_ms": st.sampled_from([None, 6_000]),
        "unique_for_ms": st.sampled_from([None, 7_000, 90_000]),
        "payload": st.sampled_from(["{}", '{"a":1}', '{"b":2}']),
        "delivery": st.sampled_from(["at_least_once", "at_least_once", "at_most_once"]),
        "max_attempts": st.integers(1, 3),
        "max_losses": st.integers(1, 3),
        "tenant": st.sampled_from(["default", "default", "acme"]),
        "train": st.sampled_from([None, None, None, "t1", "t2"]),
        "on_dead": st.sampled_from(["advance", "hold"]),
        "on_canceled": st.sampled_from(["advance", "hold"]),
        "partition": st.sampled_from([None, None, None, None, "p"]),
        "concurrency_key": st.sampled_from([None, None, None, None, "c"]),
        "after": st.sampled_from([None, None, None, None, 0, 1]),
        "on_failure": st.sampled_from(["stop", "continue"]),
    }
)
