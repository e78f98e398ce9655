"""Whatever the timing, and however often it is killed, a flow's function gets each answer where it asked for it."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.errors import FlowChanged
from tests.define.flow_programs import PROGRAMS, Killed, Program, Steps, World

Names = st.sampled_from("abc")


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
@given(seed=st.integers(0, 10**6), most=st.integers(1, 3))
def test_answers_reach_the_place_that_asked(program: Program, seed: int, most: int) -> None:
    world = World(program, seed)
    result = _through_kills(world, most)
    # in the end nothing is executed twice, and a last replay gives the same without executing anything
    assert len(world.executed) == len(set(world.executed))
    executed = list(world.executed)
    assert world.execute(None) == result
    assert world.executed == executed


def _through_kills(world: World, most: int) -> object:
    for _ in range(200):
        try:
            return world.execute(most)
        except Killed:
            continue
    raise AssertionError("it came to no end")


def generated(shape: list[tuple[str, list[str]]]) -> Program:
    """One after the other, or together: groups of steps by name, whose arguments are what came before."""

    async def program(steps: Steps) -> object:
        got: list[str] = []
        for way, names in shape:
            arg = len(got)
            if way == "gather":
                got += await asyncio.gather(*(steps.step(name, arg) for name in names))
            elif way == "tasks":
                tasks = [asyncio.create_task(steps.step(name, arg)) for name in names]
                for future in asyncio.as_completed(tasks):
                    got.append(await steps.step("then", await future))
            else:
                for name in names:
                    got.append(await steps.step(name, arg))
        return got

    return program


SHAPES = st.lists(
    st.tuples(st.sampled_from(("one by one", "gather", "tasks")), st.lists(Names, min_size=1, max_size=4)),
    min_size=1,
    max_size=4,
)


@given(shape=SHAPES, seed=st.integers(0, 10**6), most=st.integers(1, 4))
def test_generated_programs(shape: list[tuple[str, list[str]]], seed: int, most: int) -> None:
    world = World(generated(shape), seed)
    result = _through_kills(world, most)
    executed = list(world.executed)
    assert world.execute(None) == result
    assert world.executed == executed


@given(data=st.data(), seed=st.integers(0, 10**6))
def test_an_edited_program_never_gets_a_wrong_answer(data: st.DataObject, seed: int) -> None:
    """Each step checks that its answer is its own, so a wrong one raises AssertionError: only FlowChanged may be."""
    names = data.draw(st.lists(Names, min_size=2, max_size=6))
    edited = list(names)
    at = data.draw(st.integers(0, len(names) - 1))
    match data.draw(st.sampled_from(("insert", "delete", "swap", "rename"))):
        case "insert":
            edited.insert(at, "new")
        case "delete":
            del edited[at]
        case "swap":
            other = data.draw(st.integers(0, len(names) - 1))
            edited[at], edited[other] = edited[other], edited[at]
        case "rename":
            edited[at] = "new"
    world = World(_line(names), seed)
    most = data.draw(st.integers(1, len(names)))
    with suppress(Killed):
        world.execute(most)
    done = [row.place.partition("#")[0] for row in world.journal]
    world.program = _line(edited)
    fits = edited[: len(done)] == done
    if fits:
        world.execute(None)
    else:
        with pytest.raises(FlowChanged, match="recorded"):
            world.execute(None)


def _line(names: list[str]) -> Program:
    async def program(steps: Steps) -> object:
        return [await steps.step(name, name) for name in names]

    return program


def test_a_thousand_steps_are_replayed_as_they_were() -> None:
    world = World(_line([f"s{number}" for number in range(1000)]), 1)
    first = world.execute(None)
    assert world.execute(None) == first
    assert len(world.executed) == 1000
