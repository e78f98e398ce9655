"""Aliases: after a rename, jobs, producers and schedules of the old name run in the new handler."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest

from headway import Context, Done, Headway, Machine, Registry, step
from headway.errors import InvalidJob, InvalidPayload
from headway.testing import drain


def test_old_jobs_producers_and_schedules_run_in_the_renamed_kind(app: Headway, url: str, ran: list[Any]) -> None:
    with closing(Headway(url, strict_kinds=False)) as old:
        before = old.enqueue("send_mail", {"to": "ada"}, tags="old").id
        old.create_schedule("nightly", "@daily", kind="send_mail", payload={"to": "bob"})

    @app.job(name="mail.send", aliases=("send_mail", "mailer"), tags="new", queue="mail", max_attempts=2)
    def send(ctx: Context, to: str) -> str:
        ran.append((ctx.kind, to))
        if to == "eve":
            raise LookupError(to)
        return to

    here = app.enqueue("send_mail", {"to": "cid"}).id
    app.run_schedule("nightly")
    drain(app)
    assert sorted(ran) == [("mail.send", "bob"), ("mail.send", "cid"), ("send_mail", "ada")]
    assert (app.get(here).kind, app.get(here).queue) == ("mail.send", "mail")
    assert (app.get(before).status, app.get(before).kind) == ("succeeded", "send_mail")
    # its worker has declared both names, so a producer without the code enqueues by either
    assert {"mail.send", "send_mail", "mailer"} <= {each.kind for each in app.definitions()}
    with closing(Headway(url)) as elsewhere:
        made = elsewhere.get(elsewhere.enqueue("mailer", {"to": "eve"}).id)
        assert (made.kind, made.queue, made.tags, made.max_attempts) == ("mailer", "mail", ("new",), 2)
    drain(app, with_scheduled=True)
    assert app.get(made.id).status == "dead"
    assert app.retry(made.id) == made.id
    assert app.change(made.id, priority=7) == "queued"
    drain(app, with_scheduled=True)
    assert app.get(made.id).status == "dead"
    with pytest.raises(InvalidPayload, match="to"):  # checked by the code, under either name
        app.enqueue("mailer", {"to": 7})
    assert [kind.name for kind in app.kinds] == ["mail.send"]
    assert (len(app.kinds), app.kinds.names) == (1, ("mail.send",))
    assert app.kinds["mailer"] is app.kinds["mail.send"]
    assert app.kinds["mailer"].aliases == ("send_mail", "mailer")


def test_machines_have_aliases_too(app: Headway, url: str) -> None:
    with closing(Headway(url)) as old:

        @old.machine
        class Checkout(Machine, name="checkout"):
            @step
            def start(self, ctx: Context) -> Done:
                return Done("old")

        before = Checkout.enqueue().id

    @app.machine
    class Order(Machine, name="order", aliases="checkout"):
        @step
        def start(self, ctx: Context) -> Done:
            return Done("new")

    drain(app)
    assert app.result(before).unwrap() == "new"


def test_an_alias_belongs_to_one_kind() -> None:
    shop = Registry()

    @shop.job(name="a", aliases="b")
    def one() -> None: ...

    for said, define in {
        'alias "b" of kind "c" is taken by kind "a"': {"name": "c", "aliases": "b"},
        'alias "a" of kind "c" is taken by kind "a"': {"name": "c", "aliases": ("a",)},
        'has an alias of kind "a" as its name': {"name": "b"},
        '"c" is its name, so it needs no such alias': {"name": "c", "aliases": ["c"]},
        "aliases=7 is not a collection of names": {"name": "c", "aliases": 7},
        "aliases='no way' is not a valid name": {"name": "c", "aliases": "no way"},
    }.items():
        with pytest.raises(InvalidJob, match=said):

            @shop.job(**define)  # type: ignore[arg-type]
            def two() -> None: ...

    other = Registry()

    @other.job(name="b")
    def three() -> None: ...

    with pytest.raises(InvalidJob, match='has an alias of kind "a" as its name'):
        shop.include(other)
    assert shop.names == ("a",)
