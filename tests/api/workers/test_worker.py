"""Workers over HTTP: claims, heartbeats, ends; as the workers of any language see them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headway import Headway
from headway.api.workers.gateway import Gateway
from headway.errors import StoreUnavailable
from tests.api.workers.conftest import Worker


def _welcome(app: Headway, count: int = 1, **options: Any) -> list[str]:
    return [app.enqueue("welcome", {"user_id": n}, **options).id for n in range(count)]


def test_a_job_is_claimed_shown_and_completed(app: Headway, work: Any) -> None:
    assert work.claim() == []
    (job_id,) = _welcome(app)
    (job,) = work.claim()
    assert (job["id"], job["fence"], job["attempt_no"], job["kind"]) == (job_id, 1, 1, "welcome")
    assert (job["payload"], job["tries"], job["queue"], job["step"]) == ({"user_id": 0}, 0, "mail", None)
    trace = job_id.replace("-", "")
    assert (job["trace_id"], job["traceparent"], job["tracestate"]) == (trace, f"00-{trace}-{trace[16:]}-01", None)
    (worker,) = [each for each in app.workers() if each.id == work.id]
    assert worker.queues == {"mail": 10}
    said = work.say("heartbeat", job, progress=0.5, note="half", log="one\n")
    assert (said.status_code, said.json()["cancel_requested"]) == (200, False), said.text
    work.say("heartbeat", job, log="two\n")
    shown = app.get(job_id)
    assert (shown.progress, shown.progress_note, shown.log_tail, shown.log_end) == (0.5, "half", "one\ntwo\n", 8)
    app.cancel(job_id)
    assert work.say("heartbeat", job).json()["cancel_requested"] is True
    said = work.say("complete", job, result={"big": 10**30})
    assert said.json() == {"id": job_id, "fence": 1, "status": "succeeded", "job": None}
    assert app.result(job_id).value == {"big": 10**30}
    # the same again: its answer may have been lost
    assert work.say("complete", job, result=2).json()["status"] == "succeeded"
    assert work.say("heartbeat", job).status_code == 409


@pytest.mark.parametrize("secret", ["", "password=hunter2secret "])
def test_a_repeated_heartbeat_adds_nothing_twice(app: Headway, work: Any, secret: str) -> None:
    (job_id,) = _welcome(app)
    (job,) = work.claim()
    assert job["log_at"] == 0
    lines = [f"{secret}one\n", "tw\u00f6 \U0001f600\n", "three\n"]

    def say(*said: int) -> str:
        """Lines, in a heartbeat for one job or for many; gives the log."""
        text = "".join(lines[each] for each in said)
        report = {"log": text, "log_at": len("".join(lines[: said[0]]))}
        many = {"jobs": [{"id": job_id, "fence": job["fence"], **report}]}
        answer = work.many("heartbeat", **many) if len(said) > 1 else work.say("heartbeat", job, **report)
        assert answer.status_code == 200, answer.text
        return app.get(job_id).log_tail

    first = say(0)
    assert say(0) == first
    assert first.endswith("one\n")
    assert say(0, 1) == first + lines[1]  # its answer was lost, and there is more to say
    assert say(1) == say(0, 1) == first + lines[1]
    assert say(2) == first + lines[1] + lines[2]
    assert app.get(job_id).log_end == len(first + lines[1] + lines[2])
    # the next execution begins anew
    assert work.say("fail", job, error="boom", delay=0).status_code == 200
    (job,) = work.claim()
    assert say(0) == first


def test_a_failure_follows_the_rows_own_policy(app: Headway, work: Any) -> None:
    (job_id,) = _welcome(app, max_attempts=2)
    (job,) = work.claim()
    body = {"worker_id": work.id, "attempt_no": 1, "error_text": "boom", "delay": 0, "exit_code": 3}
    said = work.ask.post(f"/worker/jobs/{job_id}/fail", json=body)
    assert (said.status_code, said.json()["status"]) == (200, "queued"), said.text
    assert app.attempts(job_id)[0].exit_code == 3
    (again,) = work.claim()
    assert (again["fence"], again["tries"]) == (2, 1)
    # a stale fence is refused and changes nothing
    for what, more in (("complete", {"result": 1}), ("fail", {"error": "late", "delay": 0, "retry": False})):
        said = work.say(what, job | {"fence": 3}, **more)
        assert (said.status_code, said.json()["code"]) == (409, "LeaseLost"), said.text
    assert app.get(job_id).status == "running"
    assert work.say("fail", again, error="boom").json()["status"] == "dead"
    (job_id,) = _welcome(app)
    assert work.say("fail", work.claim()[0], error="no use", retry=False).json()["status"] == "dead"


def test_a_repeated_claim_gives_the_same_jobs(app: Headway, work: Any) -> None:
    _welcome(app, 3)
    first = work.claim(limit=2, claim_id="a")
    assert work.claim(limit=2, claim_id="a") == first
    assert len(work.claim(limit=2, claim_id="b")) == 1


def test_a_worker_id_belongs_to_the_key_that_first_used_it(app: Headway, client: Any, work: Any) -> None:
    _welcome(app)
    (job,) = work.claim()
    other = Worker(client(app.create_api_key("other", "worker", tenant=None).text))
    other.id = work.id
    for said in (
        other.ask.post("/worker/jobs/claim", json={"worker_id": work.id}),
        other.say("complete", job),
        other.many("heartbeat", jobs=[]),
    ):
        assert said.status_code == 403, said.text
    thief = Worker(other.ask)
    thief.claim("none")
    for what, more in (
        ("complete", {}),
        ("fail", {"error": "x"}),
        ("heartbeat", {}),
        ("complete", {"outcome": {"done": 1}}),
    ):
        assert thief.say(what, job, **more).status_code == 409
    assert thief.many("release", jobs=[{"id": job["id"], "fence": 1}]).json()["lost"] == [{"id": job["id"], "fence": 1}]
    assert app.get(job["id"]).status == "running"


def test_keys_claim_for_their_tenant_queues_and_kinds(app: Headway, client: Any) -> None:
    acme = app.tenant("acme")
    mine = Worker(client(acme.create_api_key("w", "worker", queues=["mail"], kinds=["welcome"]).text))
    _welcome(app)
    (job_id,) = _welcome(acme)
    report = acme.enqueue("report", queue="mail").id
    (job,) = mine.claim()
    assert job["id"] == job_id
    found = app.get(report)
    assert (found.status, found.fence) == ("queued", 0)  # not for this key: nothing happens to it
    said = mine.ask.post("/worker/jobs/claim", json={"worker_id": mine.id, "queues": ["default"]})
    assert said.status_code == 403
    other = app.tenant("other").enqueue("welcome", {"user_id": 1}).id
    assert mine.say("complete", {"id": other, "fence": 1}).status_code == 404


def test_many_at_once(app: Headway, work: Any) -> None:
    _welcome(app, 5)
    one, two, three, four, five = work.claim()
    keys = [{"id": job["id"], "fence": job["fence"]} for job in (one, two, three, four, five)]
    said = work.many("heartbeat", jobs=[{"id": one["id"].upper(), "fence": 1, "note": "begun", "log": "one"}])
    assert said.json()["released"] == []  # their claim's answer may be under way
    assert (app.get(one["id"]).progress_note, app.get(one["id"]).log_tail) == ("begun", "one")
    app.cancel(one["id"])
    said = work.many("heartbeat", jobs=[*keys[:4], {"id": one["id"].replace(one["id"][:8], "0" * 8), "fence": 1}])
    body = said.json()
    assert (body["cancel_requested"], len(body["lost"])) == ([keys[0]], 1)
    assert body["released"] == [keys[4]]
    assert (app.get(five["id"]).status, app.get(five["id"]).tries) == ("queued", 0)
    ends = [keys[0] | {"result": 7}, keys[1] | {"error": "boom", "retry": False}, keys[2], keys[4]]
    body = work.many("settle", jobs=ends).json()
    assert [each["status"] for each in body["settled"]] == ["succeeded", "dead", "succeeded"]
    assert body["lost"] == [keys[4]]
    assert work.many("release", jobs=[keys[3], keys[0]]).json() == {"released": [keys[3]], "lost": [keys[0]]}
    assert (app.get(four["id"]).status, app.attempts(four["id"])) == ("queued", [])
    assert len(work.claim()) == 2
    assert work.many("release", leave=True).status_code == 200
    assert work.id not in [worker.id for worker in app.workers()]
    assert work.many("heartbeat", jobs=[]).status_code == 409


def test_a_machine_runs_step_by_step(app: Headway, work: Any, client: Any) -> None:
    app.change_definition("order", queue="mail")
    job_id = app.enqueue("order", {"n": 1}).id
    (job,) = work.claim(kinds=["order@2"])  # which has not begun, so that any version may take it
    said = work.say("complete", job, outcome={"next": "pay", "state": {"n": 2}}, **{"continue": True}).json()
    assert (said["status"], said["job"]["fence"], said["job"]["step"]) == ("running", 2, "pay")
    assert said["job"]["state"] == {"n": 2}
    # its answer was lost: the same again
    again = work.say("complete", job, outcome={"next": "pay", "state": {"n": 2}}, **{"continue": True}).json()
    assert again["job"] == said["job"]
    job = said["job"]
    said = work.say("complete", job, outcome={"await": "paid", "then": "ship", "timeout": "1h"}).json()
    assert (said["status"], said["job"]) == ("waiting", None)
    sender = {"traceparent": f"00-{7:032x}-00000000000000aa-01", "tracestate": "shop=1"}
    root = client(app.create_api_key("root", "superadmin").text)
    said = root.post(f"/jobs/{job_id}/signal", json={"name": "paid", "payload": {"sum": 5}}, headers=sender)
    assert said.status_code == 201, said.text
    app.signal(job_id, "noise")
    (job,) = work.claim()
    traces = [{name: each[name] for name in sender} for each in job["signals"]]
    assert traces == [sender, dict.fromkeys(sender)], "a step knows what sent the signal that woke it"
    assert (job["step"], job["signals"][0]["payload"], job["state"]) == ("ship", {"sum": 5}, {"n": 2})
    children = [{"kind": "welcome", "payload": {"user_id": 10**30 + n}} for n in range(2)]
    read = {"signals": [job["signals"][0]["id"]]}
    said = work.say("complete", job, outcome={"spawn": children, "then": "end"} | read)
    assert said.json()["status"] == "waiting", said.text
    assert [each.status for each in app.signals(job_id)] == ["consumed", "pending"]
    sent = root.get(f"/jobs/{job_id}/signals").json()["items"]
    assert [each["created_by"] for each in sent] == [f"key:{root.get('/session').json()['key']['id']}", None]
    for child in work.claim():
        work.say("complete", child, result=child["payload"]["user_id"] - 10**30)
    (job,) = work.claim(kinds=["welcome", "order@1"])  # the version that its first outcome named
    assert (job["step"], [child["result"] for child in job["children"]]) == ("end", [0, 1])
    assert work.say("complete", job, outcome={"sleep": 0, "then": "last"}).json()["status"] == "queued"
    (job,) = work.claim()
    assert work.say("complete", job, outcome={"replay": True, "state": {"n": 3}}).json()["status"] == "queued"
    (job,) = work.claim()
    assert (job["step"], job["state"]) == ("last", {"n": 3})
    # a result ends the machine
    assert work.say("complete", job, result="over").json()["status"] == "succeeded"
    assert [each.outcome for each in app.history(job_id)] == ["next", "await", "spawn", "sleep", "replay", "done"]
    app.enqueue("order", {"n": 1})
    (job,) = work.claim()
    assert work.say("complete", job, outcome={"stop": "enough"}).json()["status"] == "failed"
    # a worker of another version leaves it to others
    job_id = app.enqueue("order", {"n": 1}).id
    (job,) = work.claim()
    assert work.say("complete", job, outcome={"next": "pay"}).json()["status"] == "queued"
    assert (work.claim(kinds=["order@2"]), app.get(job_id).status) == ([], "scheduled")


def test_a_step_gets_payload_state_signals_and_results_as_they_were_sent(app: Headway, work: Any, client: Any) -> None:
    app.change_definition("report", queue="mail")
    root = client(app.create_api_key("root", "superadmin").text)
    payload, state = '{"n": 1.10, "pi": 3.14159265358979323846}', '{"sum": 0.30}'
    job_id = root.post("/jobs", content=f'{{"kind": "report", "payload": {payload}}}').json()["id"]
    work.claim()
    path, own = f"/worker/jobs/{job_id}/complete", f'"worker_id": "{work.id}", "continue": true'
    for fence, more in ((1, f', "state": {state}'), (2, "")):
        said = work.ask.post(path, content=f'{{{own}, "fence": {fence}, "outcome": {{"next": "pay"{more}}}}}')
        assert said.status_code == 200, said.text
        assert f'"payload":{payload}' in said.text
        assert f'"state":{state}' in said.text
    signal = f'{{"name": "paid", "payload": {state}}}'
    assert root.post(f"/jobs/{job_id}/signal", content=signal).status_code == 201
    said = work.ask.post(path, content=f'{{{own}, "fence": 3, "outcome": {{"next": "ship"}}}}')
    assert f'"name":"paid","payload":{state}' in said.text
    assert work.many("release", jobs=[{"id": job_id, "fence": 4}]).status_code == 200
    again = {"worker_id": work.id, "queues": ["mail"]}
    assert f'"name":"paid","payload":{state}' in work.ask.post("/worker/jobs/claim", json=again).text
    spawn = '{"spawn": [{"kind": "welcome", "payload": {"user_id": 1}}], "then": "end"}'
    assert work.ask.post(path, content=f'{{{own}, "fence": 5, "outcome": {spawn}}}').status_code == 200
    (child,) = work.claim()
    ended = f'{{"worker_id": "{work.id}", "fence": 1, "result": {state}}}'
    assert work.ask.post(f"/worker/jobs/{child['id']}/complete", content=ended).status_code == 200
    assert f'"result":{state}' in root.get(f"/jobs/{job_id}/children").text
    assert f'"result":{state}' in work.ask.post("/worker/jobs/claim", json=again).text


def test_a_fork_keeps_numbers_of_any_length(app: Headway, work: Any, client: Any) -> None:
    app.change_definition("order", queue="mail")
    root = client(app.create_api_key("root", "superadmin").text)
    job_id = root.post("/jobs", json={"kind": "order", "payload": {"n": 10**30}}).json()["id"]
    (job,) = work.claim()
    work.say("complete", job, outcome={"next": "pay", "state": {"n": 10**31}}, **{"continue": True})
    for asked, state in (({"at": 2}, 10**31), ({"state": {"n": 10**32}}, 10**32), ({"state": None}, 10**31)):
        made = root.post(f"/jobs/{job_id}/fork", json=asked)
        assert made.status_code == 201, made.text
        assert (made.json()["payload"], made.json()["state"]) == ({"n": 10**30}, {"n": state})


def test_results_too_large_for_a_row_spill(app: Headway, client: Any, work: Any, tmp_path: Path) -> None:
    app.configure(artifacts=str(tmp_path / "artifacts"))
    app.job(name="survey", queue="mail", spill=True)(lambda: None)
    app.run("elsewhere", until_idle=True)  # a worker declares the kind
    app.change_definition("order", queue="mail")
    large = "ü" * (app.settings.result_limit // 2)
    parent = app.enqueue("order", {"n": 1}).id
    (job,) = work.claim()
    work.say("complete", job, outcome={"spawn": [{"kind": "survey", "payload": {}}], "then": "end"})
    (child,) = work.claim()
    stranger = Worker(client(app.create_api_key("stranger", "worker", tenant=None).text))
    assert stranger.claim() == []
    assert stranger.say("complete", child, result=large).status_code == 409
    assert work.say("complete", {**child, "fence": 7}, result=large).status_code == 409
    assert app.artifacts(child["id"]) == []
    assert work.many("settle", jobs=[{"id": child["id"], "fence": 1, "result": large}]).status_code == 200
    assert work.say("complete", child, result="again: its answer was lost").json()["status"] == "succeeded"
    (kept,) = app.artifacts(child["id"])
    assert (kept.name, kept.size) == (".result.json", len(large.encode()) + 2)
    assert app.result(child["id"]).value == large
    # the result names the file, and a step that joins has the value
    ask = client(app.create_api_key("operator", "operator", tenant="default").text)
    said = ask.get(f"/jobs/{child['id']}/result").json()
    assert (said["result"], said["artifact"]["size"]) == ({"$artifact": kept.id}, kept.size)
    assert ask.get(f"/artifacts/{said['artifact']['id']}/content").json() == large
    assert ask.get(f"/jobs/{child['id']}").json()["result"] == {"$artifact": kept.id}
    (stored,) = (tmp_path / "artifacts").rglob(kept.id)
    stored.rename(tmp_path / "away")
    assert work.claim() == []
    last = app.attempts(parent)[-1]  # as a worker of its own would: another try, by the job's policy
    assert (app.get(parent).tries, last.status, "ArtifactGone: " in str(last.error)) == (1, "failed", True)
    (tmp_path / "away").rename(stored)
    app.change(parent, scheduled_for=None)
    (job,) = work.claim()
    assert [each["result"] for each in job["children"]] == [large]
    # a machine that does not spill is refused, and its step is still its worker's
    assert work.say("complete", job, outcome={"done": large}).status_code == 422
    assert work.say("complete", job, outcome={"done": {"$artifact": kept.id}}).json()["status"] == "succeeded"
    assert app.result(parent).value == {"$artifact": kept.id}
    assert ask.get(f"/jobs/{parent}/result").json()["artifact"] is None


def test_payloads_too_large_for_a_row_spill(app: Headway, client: Any, work: Any, tmp_path: Path) -> None:
    app.configure(artifacts=str(tmp_path / "artifacts"))
    app.job(name="survey", queue="mail", spill=True)(lambda text: None)
    app.run("elsewhere", until_idle=True)
    large = "ü" * (app.settings.payload_limit // 2)
    ask = client(app.create_api_key("producer", "producer", tenant="default").text)
    keyed = {"kind": "survey", "payload": {"text": large}, "idempotency_key": "one"}
    said = ask.post("/jobs", json=keyed)
    assert (said.status_code, ask.post("/jobs", json=keyed).status_code) == (201, 200)
    assert ask.post("/jobs", json={"kind": "welcome", "payload": {"text": large}}).status_code == 422
    assert ask.post("/jobs", json={"kind": "survey", "payload": {"text": 4 * large}}).status_code == 413
    app.enqueue("survey", {"text": large})
    (kept,) = app.artifacts(said.json()["id"])
    assert ask.get(f"/jobs/{kept.job_id}").json()["payload"] == {"$artifact": kept.id}
    assert [job["payload"] for job in work.claim(limit=5)] == [{"text": large}] * 2
    (job_id,) = (app.enqueue("survey", {"text": large}).id,)
    (stored,) = (tmp_path / "artifacts").rglob(app.artifacts(job_id)[0].id)
    stored.unlink()
    assert (work.claim(), app.attempts(job_id)[-1].status, app.get(job_id).tries) == ([], "failed", 1)
    # a folder that this server does not have: given back
    app.configure(artifacts=str(tmp_path / "elsewhere"))
    job_id = app.enqueue("survey", {"text": large}).id
    app.configure(artifacts=str(tmp_path / "artifacts"))
    assert (work.claim(), app.get(job_id).status, app.get(job_id).tries) == ([], "scheduled", 0)


def test_what_is_not_valid_is_refused(app: Headway, work: Any) -> None:
    _welcome(app)
    (job,) = work.claim()
    for what, more in (
        ("complete", {"outcome": {}}),
        ("complete", {"outcome": {"next": "a", "stop": "b"}}),
        ("complete", {"outcome": {"next": "a", "timeout": "1h"}}),
        ("complete", {"outcome": {"await": []}}),
        ("complete", {"outcome": {"spawn": [{"kind": "none"}]}}),
        ("complete", {"outcome": {"next": "no name!"}}),
        ("complete", {"fence": 0}),
        ("complete", {"attempt_no": 2}),
        ("complete", {"result": "x" * (2**20 + 1)}),
        ("fail", {}),
        ("fail", {"error": "x", "delay": -1}),
        ("heartbeat", {"progress": 2}),
    ):
        said = work.say(what, job, **more)
        assert said.status_code == 422, (what, said.text)
    for body in (
        {"worker_id": "me"},
        {"worker_id": work.id, "limit": 0},
        {"worker_id": work.id, "queues": ["no name!"]},
        {"worker_id": work.id, "wait": "soon"},
        {"worker_id": work.id, "claim_id": ""},
    ):
        assert work.ask.post("/worker/jobs/claim", json=body).status_code == 422
    for body in ({"jobs": []}, {"jobs": [{"id": "x", "fence": 1}]}, {"jobs": [{"id": job["id"], "fence": 1}] * 2}):
        assert work.many("settle", **body).status_code == 422
    assert work.say("complete", {"id": "nonsense", "fence": 1}).status_code == 404
    assert app.get(job["id"]).status == "running"


def test_ends_are_refused_together_with_a_pointer_to_the_fault(app: Headway, work: Any) -> None:
    app.change_definition("order", queue="mail")
    _welcome(app, 2)
    app.enqueue("order", {"n": 1})
    jobs = work.claim()
    good = [{"result": 1}, {"error": "broken"}, {"outcome": {"next": "pay"}}]
    for bad, pointer in (
        ({"outcome": {"next": "no name!"}}, "/outcome"),
        ({"outcome": {"next": "pay", "signals": ["none"]}}, "/outcome"),
        ({"outcome": {"spawn": [{"kind": "none"}]}}, "/outcome"),
        ({"outcome": {"done": "x" * (2**20 + 1)}}, "/outcome"),
        ({"result": "x" * (2**20 + 1)}, "/result"),
        ({"error": "broken", "delay": -1}, "/delay"),
    ):
        ends = [{"id": job["id"], "fence": 1, **said} for job, said in zip(jobs, [*good[:2], bad], strict=True)]
        refused = work.many("settle", jobs=ends)
        assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, f"/jobs/2{pointer}")
        refused = work.say("complete" if "error" not in bad else "fail", jobs[2], **bad)
        assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, pointer)
        alone = work.many("settle", jobs=ends[2:]).json()
        assert (alone["detail"], alone["errors"][0]["pointer"]) == (refused.json()["detail"], f"/jobs/0{pointer}")
        assert {app.get(job["id"]).status for job in jobs} == {"running"}, "nothing of a refused request is written"
    ends = [{"id": job["id"], "fence": 1, **said} for job, said in zip(jobs, good, strict=True)]
    settled = work.many("settle", jobs=ends).json()["settled"]
    assert [each["status"] for each in settled] == ["succeeded", "scheduled", "queued"]


def test_a_heartbeat_that_is_refused_changes_nothing(app: Headway, work: Any) -> None:
    _welcome(app, 2)
    one, two = work.claim()
    assert work.many("heartbeat", jobs=[{"id": each["id"], "fence": 1} for each in (one, two)]).status_code == 200
    (before,) = (each for each in app.workers() if each.id == work.id)
    refused = work.many("heartbeat", jobs=[{"id": one["id"], "fence": 1, "progress": 2}])
    assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, "/jobs/0/progress")
    refused = work.say("heartbeat", one, progress=-1)
    assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, "/progress")
    (after,) = (each for each in app.workers() if each.id == work.id)
    assert (after.lease_expires_at, app.get(two["id"]).status) == (before.lease_expires_at, "running")


def test_a_worker_that_was_reaped_begins_anew(app: Headway, work: Any) -> None:
    _welcome(app)
    (job,) = work.claim()
    app.declare_dead(work.id)
    assert work.say("complete", job).status_code == 409
    assert work.many("heartbeat", jobs=[{"id": job["id"], "fence": 1}]).status_code == 409
    assert work.claim("none") == []
    assert work.id in [worker.id for worker in app.workers()]


def test_a_worker_that_is_declared_dead_while_it_registers_is_told(
    app: Headway, work: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    add = Gateway._add

    async def add_in_vain(*given: Any) -> None:
        await add(*given)
        await app.adeclare_dead(work.id)

    monkeypatch.setattr(Gateway, "_add", add_in_vain)
    said = work.ask.post("/worker/jobs/claim", json={"worker_id": work.id, "queues": ["mail"]})
    assert (said.status_code, said.json()["code"]) == (409, "LeaseLost"), said.text


def test_a_queue_that_could_not_be_noted_is_noted_at_the_next_claim(
    app: Headway, work: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    work.claim("mail")

    def away(*_: Any, **__: Any) -> Any:
        raise StoreUnavailable("away")

    with monkeypatch.context() as outage:
        outage.setattr(app.store.ops, "heartbeat", away)
        said = work.ask.post("/worker/jobs/claim", json={"worker_id": work.id, "queues": ["reports"], "limit": 10})
        assert said.status_code == 503
    work.claim("reports")
    (worker,) = [each for each in app.workers() if each.id == work.id]
    assert worker.queues == {"mail": 10, "reports": 10}


def test_pauses_and_limits_hold(app: Headway, work: Any) -> None:
    _welcome(app, 3)
    app.pause("mail")
    assert work.claim() == []
    app.resume("mail")
    app.limit(kind="welcome", max_running=1)
    assert len(work.claim()) == 1


def test_what_programs_wrote_is_shown_without_secrets_whatever_it_is(app: Headway, work: Any) -> None:
    """The text is the program's, not the worker's: one that holds a NUL must not keep a worker from saying so."""
    nasty = "login with password=hunter2 at postgres://app:hunter2@db/main\0"
    clean = "login with password=[redacted] at postgres://app:[redacted]@db/main\\x00"
    app.change_definition("order", queue="mail")
    jobs = [*_welcome(app, 2, max_attempts=1), app.enqueue("order", {"n": 1}).id]
    one, two, machine = work.claim()
    said = {"error": nasty, "stdout_tail": nasty, "stderr_tail": "x" * 70_000 + nasty}
    for _ in range(2):
        assert work.say("heartbeat", one, progress=0.5, note=nasty * 20, log=nasty).status_code == 200
    shown = app.get(jobs[0])
    assert (shown.log_tail, shown.log_end) == (clean * 2, len(clean) * 2)
    assert shown.progress_note == (clean * 20)[:512]
    held = [{"id": each["id"], "fence": 1, "log": nasty} for each in (two, machine)]
    assert work.many("heartbeat", jobs=[*held, {"id": one["id"], "fence": 1}]).status_code == 200
    assert work.say("fail", one, **said).json()["status"] == "dead"
    assert work.many("settle", jobs=[{"id": two["id"], "fence": 1, **said}]).json()["settled"][0]["status"] == "dead"
    assert work.say("complete", machine, outcome={"stop": nasty}).json()["status"] == "failed"
    for job_id in jobs:
        assert app.get(job_id).error == clean
    for job_id in jobs[:2]:
        (attempt,) = app.attempts(job_id)
        assert (attempt.error, attempt.stdout_tail) == (clean, clean)
        assert attempt.stderr_tail is not None
        assert (len(attempt.stderr_tail), attempt.stderr_tail[-len(clean) :]) == (65_536, clean)
    (job_id,) = _welcome(app)
    (job,) = work.claim()
    for what, more in (
        ("complete", {"result": "\0"}),
        ("complete", {"result": {"error": ["\0"]}}),
        ("complete", {"outcome": {"next": "\0"}}),
        ("complete", {"outcome": {"next": "a", "state": {"note": "\0"}}}),
        ("complete", {"outcome": {"spawn": [{"kind": "welcome", "payload": {"log": "\0"}}]}}),
        ("complete", {"outcome": {"spawn": [{"kind": "welcome\0"}]}}),
        ("fail", {"error": "x", "delay": "\0"}),
    ):
        assert work.say(what, job, **more).status_code == 422, more
    assert app.get(job_id).status == "running"


def test_a_secret_that_two_heartbeats_split_is_masked(app: Headway, work: Any) -> None:
    """A worker sends what its program wrote until then, which may end anywhere."""
    split = {
        "password=hun|ter2 and more": "password=[redacted] and more",
        "at postgres://app:hun|ter2@db/main": "at postgres://app:[redacted]@db/main",
        "it said password=|hunter2": "it said password=[redacted]",
        "password=hunter2|\nnext line": "password=[redacted]\nnext line",
        "plain |text": "plain text",
    }
    for said, shown in split.items():
        (job_id,) = _welcome(app)
        (job,) = work.claim()
        for part in said.split("|"):
            assert work.say("heartbeat", job, log=part).status_code == 200
        found = app.get(job_id)
        assert (found.log_tail, found.log_end) == (shown, len(shown)), said
        work.say("complete", job)


def test_a_lone_surrogate_in_an_error_is_kept_as_its_escape(app: Headway, work: Any) -> None:
    """Python's surrogateescape makes them of bytes that are not UTF-8; json.dumps sends them so."""
    (job_id,) = _welcome(app, max_attempts=1)
    (job,) = work.claim()
    said = '{"worker_id": "%s", "fence": 1, "error": "%s"}'
    path = f"/worker/jobs/{job['id']}/fail"
    body = said % (work.id, r"caf\udce9 \\ud800 \ud83d\ude00 \uD83D")
    result = body.replace('"error"', '"result"')  # is stored as it was sent, and what nobody could read is refused
    assert work.ask.post(path.replace("fail", "complete"), content=result).status_code == 400
    assert work.ask.post(path, content=body).status_code == 200
    assert app.get(job_id).error == "caf\\udce9 \\ud800 \U0001f600 \\uD83D"
