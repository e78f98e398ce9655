"""What a person can do with a button: the route that it calls, what it says first, and how to do it elsewhere."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import quote

import msgspec

from headway.api.routes import PREFIX
from headway.api.wire.problems import Refused
from headway.dashboard.list_table import curl, of_tenant_in_cli, of_tenant_in_python
from headway.dashboard.visit import Visit
from headway.model.status import FINISHED
from headway.shell import quoted

Entry = Literal["text", "json", "number"]
_PLACEHOLDER = re.compile(r"\{([a-z]+)\}")


@dataclass(frozen=True)
class Field:
    """Something that the person fills in."""

    name: str
    label: str
    entry: Entry = "text"
    hint: str = ""
    required: bool = False
    value: str = ""


@dataclass(frozen=True)
class Action:
    """One button."""

    name: str
    label: str
    method: str
    path: str
    says: str  # what will happen; {id} and the like are filled in
    done: str
    cli: str
    python: str
    fields: tuple[Field, ...] = ()
    danger: bool = False
    confirm: str = ""  # the button of the question, where its label could mean "no"
    undo: str | None = None  # the action that takes it back
    opens: str | None = None  # the page of what it made
    leads_to: str | None = None  # where what it was about is gone: the page after it
    sends: Mapping[str, Any] | None = None  # what the API is sent beside what the person fills in

    def allowed(self, visit: Visit) -> bool:
        return visit.may(self.method, self.path)

    def body(self, form: Mapping[str, str]) -> Any:
        """What the API is sent; a field that was left empty is not."""
        given: dict[str, Any] = dict(self.sends or {})
        for field in self.fields:
            text = form.get(field.name, "").strip()
            if text:
                given[field.name] = decoded(field.name, text, field.entry)
        return given if self.fields or self.sends else None

    def copied(self, visit: Visit, params: Mapping[str, str], origin: str) -> dict[str, str]:
        """The same from a shell and from Python."""
        path = self.path
        path = _PLACEHOLDER.sub(lambda found: quote(params.get(found[1], found[0]), safe=""), path)
        sent = ["-H", "Content-Type: application/json", "-d", json.dumps(self.sends or {})]
        data = sent if self.fields or self.sends else []
        literals = {name: json.dumps(value, ensure_ascii=False) for name, value in params.items()}
        whose = visit.whose if "key" in params else None  # a train has its name only within its tenant
        return {
            "CLI": self._typed(params, whose),
            "curl": f"{curl(visit)} {quoted(['-X', self.method, *data, f'{origin}{PREFIX}{path}'])}",
            "Python": of_tenant_in_python(self.python.format(**literals), whose),
        }

    def _typed(self, params: Mapping[str, str], tenant: str | None) -> str:
        words = [params.get(word[1:-1], word) if word.startswith("{") else word for word in self.cli.split()]
        if any(word in params.values() and word.startswith("-") for word in words):  # it would be taken for an option
            names = [word for word in words if word in params.values()]
            words = [word for word in words if word not in names]
            return f"{of_tenant_in_cli(quoted(['headway', *words]), tenant)} {quoted(['--', *names])}"
        return of_tenant_in_cli(quoted(["headway", *words]), tenant)


def actions_for(job: Mapping[str, Any]) -> list[Action]:
    """The buttons on a job's page: what makes sense in its status, whether or not the visitor may."""
    if job["status"] in FINISHED:
        names = ["retry-job", "delete-job"]
    elif job["status"] == "scheduled":
        names = ["run-job", "schedule-job", "cancel-job"]
    elif job["status"] == "queued" and not job["tries"]:
        names = ["schedule-job", "cancel-job"]
    else:
        names = ["cancel-job"]
    return [ACTIONS[name] for name in names]


def decoded(name: str, text: str, entry: Entry) -> Any:
    """What the API is sent of a field; raises `Refused` where the text cannot be it."""
    if entry == "number" and not text.isdecimal():
        raise Refused(422, f"{name}={text!r} is not a whole number")
    if entry == "json":
        try:
            json.loads(text)
        except ValueError as error:
            raise Refused(422, f"{name} is not JSON: {error}") from None
        return msgspec.Raw(text.encode())
    return int(text) if entry == "number" else text


_REASON = Field("reason", "Reason", hint="It is kept in the audit.")

ACTIONS: dict[str, Action] = {
    each.name: each
    for each in (
        Action(
            "cancel-job",
            "Cancel",
            "POST",
            "/jobs/{id}/cancel",
            "The job will not run. If it is running now, it is asked to stop, and ends canceled when it does.",
            "The job is canceled, or was asked to stop.",
            "jobs cancel {id}",
            "app.cancel({id})",
            (_REASON,),
            danger=True,
            confirm="Cancel the job",
            undo="retry-job",
        ),
        Action(
            "retry-job",
            "Retry",
            "POST",
            "/jobs/{id}/retry",
            "The job runs again from its beginning, with all of its attempts; a machine goes on from its last step.",
            "The job is queued again.",
            "jobs retry {id}",
            "app.retry({id})",
            (Field("scheduled_for", "Not before", hint="A time like 2027-01-01T08:00Z. Empty: now."),),
        ),
        Action(
            "run-job",
            "Run now",
            "POST",
            "/jobs/{id}/run",
            "The job is due now rather than at its time. It starts when a worker has room.",
            "The job is due now.",
            "jobs change {id} --scheduled-for now",
            "app.change({id}, scheduled_for=None)",
            undo="schedule-job",
        ),
        Action(
            "schedule-job",
            "Run later",
            "PATCH",
            "/jobs/{id}",
            "The job does not start before this time.",
            "The job has its new time.",
            "jobs change {id} --scheduled-for TIME",
            "app.change({id}, scheduled_for=time)",
            (Field("scheduled_for", "Not before", hint="A time like 2027-01-01T08:00Z.", required=True),),
        ),
        Action(
            "fork-job",
            "Fork from here",
            "POST",
            "/jobs/{id}/fork",
            "A new machine starts at a step of this one, with the state it had there. This one stays as it is.",
            "This machine is the fork.",
            "machines fork {id}",
            "app.fork({id})",
            (
                Field("at", "Execution", "number", "The number of the attempt. Empty: the last one."),
                Field("step", "Step", hint="Another one than that execution ran. Empty: the same."),
                Field("state", "State", "json", "JSON. Empty: the state that it had there."),
            ),
            opens="/jobs/{id}",
        ),
        Action(
            "signal-job",
            "Send a signal",
            "POST",
            "/jobs/{id}/signal",
            "The machine gets this signal in its inbox. If it waits for a signal of this name, it wakes up.",
            "The signal was sent.",
            "machines signal {id} NAME",
            "app.signal({id}, name, payload)",
            (Field("name", "Name", required=True), Field("payload", "Payload", "json", "JSON", value="{}")),
        ),
        Action(
            "delete-job",
            "Delete",
            "DELETE",
            "/jobs/{id}",
            "The job and its attempts are deleted for good.",
            "The job is deleted.",
            "jobs delete {id}",
            "app.delete({id})",
            danger=True,
            leads_to="/jobs",
        ),
        Action(
            "pause-queue",
            "Pause",
            "POST",
            "/queues/{name}/pause",
            "No job of queue {name} starts until it is resumed. Running jobs go on.",
            "Queue {name} is paused.",
            "queues pause {name}",
            "app.pause({name})",
            undo="resume-queue",
        ),
        Action(
            "resume-queue",
            "Resume",
            "POST",
            "/queues/{name}/resume",
            "Jobs of queue {name} start again.",
            "Queue {name} goes on.",
            "queues resume {name}",
            "app.resume({name})",
            undo="pause-queue",
        ),
        Action(
            "hold-train",
            "Hold",
            "POST",
            "/trains/{key}/hold",
            "No further car of train {key} starts until it is resumed. The running one goes on.",
            "Train {key} is on hold.",
            "trains hold {key}",
            "app.hold_train({key})",
            (_REASON,),
            undo="resume-train",
        ),
        Action(
            "resume-train",
            "Resume",
            "POST",
            "/trains/{key}/resume",
            "The hold ends, and the next car of train {key} may start.",
            "Train {key} goes on.",
            "trains resume {key}",
            "app.resume_train({key})",
            undo="hold-train",
        ),
        Action(
            "skip-car",
            "Skip",
            "POST",
            "/trains/{key}/skip",
            "This car is taken out of train {key}, which goes on with the next one. The job ends canceled.",
            "The car was skipped.",
            "trains skip JOB",
            "app.skip(job_id)",
            (Field("job_id", "Job", required=True),),
            danger=True,
        ),
        Action(
            "clear-train",
            "Clear",
            "POST",
            "/trains/{key}/clear",
            "All cars of train {key} but the running one are canceled, and a hold ends.",
            "Train {key} is cleared.",
            "trains clear {key}",
            "app.clear_train({key})",
            danger=True,
            leads_to="/trains",
        ),
        Action(
            "pause-trigger",
            "Pause",
            "POST",
            "/jobs/triggers/{id}/pause",
            "It does not fire until it is resumed.",
            "It is paused.",
            "schedules pause {id}",
            "app.pause_schedule(UUID({id}))",
            undo="resume-trigger",
        ),
        Action(
            "resume-trigger",
            "Resume",
            "POST",
            "/jobs/triggers/{id}/resume",
            "It fires again from its next time or event on.",
            "It fires again.",
            "schedules resume {id}",
            "app.resume_schedule(UUID({id}))",
            undo="pause-trigger",
        ),
        Action(
            "disable-trigger",
            "Pause",
            "POST",
            "/jobs/triggers/{id}/pause",
            "It does not fire until it is resumed. Events that come meanwhile are not made up for.",
            "It is paused.",
            "triggers disable {id}",
            "app.disable_trigger(UUID({id}))",
            undo="enable-trigger",
        ),
        Action(
            "enable-trigger",
            "Resume",
            "POST",
            "/jobs/triggers/{id}/resume",
            "It fires again, from the next event on.",
            "It fires again.",
            "triggers enable {id}",
            "app.enable_trigger(UUID({id}))",
            undo="disable-trigger",
        ),
        Action(
            "run-trigger",
            "Run now",
            "POST",
            "/jobs/triggers/{id}/run",
            "The schedule fires once now, beside its times.",
            "It was fired.",
            "schedules run {id}",
            "app.run_schedule(UUID({id}))",
        ),
        Action(
            "delete-schedule",
            "Delete",
            "DELETE",
            "/jobs/triggers/{id}",
            "It fires no more, and is gone for good. The jobs that it made stay.",
            "The schedule is deleted.",
            "schedules delete {id}",
            "app.delete_schedule(UUID({id}))",
            danger=True,
            leads_to="/triggers",
        ),
        Action(
            "delete-trigger",
            "Delete",
            "DELETE",
            "/jobs/triggers/{id}",
            "It fires no more, and is gone for good. The jobs that it made stay.",
            "The event trigger is deleted.",
            "triggers delete {id}",
            "app.delete_trigger(UUID({id}))",
            danger=True,
            leads_to="/triggers?type=event",
        ),
        Action(
            "delete-template",
            "Delete",
            "DELETE",
            "/templates/{id}",
            "It is gone for good, unless a trigger uses it. The jobs that were made from it stay.",
            "The template is deleted.",
            "templates delete {id}",
            "app.delete_template({id})",
            danger=True,
        ),
        Action(
            "disable-connector",
            "Disable",
            "PATCH",
            "/connectors/{id}",
            "It sends nothing until it is enabled: jobs that name it end dead, and deliveries to it are canceled.",
            "The connector is disabled.",
            "connectors change {id} --disable",
            "app.change_connector(UUID({id}), enabled=False)",
            danger=True,
            undo="enable-connector",
            sends={"enabled": False},
        ),
        Action(
            "enable-connector",
            "Enable",
            "PATCH",
            "/connectors/{id}",
            "Requests are sent again. Retry the jobs that ended meanwhile, if they are still wanted.",
            "The connector is enabled.",
            "connectors change {id} --enable",
            "app.change_connector(UUID({id}), enabled=True)",
            undo="disable-connector",
            sends={"enabled": True},
        ),
        Action(
            "delete-connector",
            "Delete",
            "DELETE",
            "/connectors/{id}",
            "It is gone for good, with the secret of a webhook endpoint. Jobs that name it end dead.",
            "The connector is deleted.",
            "connectors delete {id}",
            "app.delete_connector(UUID({id}))",
            danger=True,
        ),
        Action(
            "retry-event",
            "Try again",
            "POST",
            "/events/{id}/retry",
            "The event is handled again, by the triggers that failed.",
            "The event is handled again.",
            "events retry {id}",
            "app.retry_event({id})",
        ),
        Action(
            "dead-worker",
            "Declare dead",
            "POST",
            "/workers/{id}/dead",
            "Its jobs go to other workers at once. Do this only if its process is gone: else its jobs run twice.",
            "The worker is declared dead.",
            "workers dead {id}",
            "app.declare_dead({id})",
            danger=True,
        ),
        Action(
            "end-reservation",
            "End",
            "DELETE",
            "/reservations/{id}",
            "Workers claim from the queue again at once, no matter who reserved it.",
            "The reservation has ended.",
            "reservations end {id}",
            "app.unreserve_queue(queue, {id})",
            danger=True,
        ),
        Action(
            "suspend-tenant",
            "Suspend",
            "POST",
            "/admin/tenants/{id}/suspend",
            "No job of tenant {id} starts, and its writes are refused, until it is resumed. Running jobs go on.",
            "Tenant {id} is suspended.",
            "tenants suspend {id}",
            "app.suspend_tenant({id})",
            danger=True,
            undo="resume-tenant",
        ),
        Action(
            "resume-tenant",
            "Resume",
            "POST",
            "/admin/tenants/{id}/resume",
            "Jobs of tenant {id} start again.",
            "Tenant {id} works again.",
            "tenants resume {id}",
            "app.resume_tenant({id})",
            undo="suspend-tenant",
        ),
        Action(
            "revoke-key",
            "Revoke",
            "DELETE",
            "/keys/{id}",
            "Requests with this key are refused within five seconds, forever. Sessions that began with it end.",
            "The key is revoked.",
            "keys revoke {id}",
            "app.revoke_api_key({id})",
            danger=True,
        ),
    )
}
