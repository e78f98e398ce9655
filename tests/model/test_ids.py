"""Ids: they increase within a process, and no two processes make the same."""

from __future__ import annotations

import os

from headway.model.ids import new_id


def test_ids_increase_and_are_random_at_their_end() -> None:
    made = [new_id() for _ in range(1_000)]
    assert made == sorted(set(made))
    assert len({each[-12:] for each in made}) == 1_000


def test_a_forked_process_draws_random_bits_of_its_own() -> None:
    new_id()  # the parent has drawn more than it used
    read, write = os.pipe()
    if os.fork() == 0:
        os.write(write, " ".join(new_id()[-12:] for _ in range(200)).encode())
        os._exit(0)
    os.close(write)
    own = {new_id()[-12:] for _ in range(200)}
    with os.fdopen(read) as childs:
        assert own.isdisjoint(childs.read().split())
    os.wait()
