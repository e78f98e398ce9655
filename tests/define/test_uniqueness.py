"""Options of unique keys: keys made from arguments, what a second enqueue does, and what contradicts itself."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from headway import Done, Machine, Registry, step
from headway.define import definitions, uniqueness
from headway.define.kind import Kind
from headway.define.options import check_stored_options, kind_options, new_job
from headway.errors import InvalidJob
from headway.model.definition import Definition


def define(**options: Any) -> Kind[..., Any]:
    def export(user: int, region: str = "eu", filters: dict[str, Any] | None = None) -> None: ...

    return Kind(export, options)


def stored(kind: Kind[..., Any]) -> Definition:
    """The definition as another process reads it."""
    new = definitions.definition_of(kind)
    given = {name: getattr(new, name) for name in new.__struct_fields__}
    given |= {"policy": msgspec.json.decode(new.policy), "enqueuer_may": {}, "schema": None}
    fields = {name: given.get(name) for name in Definition.__struct_fields__}
    return Definition(**fields)


@pytest.mark.parametrize(
    ("option", "key"),
    [("{user}", "7"), ("{region}/{user}", "eu/7"), ("all", "all"), (lambda user: user * 2, "14"), (None, None)],
)
def test_a_kind_makes_the_unique_key_of_each_job(option, key):
    assert define(unique_key=option).build(7).unique_key == key


def test_using_overrides_the_kinds_key_and_none_takes_it_away():
    kind = define(unique_key="{user}")
    assert kind.using(unique_key="mine").build(7).unique_key == "mine"
    assert kind.using(unique_key=None).build(7).unique_key is None
    assert define(unique_by="user").using(unique_key="mine").build(7).unique_key == "mine"
    by = kind.using(unique_by=("region",)).build(7).unique_key
    assert by not in (None, "7")
    assert by == kind.using(unique_by="region").build(8).unique_key


def test_a_key_by_arguments_depends_on_those_alone_whatever_their_order():
    kind = define(unique_by=("filters", "user"))
    key = kind.build(7, filters={"a": [1, {"b": 2, "c": 3}]}).unique_key
    assert key == kind.build(7, "us", filters={"a": [1, {"c": 3, "b": 2}]}).unique_key
    assert key == define(unique_by=["user", "filters"]).build(7, filters={"a": [1, {"c": 3, "b": 2}]}).unique_key
    others = [kind.build(8, filters={"a": [1, {"b": 2, "c": 3}]}), kind.build(7, filters={"a": [1]}), kind.build(7)]
    assert key not in {job.unique_key for job in others}
    assert kind.build(7).unique_key == kind.build(7, filters=None).unique_key


@pytest.mark.parametrize("options", [{"unique_key": "{user}"}, {"unique_by": ("user", "filters")}])
def test_a_process_without_the_code_makes_the_same_key(options):
    kind = define(**options, unique_group="g", on_conflict="raise", unique_for="10m", unique_scope={"queued"})
    definition = stored(kind)
    assert not definition.computed
    here = kind.build(7, filters={"a": 1})
    there = new_job("export", here.payload, {}, now=0, default=definitions._options(definition))
    same = ("unique_key", "unique_group", "unique_scope", "unique_for_ms", "on_conflict")
    assert [getattr(there, name) for name in same] == [getattr(here, name) for name in same]
    assert here.unique_key is not None
    assert here.unique_for_ms == 600_000


def test_a_process_without_the_code_replaces_the_same():
    here = define(unique_key="{user}", on_conflict="replace", replace="payload")
    there = new_job("export", '{"user":7}', {}, now=0, default=definitions._options(stored(here)))
    assert (there.on_conflict, there.replace) == ("replace", ("payload",))


def test_using_may_give_change_and_take_away_a_window():
    kind = define(unique_key="{user}", unique_for="10m")
    assert kind.build(7).unique_for_ms == 600_000
    assert kind.using(unique_for="1h").build(7).unique_for_ms == 3_600_000
    assert kind.using(unique_for=None).build(7).unique_for_ms is None
    assert kind.using(unique_for=None, on_conflict="replace").build(7).on_conflict == "replace"
    assert define().using(unique_by="user", unique_for="5s").build(7).unique_for_ms == 5_000
    for option in ({"on_conflict": "replace"}, {"debounce": "1s"}, {"unique_key": None}):
        with pytest.raises(InvalidJob, match="unique_for"):
            kind.using(**option)


def test_a_function_needs_its_code():
    assert stored(define(unique_key=lambda user: user)).computed


def test_a_template_without_the_code_needs_its_argument():
    definition = stored(define(unique_key="{region}"))
    with pytest.raises(InvalidJob, match="the argument region is None"):
        new_job("export", '{"user":7}', {}, now=0, default=definitions._options(definition))


def test_a_debounce_is_a_delay_and_a_replace():
    job = define(unique_key="{user}", debounce="5s", debounce_max="1m").build(7)
    assert (job.delay_ms, job.on_conflict, job.debounce_max_ms) == (5_000, "replace", 60_000)
    definition = stored(define(unique_key="{user}", debounce="5s", debounce_max="1m"))
    there = new_job("export", '{"user":7}', {}, now=0, default=definitions._options(definition))
    assert (there.delay_ms, there.on_conflict, there.debounce_max_ms) == (5_000, "replace", 60_000)


def test_using_may_change_a_debounce_or_its_time():
    kind = define(unique_key="{user}", debounce="5s", debounce_max="1m", on_conflict="replace_or_follow")
    shorter = kind.using(debounce="2s").build(7)
    assert (shorter.delay_ms, shorter.on_conflict, shorter.debounce_max_ms) == (2_000, "replace_or_follow", 60_000)
    delayed = kind.using(delay="9s").build(7)
    assert (delayed.delay_ms, delayed.on_conflict, delayed.debounce_max_ms) == (9_000, "replace_or_follow", None)
    none = define(unique_key="{user}", debounce="5s", debounce_max="1m").using(debounce=None).build(7)
    assert (none.delay_ms, none.on_conflict, none.debounce_max_ms) == (None, "return", None)
    later = define(unique_key="{user}").using(delay="9s").using(debounce="1s").build(7)
    assert (later.delay_ms, later.on_conflict) == (1_000, "replace")
    assert kind.using(queue="slow").build(7).debounce_max_ms == 60_000


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"unique_key": "{nobody}"}, "which is not a parameter"),
        ({"unique_by": "nobody"}, "unique_by names nobody, which is not a parameter: it takes user, region, filters"),
        ({"unique_by": ()}, "is not a list of arguments"),
        ({"unique_by": ("a.b",)}, "not the name of an argument"),
        ({"unique_key": "{user}", "unique_by": "user"}, "exclude each other"),
        ({"unique_scope": {"queued"}}, "means nothing without a unique_key"),
        ({"unique_group": "no spaces"}, "not a valid name"),
        ({"unique_key": "k", "replace": "payload"}, "means nothing with on_conflict='return'"),
        ({"unique_key": "k", "on_conflict": "replace", "replace": "kind"}, "cannot be replaced: use some of payload"),
        ({"unique_key": "k", "on_conflict": "replace", "replace": ()}, "not a list of what to replace"),
        ({"unique_key": "k", "on_conflict": "update"}, "on_conflict='update'"),
        ({"unique_key": "k", "debounce": "0s"}, "no time at all"),
        ({"unique_key": "k", "debounce": "5s", "on_conflict": "raise"}, "debounce replaces the job"),
        ({"unique_for": "5s"}, "unique_for means nothing without a unique_key: give both"),
        ({"unique_key": "k", "unique_for": "0s"}, "unique_for='0s' is no time at all"),
        (
            {"unique_key": "k", "unique_for": "5s", "on_conflict": "replace"},
            "unique_for and on_conflict='replace'",
        ),
        ({"unique_key": "k", "unique_for": "5s", "on_conflict": "replace_or_follow"}, "exclude each other: within the"),
        ({"unique_key": "k", "unique_for": "5s", "debounce": "1s"}, "unique_for and debounce exclude each other"),
        ({"unique_key": "k", "debounce_max": "5s"}, "means nothing without debounce"),
        ({"unique_key": "k", "debounce": "5s", "debounce_max": "1s"}, "shorter than debounce"),
    ],
)
def test_a_kind_whose_options_contradict_each_other_is_refused(options, message):
    with pytest.raises(InvalidJob, match=message):
        define(**options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"on_conflict": "replace"}, "on_conflict='replace' does nothing without a key"),
        ({"debounce": "5s"}, "debounce does nothing without a key"),
        ({"unique_for": "5s"}, "unique_for means nothing without a unique_key"),
        ({"unique_key": "k", "debounce": "5s", "delay": "1s"}, "exclude each other: give one"),
        ({"unique_by": "nobody"}, "unique_by names nobody"),
        (
            {"unique_key": "k", "on_conflict": "replace_or_follow", "after": "01a1e377-b951-7deb-bad7-870db3ebc6ec"},
            "and after exclude each other",
        ),
    ],
)
def test_a_job_whose_options_contradict_each_other_is_refused(options, message):
    with pytest.raises(InvalidJob, match=message):
        define().using(**options).build(7)


def test_templates_and_triggers_carry_these_options():
    check_stored_options({"unique_by": ["user"], "unique_group": "g", "unique_for": "10m"})
    check_stored_options({"unique_by": ["user"], "unique_group": "g", "debounce": "5s", "debounce_max": "1m"})
    check_stored_options({"unique_key": "{{event.user}}", "on_conflict": "replace_or_follow", "replace": ["payload"]})


def test_a_digest_is_short_text():
    assert len(uniqueness.digest('{"a":1}', ("a",))) == 40
    assert kind_options({"unique_by": ("a", "a")}).unique_by == ("a",)


def test_a_machine_is_signaled_by_the_key_of_its_group():
    registry = Registry()

    @registry.machine
    class Bill(Machine, unique_key="{account}", unique_group="billing"):
        class State(msgspec.Struct):
            account: int

        @step
        async def start(self, ctx: Any) -> Any:
            return Done()

    assert (Bill.build(account=7).unique_key, Bill.build(account=7).unique_group) == ("7", "billing")
    assert Bill.build_signal("7", "paid").kind == "billing"
