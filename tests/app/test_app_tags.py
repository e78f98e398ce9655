"""Tags through the app: where they come from, how they add up, what they find."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from headway import Headway
from headway.errors import InvalidJob
from headway.testing import drain

Call = Callable[..., Any]


@pytest.fixture
def mail(app: Headway) -> Any:
    @app.job(tags=("mail", "out"))
    def mail(n: int = 0) -> int:
        return n

    return mail


def test_a_job_has_the_tags_of_its_kind_and_of_its_call(app: Headway, call: Call, mail: Any) -> None:
    assert app.get(call(mail, "enqueue").id).tags == ("mail", "out")
    assert app.get(call(mail.using(tags="vip").using(tags=["eu", "mail"]), "enqueue").id).tags == (
        *("eu", "mail", "out"),
        "vip",
    )
    assert app.get(call(app, "enqueue", "mail", {}, tags=("x",)).id).tags == ("mail", "out", "x")
    assert app.get(call(app, "enqueue", "mail", {}, tags=None).id).tags == ()
    assert app.get(call(app, "enqueue", "mail", {}, tags=()).id).tags == ("mail", "out")
    made = call(app, "enqueue_many", [mail.build(1), mail.using(tags={"b", "a"}).build(2)])
    assert [app.get(each.id).tags for each in made] == [("mail", "out"), ("a", "b", "mail", "out")]
    with pytest.raises(InvalidJob, match="tags are 21, with those of the kind: a job may have 20"):
        mail.using(tags=[f"t{n}" for n in range(19)])
    with pytest.raises(InvalidJob, match="tags has 'a b', which is not a tag"):
        app.job(name="x", tags="a b")(lambda: None)


def test_a_definition_carries_its_kinds_tags(app: Headway, url: str, mail: Any) -> None:
    drain(app)  # a worker declares the kind
    with closing(Headway(url)) as elsewhere:
        made = elsewhere.enqueue("mail", {}, tags="far")
        assert elsewhere.get(made.id).tags == ("far", "mail", "out")


def test_templates_and_triggers_add_theirs(app: Headway, mail: Any) -> None:
    app.create_template("hello", "mail", options={"tags": ["template"]})
    assert app.get(app.run_template("hello", tags="call").id).tags == ("call", "mail", "out", "template")
    app.create_trigger("paid", "paid", template="hello", options={"tags": ["region:{{event.region}}", "{{event.n}}"]})
    app.create_trigger("bare", "paid", kind="mail", options={"tags": "one-{{event.n}}"})
    app.emit("paid", {"region": "eu", "n": 7})
    drain(app)
    found = sorted(job.tags for job in app.jobs(source="event"))
    assert found == [("7", "mail", "out", "region:eu", "template"), ("mail", "one-7", "out")]
    for wrong in (["no way"], [7], "no way"):
        with pytest.raises(InvalidJob, match="which is not a tag"):
            app.create_trigger("wrong", "paid", kind="mail", options={"tags": wrong})
    app.emit("paid", {"region": "not a tag", "n": 8})
    drain(app)
    assert app.jobs(tags="template", any_tags="8") == []
    app.create_schedule("nightly", "0 2 * * *", kind="mail", options={"tags": ["night"]})
    fired = app.run_schedule("nightly")
    assert fired is not None
    assert [job.tags for job in app.jobs(tags="night")] == [("mail", "night", "out")]


def test_several_filters_at_once_and_in_bulk(app: Headway, call: Call, mail: Any) -> None:
    @app.job(queue="sms")
    def sms(n: int = 0) -> int:
        return n

    ids = [mail.using(tags="vip", meta={"customer": {"id": n % 2}}).enqueue(n).id for n in range(4)]
    other = [sms.using(tags=("vip", "eu")).enqueue(n).id for n in range(2)]
    call(app, "cancel", ids[0])

    def found(**where: Any) -> list[str]:
        return [job.id for job in call(app, "jobs", **where)]

    assert found(tags="vip", status=("queued", "canceled"), kind=["mail", "sms"], queue=("sms", "default")) == [
        *other[::-1],
        *ids[::-1],
    ]
    assert found(any_tags=("eu", "out"), kind=("sms", "none")) == other[::-1]
    assert found(tags=("vip", "mail"), status=("queued", "canceled"), meta={"customer.id": 0}) == [ids[2], ids[0]]
    assert call(app, "count_jobs", tags="vip", status=("queued", "running")) == 5
    assert call(app, "cancel_jobs", any_tags=("eu", "none"), queue=("sms",)) == 2
    assert call(app, "retry_jobs", tags=("vip",), status=("canceled", "dead"), meta={"customer.id": 0}) == 1
    assert [app.get(job_id).status for job_id in (ids[0], *other)] == ["queued", "canceled", "canceled"]
    for order in ("newest", "oldest", "priority"):
        pages: list[str] = []
        last = None
        while page := call(app, "jobs", order=order, limit=2, after=last, tags="vip", status=("queued", "canceled")):
            pages += [job.id for job in page]
            last = page[-1].cursor
        assert pages == (sorted([*ids, *other], reverse=order == "newest"))
    assert [job.id for job in call(app, "jobs", order="run", queue="default", after=app.get(ids[1]).cursor)] == [
        *ids[2:],
        ids[0],
    ]


def test_what_cannot_be_asked_for(app: Headway, call: Call) -> None:
    some = "0198c5f2-6a0e-7c3e-b8f1-2f9f4f1d5a10"
    for said, where in {
        "tags has 'a b', which is not a tag": {"tags": ["a b"]},
        "any_tags has no value: leave it out for any": {"any_tags": []},
        "is not a mapping of paths": {"meta": 7},
        "order='run' is the order of one queue": {"order": "run"},
        "order='age' is unknown": {"order": "age"},
        "is only an id": {"order": "priority", "after": some},
        "before= is for the newest first, and alone": {"order": "oldest", "before": some},
        "is not an id": {"after": "here"},
    }.items():
        with pytest.raises(InvalidJob, match=said):
            call(app, "jobs", **where)
