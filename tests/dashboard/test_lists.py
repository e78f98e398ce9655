"""Events with what came of them, exports, logs beside a list, and taking things back."""

from __future__ import annotations

import csv
import io
import json
import re
from concurrent.futures import ThreadPoolExecutor
from html import unescape

import pytest

from tests.dashboard.conftest import HOSTILE, Dashboard


def test_an_event_says_what_came_of_it_and_can_be_tried_first(dashboard: Dashboard) -> None:
    acme = dashboard.app.tenant("acme")
    acme.create_trigger("receipt", "order.paid", kind="send_email", payload={"to": "{{event.mail}}"}, label=HOSTILE)
    acme.create_trigger("other", "order.paid", kind="charge", when={"event.country": ["DE"]})
    with dashboard.visitor("operator") as operator:
        form = {"name": "order.paid", "payload": '{"mail": "paid@example.com", "password": "hunter2"}', "do": "try"}
        tried = operator.post("/events/try", data=form)
        assert "It would enqueue <code>send_email</code>" in tried.text
        assert "It would not fire" in tried.text
        assert "<script>alert" not in tried.text
        assert "is not JSON" in operator.post("/events/try", data=form | {"payload": "{"}).text
        before = dashboard.app.tenant("acme").counts()
        nobody = operator.post("/events/try", data=form | {"name": "nobody.listens"})
        assert "No trigger listens to nobody.listens" in nobody.text
        assert acme.counts() == before
        emitted = operator.post("/events/try", data=form | {"do": "emit"})
        page = emitted.headers["location"]
        assert "Not handled yet" in operator.get(page).text
        fire(dashboard)
        shown = operator.get(page)
        assert "enqueued" in shown.text
        assert "&lt;script&gt;" in shown.text
        assert "hunter2" not in shown.text
        (made,) = [
            each for each in acme.jobs(kind="send_email", limit=50) if each.payload == {"to": "paid@example.com"}
        ]
        assert f"/jobs/{made.id}" in shown.text
        assert f"/events/try?like={page.removeprefix('/events/')}" in shown.text
        assert f'href="{page}"' in operator.get(f"/triggers/{acme.get_trigger('receipt').id}").text
    with dashboard.visitor("stranger") as stranger:
        assert stranger.get(page).status_code == 404
    with dashboard.visitor("viewer") as viewer:
        assert viewer.get(page).status_code == 200
        assert viewer.get("/events/try").status_code == 403
        assert viewer.post("/events/try", data=form).status_code == 422
        assert viewer.post("/events/try", data=form | {"do": "emit"}).status_code == 422


def fire(dashboard: Dashboard) -> None:
    """Handle the events that came, as a worker does."""
    with ThreadPoolExecutor(1) as apart:  # the browser's driver may run an event loop in this thread
        apart.submit(dashboard.app.run, until_idle=True, queues=["of-nobody"]).result()


def test_a_list_is_exported_whole_and_without_secrets(dashboard: Dashboard) -> None:
    acme = dashboard.app.tenant("acme")
    acme.enqueue_many(
        acme.build_job("send_email", {"to": f"{each}@example.com"}, tags=("many",), unique_key=f"=cmd()|{each}")
        for each in range(450)
    )
    hidden = {"to": "x", "password": "hunter2", "n": 2**60}
    acme.enqueue("send_email", hidden, tags=("many",))
    with dashboard.visitor("viewer") as viewer:
        assert "/export/jobs.csv?tag=many" in viewer.get("/jobs?tag=many").text
        answer = viewer.get("/export/jobs.csv?tag=many&order=oldest")
        assert answer.headers["content-disposition"] == 'attachment; filename="jobs.csv"'
        rows = list(csv.DictReader(io.StringIO(answer.text)))
        assert [row["payload"] for row in rows[:2]] == ['{"to": "0@example.com"}', '{"to": "1@example.com"}']
        assert len({row["id"] for row in rows}) == len(rows) == 451
        assert rows[0]["unique_key"] == "'=cmd()|0"  # a spreadsheet would run it
        assert '"password": "[redacted]"' in rows[-1]["payload"]
        assert "hunter2" not in answer.text
        parsed = json.loads(viewer.get("/export/jobs.json?tag=many&order=oldest").text)
        assert len(parsed) == 451
        assert parsed[-1]["payload"] == hidden | {"password": "[redacted]"}
        assert parsed[0]["tags"] == ["many"]
        assert json.loads(viewer.get("/export/jobs.json?tag=none").text) == []
        cars = {dashboard.jobs["locomotive"], dashboard.jobs["car"]}
        of_trains = json.loads(viewer.get("/export/jobs.json?train=orders/7&train=none").text)
        assert {each["id"] for each in of_trains} == cars
        assert viewer.get("/export/jobs.csv?status=nonsense").status_code == 422
        assert viewer.get("/export/keys.csv").status_code == 404
        assert len(json.loads(viewer.get("/export/events.json").text)) == 1
        assert viewer.get("/export/audit.csv").text.startswith("id,at,actor,action")
        assert "/export/errors.csv?since=day" in viewer.get("/errors?since=day&kind=").text
        shown = viewer.get("/export/errors.csv?since=day&kind=&order=count")
        error = {each["kind"]: each for each in csv.DictReader(io.StringIO(shown.text))}["send_email"]
        assert (error["count"], len(error["fingerprint"])) == ("1", 16)
        assert f"/errors/{error['fingerprint']}" in viewer.get("/errors").text
        assert json.loads(viewer.get("/export/errors.json?kind=none").text) == []
        assert json.loads(viewer.get(f"/export/jobs.json?error={error['fingerprint']}").text)[0]["kind"] == "send_email"
    with dashboard.visitor("producer") as producer:
        assert producer.get("/export/jobs.csv").status_code == 403
    with dashboard.visitor("stranger") as stranger:
        assert "example.com" not in stranger.get("/export/jobs.csv?tag=many").text


def test_a_search_says_how_far_it_looked_and_leads_on(dashboard: Dashboard, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("api.chapters.jobs", "dashboard.pages.jobs"):
        monkeypatch.setattr(f"headway.{module}.SEARCHED", 2)
    acme = dashboard.app.tenant("acme")
    wanted = [acme.enqueue("send_email", {"to": "x"}, queue="searched", correlation_id="found").id for _ in range(3)]
    for _ in range(4):
        acme.enqueue("send_email", {"to": "x"}, queue="searched")
    path = "/jobs?correlation_id=found&status=queued"
    with dashboard.visitor("viewer") as viewer:
        seen, words = [], []
        shown = viewer.get(path).text
        while next_page := re.search(r'rel="next" href="([^"]+)">Look further<', shown):
            words += re.findall(r"(?:Nothing|Found) among the [a-z]+ 2 jobs", shown)
            shown = viewer.get(unescape(next_page[1])).text
            seen += [each for each in wanted if each in shown]
        assert sorted(seen) == wanted
        assert words[:2] == ["Nothing among the newest 2 jobs", "Nothing among the next 2 jobs"]
        assert "Found among the next 2 jobs" in words
        found = json.loads(viewer.get(path.replace("/jobs", "/export/jobs.json")).text)
        assert [each["id"] for each in found] == wanted[::-1]


def test_what_was_done_can_be_undone_where_there_is_an_undo(dashboard: Dashboard) -> None:
    acme = dashboard.app.tenant("acme")
    scheduled = dashboard.jobs["scheduled"]
    due = acme.get(scheduled).scheduled_for

    def done(client, action: str, **params: str) -> str:  # type: ignore[no-untyped-def]
        answer = client.post(f"/do/{action}", data=params | {"back": "/t/acme/jobs" if client is root else "/jobs"})
        assert answer.status_code == 303, answer.text
        return str(client.get(answer.headers["location"]).text)

    def undone(client, text: str) -> None:  # type: ignore[no-untyped-def]
        said = text.partition('class="said"')[2].partition("</div>")[0]
        action = re.search(r'action="([^"]+)"', said)
        assert action is not None, said
        fields = {name: unescape(value) for name, value in re.findall(r'name="([^"]+)" value="([^"]*)"', said)}
        assert client.post(unescape(action[1]), data=fields).status_code == 303

    with dashboard.visitor("superadmin") as root, dashboard.visitor("operator") as operator:
        undone(operator, done(operator, "cancel-job", id=scheduled))
        assert (acme.get(scheduled).status, acme.get(scheduled).scheduled_for) == ("scheduled", due)
        undone(operator, done(operator, "run-job", id=scheduled))
        assert (acme.get(scheduled).status, acme.get(scheduled).scheduled_for) == ("scheduled", due)
        undone(operator, done(operator, "resume-train", key="orders/7"))
        assert acme.trains(blocked=True)[0].train == "orders/7"
        (nightly,) = acme.schedules()
        undone(operator, done(operator, "pause-trigger", id=nightly.id))
        assert acme.schedules()[0].enabled
        assert 'class="said"' in done(operator, "retry-job", id=dashboard.jobs["dead"])
        assert "<button>Undo</button>" not in done(operator, "cancel-job", id=dashboard.jobs["succeeded"])
        undone(root, done(root, "pause-queue", name="mail"))
        undone(root, done(root, "suspend-tenant", id="acme"))
        assert not next(each for each in dashboard.app.queues() if each.name == "mail").paused
        assert dashboard.app.get_tenant("acme").suspended_at is None
        operator.cookies.set("headway-said", "W10=")  # what no page of ours sends
        assert operator.get("/jobs").status_code == 200


def test_a_log_is_read_beside_the_list_and_a_machine_is_forked(dashboard: Dashboard) -> None:
    dead, waiting = dashboard.jobs["dead"], dashboard.jobs["waiting"]
    with dashboard.visitor("operator") as operator:
        assert f"/jobs/{dead}/log" in operator.get("/jobs").text
        log = operator.get(f"/jobs/{dead}/log", headers={"X-Headway-Part": "1"})
        assert "550 no such user" in log.text
        assert "<html" not in log.text
        machines = operator.get("/machines").text
        assert '<td>finish</td><td class="number">1</td>' in machines
        question = operator.get("/do/fork-job", params={"id": waiting, "at": "1", "step": "start"})
        assert 'value="start"' in question.text
        wrong = operator.post("/do/fork-job", data={"id": waiting, "at": "1", "step": "nowhere", "state": "{"})
        assert wrong.status_code == 422
        assert 'value="nowhere"' in wrong.text
        assert operator.post("/do/fork-job", data={"id": waiting, "at": "one"}).status_code == 422
        forked = operator.post("/do/fork-job", data={"id": waiting, "at": "1", "state": '{"document": "b"}'})
        made = dashboard.app.get(forked.headers["location"].removeprefix("/jobs/"))
        assert (made.forked_from, made.state) == (waiting, {"document": "b"})
        assert operator.post("/do/signal-job", data={"id": waiting, "name": "x", "payload": "{"}).status_code == 422
        sent = operator.post("/do/signal-job", data={"id": waiting, "name": "approved", "payload": '{"by": 1}'})
        assert sent.status_code == 303
    assert [each.name for each in dashboard.app.signals(waiting)] == ["approved"]


def test_an_error_leads_to_its_jobs_and_they_are_retried(dashboard: Dashboard) -> None:
    name, dead = dashboard.jobs["error"], dashboard.jobs["dead"]
    with dashboard.visitor("operator") as operator:
        assert f"/errors/{name}" in operator.get("/errors").text
        shown = operator.get(f"/errors/{name}").text
        assert "ConnectionRefusedError" in shown
        assert "1 × since" in shown
        assert f"/jobs/{dead}" in shown
        assert "Traceback" in shown
        job = operator.get(f"/jobs/{dead}").text
        assert "No others like this" in job
        assert f"/errors/{name}" in operator.get("/").text  # it killed a job
        form = {"action": "retry", "of": "filter", "filter": json.dumps({"error": name, "status": ["dead"]})}
        asked = operator.post("/bulk", data=form | {"back": f"/errors/{name}"})
        assert asked.status_code == 200, asked.text
        assert 'name="token"' in asked.text
    with dashboard.visitor("producer") as producer:
        assert f"/errors/{name}" not in producer.get(f"/jobs/{dead}").text


def test_of_many_problems_the_most_urgent_are_shown(dashboard: Dashboard, monkeypatch: pytest.MonkeyPatch) -> None:
    acme = dashboard.app.tenant("acme")
    for n in range(3):
        acme.enqueue("send_email", {"to": "a"}, queue=f"nobody-{n}")
    with dashboard.visitor("viewer") as viewer:
        told = [each.what for each in acme.overview().problems]
        assert viewer.get("/").text.count('<li class="problem"') == len(told) >= 3
        monkeypatch.setattr("headway.dashboard.pages.overview._MOST_PROBLEMS", 2)
        monkeypatch.setattr("headway.dashboard.pages.overview._FIRST_PROBLEMS", 1)
        shown = viewer.get("/").text
        assert shown.count('<li class="problem"') == 2
        assert f"<summary>{len(told) - 1} more</summary>" in shown
        assert f"And {len(told) - 2} that are less urgent: <code>headway overview</code>" in shown
        assert "no worker listens to queue nobody-0".capitalize() in unescape(shown)
