"""Versions of a machine without a database: side by side, unknown, and migrated."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from headway import Context, Done, Machine, Next, Registry, step
from headway.define import MachineKind
from headway.errors import InvalidJob, InvalidOutcome
from headway.model.machine import Checkpoint
from headway.model.outcome import Outcomes
from tests.define.sample_machines import admitted, claim, settlement_of, versions, visited


@pytest.fixture
def registry() -> Registry:
    return Registry()


# versions


def test_versions_of_one_name_are_one_kind_enqueued_as_the_newest(registry: Registry) -> None:
    one, three, two = versions(1, 3, 2)
    for machine in (one, three, two):
        registry.machine(machine)
    assert registry.names == ("thing",)
    kind = registry["thing"]
    assert isinstance(kind, MachineKind)
    assert {version: edition.machine for version, edition in kind.editions.items()} == {1: one, 2: two, 3: three}
    newest = kind.build_from({}).checkpoint
    assert newest is not None
    assert newest.version == 3
    old = one.build().checkpoint
    assert old is not None
    assert old.version == 1


def test_versions_come_together_over_include_in_either_order() -> None:
    for first, second in ((0, 1), (1, 0)):
        registries = [Registry(), Registry()]
        outer, together = Registry(), Registry()
        outer.include(registries[first])
        outer.include(registries[second])
        for registry, machine in zip(registries, versions(1, 2), strict=True):
            registry.machine(machine)
        together.include(outer)
        for each in (outer, together):
            kind = each["thing"]
            assert isinstance(kind, MachineKind)
            assert set(kind.editions) == {1, 2}
            assert kind.edition.version == 2
        inner = registries[0]["thing"]
        assert isinstance(inner, MachineKind)
        assert set(inner.editions) == {1}


def test_two_classes_of_one_version_clash(registry: Registry) -> None:
    (first,), (second,) = versions(1), versions(1)
    second.__qualname__ = "Other"
    registry.machine(first)
    with pytest.raises(InvalidJob, match='machine "thing" has two classes of one version'):
        registry.machine(second)
    other = Registry()
    other.machine(second)
    with pytest.raises(InvalidJob, match="two classes of one version"):
        registry.include(other)
    assert second not in [edition.machine for edition in registry["thing"].editions.values()]  # type: ignore[attr-defined]


def test_a_machine_and_a_job_cannot_share_a_name(registry: Registry) -> None:
    (machine,) = versions(1)
    registry.job(name="thing")(lambda: None)
    with pytest.raises(InvalidJob, match='kind "thing" is defined twice'):
        registry.machine(machine)
    other = Registry()
    other.machine(machine)
    with pytest.raises(InvalidJob, match="defined twice"):
        other.job(name="thing")(lambda: None)


def test_a_claim_is_run_by_the_version_that_its_row_has(registry: Registry) -> None:
    for machine in versions(1, 2):
        registry.machine(machine)
    for version in (1, 2):
        claimed = admitted(registry, Checkpoint(version=version, step=f"only{version}"))
        assert claimed is not None
        assert (claimed.edition.version, claimed.step.name, claimed.migrates) == (version, f"only{version}", False)
    by_name_alone = admitted(registry, None)
    assert by_name_alone is not None
    assert (by_name_alone.edition.version, by_name_alone.step.name) == (2, "start")


def test_an_unknown_version_or_step_is_not_admitted_and_named(registry: Registry) -> None:
    for machine in versions(2, 3):
        registry.machine(machine)
    kind = registry["thing"]
    assert isinstance(kind, MachineKind)
    for checkpoint, says in (
        (Checkpoint(version=1, step="start"), 'version 1 of machine "thing" (here: 2, 3)'),
        (Checkpoint(version=4, step="start"), 'version 4 of machine "thing" (here: 2, 3)'),
        (
            Checkpoint(version=3, step="only2"),
            'step "only2" of machine "thing" (keep it, or add a version with migrate_from)',
        ),
    ):
        assert admitted(registry, checkpoint) is None
        assert kind.unknown(claim(checkpoint)) == says


def test_a_newer_version_is_never_migrated_back(registry: Registry) -> None:
    for machine in versions(1, 2, migrates=True):
        registry.machine(machine)
    assert admitted(registry, Checkpoint(version=3, step="start")) is None


# migrate_from


def migrating(registry: Registry, answer: Any) -> None:
    @registry.machine
    class Thing(Machine, version=3, name="thing"):
        class State(msgspec.Struct):
            orders: list[int]

        @step
        def start(self, ctx: Context) -> Outcomes:
            return Done(ctx.state.orders)

        @step
        def pack(self, ctx: Context) -> Outcomes:
            return Next(self.start)

        def migrate_from(self, version: int, state: Any) -> Any:
            return answer(version, state)


@pytest.mark.parametrize("committed", [True, False])
def test_a_state_of_an_older_version_is_migrated_and_goes_with_the_outcome(registry: Registry, committed: bool) -> None:
    seen = []

    def answer(version: int, state: Any) -> Any:
        seen.append((version, state))
        return {"orders": [state["order"]]}

    migrating(registry, answer)
    checkpoint = Checkpoint(version=1, step="pack")
    if committed:
        checkpoint = Checkpoint(version=1, step="pack", state=msgspec.Raw(b'{"order":7}'))
    claimed, ctx = visited(registry, checkpoint)
    assert seen == [(1, {"order": 7 if committed else 42})]
    assert (claimed.migrates, ctx.version, ctx.step) == (True, 3, "pack")
    assert ctx.state.orders == [seen[0][1]["order"]]
    turn = settlement_of(claimed, ctx, Next("start")).turn
    assert turn is not None
    assert (turn.version, turn.ran, turn.step) == (3, "pack", "start")
    assert turn.state == msgspec.json.encode({"orders": ctx.state.orders}).decode()
    # also where the outcome itself leaves the state alone
    last = settlement_of(claimed, ctx, Done(1)).turn
    assert last is not None
    assert (last.version, last.state) == (3, turn.state)


def test_a_migration_may_say_where_it_goes_on(registry: Registry) -> None:
    migrating(registry, lambda version, state: Next("start", {"orders": []}))
    claimed, ctx = visited(registry, Checkpoint(version=2, step="a step of old"))
    assert (claimed.step.name, ctx.state.orders) == ("start", [])
    turn = settlement_of(claimed, ctx, Done(1)).turn
    assert turn is not None
    assert turn.ran == "start"


def test_a_migration_that_leaves_it_at_a_step_that_is_gone_is_an_invalid_outcome(registry: Registry) -> None:
    migrating(registry, lambda version, state: {"orders": []})
    with pytest.raises(InvalidOutcome, match=r"has no step a step of old.*let migrate_from return Next"):
        visited(registry, Checkpoint(version=2, step="a step of old"))


@pytest.mark.parametrize("rubbish", [None, 7, {"orders": "x"}, {}, Next("nowhere", {"orders": []}), Next("start", 7)])
def test_a_migration_that_returns_rubbish_is_an_invalid_outcome(registry: Registry, rubbish: Any) -> None:
    migrating(registry, lambda version, state: rubbish)
    with pytest.raises(InvalidOutcome, match="thing"):
        visited(registry, Checkpoint(version=1, step="start"))
