"""A retry with another time, budget, payload or place, and a fork at another step."""

from __future__ import annotations

from typing import Any

from headway import Context, Done, Headway, Machine, Next, step
from headway.testing import drain


def test_a_retry_sets_time_budget_payload_and_place(app: Headway, client: Any, keys: dict[str, str]) -> None:
    ask = client(keys["operator"])
    made = ask.post("/jobs", json={"kind": "welcome", "payload": {"user_id": 1}}).json()["id"]
    behind = ask.post("/jobs", json={"kind": "welcome", "payload": {"user_id": 2}}).json()["id"]
    ask.post(f"/jobs/{made}/cancel")
    retry = f"/jobs/{made}/retry"
    for body, status in (
        ({"payload": {"user_id": "no number"}}, 422),
        ({"max_attempts": 0}, 422),
        ({"delay": "1h", "scheduled_for": "2030-01-02T03:04:05Z"}, 422),
        ({"queue": "other"}, 422),
    ):
        assert ask.post(retry, json=body).status_code == status, body
        assert app.get(made).status == "canceled"
    said = ask.post(
        retry, json={"scheduled_for": "2030-01-02T03:04:05Z", "max_attempts": 7, "payload": {"user_id": 3}}
    ).json()
    assert (said["id"], said["status"], said["max_attempts"], said["payload"]) == (made, "scheduled", 7, {"user_id": 3})
    assert said["scheduled_for"] == "2030-01-02T03:04:05Z"
    ask.post(f"/jobs/{made}/cancel")
    assert ask.post(retry, json={"keep_place": False}).json()["status"] == "queued"
    line = ask.get("/jobs?queue=mail&order=run").json()["items"]
    assert [each["id"] for each in line] == [behind, made]
    ask.post(f"/jobs/{made}/cancel")
    assert ask.post(retry).json()["status"] == "queued", "a body is not needed"


def test_a_fork_begins_with_another_step(app: Headway, client: Any, keys: dict[str, str]) -> None:
    code = Headway(app.url)

    @code.machine
    class Order(Machine, name="order_machine"):
        @step
        def start(self, ctx: Context[Any]) -> Next:
            return Next(self.end, {"n": 1})

        @step
        def end(self, ctx: Context[Any]) -> Done:
            return Done(ctx.state)

    made = code.tenant("acme").enqueue("order_machine", {})
    drain(code)
    ask = client(keys["operator"])
    fork = f"/jobs/{made.id}/fork"
    body, key = {"at": 2, "step": "start", "state": {"n": 5}}, {"Idempotency-Key": "k"}
    said = ask.post(fork, json=body, headers=key)
    assert (said.status_code, said.json()["step"], said.json()["state"]) == (201, "start", {"n": 5})
    again = ask.post(fork, json=body, headers=key)
    assert (again.status_code, again.json(), again.headers["idempotent-replayed"]) == (201, said.json(), "true")
    assert ask.post(fork, json={"at": 1}, headers=key).status_code == 409
    assert ask.post(fork, json={"step": "no step"}).status_code == 422
    assert ask.post(f"/jobs/{made.id}/retry", json={"payload": {"n": 2}}).status_code == 409
    assert app.get(made.id).status == "succeeded"
    drain(code)
    assert app.result(said.json()["id"]).value == {"n": 1}
    code.close()
