"""Forms: what they store is what the API stores; what it refuses stands beside the field; nobody overwrites unseen."""

from __future__ import annotations

import doctest
import json
import re
from html import unescape
from uuid import UUID

import httpx2 as httpx
import pytest

from headway.app.webhooks import keys_of
from headway.dashboard import forms
from headway.dashboard.forms import Field, body_of_change, body_of_new, merged
from headway.dashboard.table import Form
from headway.webhooks import MASTER
from tests.dashboard.conftest import HOSTILE, Dashboard


def opened(answer: httpx.Response) -> dict[str, str]:
    """The form of a page, as a browser would send it back."""
    assert answer.status_code in (200, 412, 422), answer.text
    main = answer.text.partition("<main")[2]
    found: dict[str, str] = {}
    for tag in re.findall(r"<input[^>]*>", main):
        values = {name: unescape(value) for name, value in re.findall(r'([\w-]+)="([^"]*)"', tag)}
        if values.get("type") != "checkbox" or " checked" in tag:
            found[values["name"]] = values.get("value", "")
    for name, text in re.findall(r'<textarea[^>]* name="([^"]+)"[^>]*>(.*?)</textarea>', main, re.S):
        found[name] = unescape(text)
    for name, options in re.findall(r'<select[^>]* name="([^"]+)"[^>]*>(.*?)</select>', main, re.S):
        chosen = re.search(r'<option value="([^"]*)" selected', options) or re.search(
            r'<option value="([^"]*)"', options
        )
        assert chosen is not None
        found[name] = unescape(chosen[1])
    return found


def wrong(answer: httpx.Response, field: str) -> str:
    """What stands beside a field."""
    found = re.search(rf'id="f-{field}-wrong">([^<]*)<', answer.text)
    assert found is not None, answer.text
    return unescape(found[1])


def test_a_schedule_is_previewed_made_and_changed(dashboard: Dashboard) -> None:
    acme = dashboard.app.tenant("acme")
    with dashboard.visitor("admin") as admin:
        form = opened(admin.get("/triggers/new")) | {"label": HOSTILE, "kind": "send_email", "tz": "America/New_York"}
        preview = admin.post("/triggers/new", data=form | {"cron": "0 2 * * *", "do": "preview"})
        assert "At 02:00 every day in New York" in preview.text
        assert preview.text.count(", 02:00") == 5
        assert opened(preview)["label"].startswith("<script>")
        part = admin.post(
            "/triggers/new", data=form | {"cron": "61 * * * *", "do": "preview"}, headers={"X-Headway-Part": "1"}
        )
        assert part.text.lstrip().startswith("<h2>This is no schedule yet")
        refused = admin.post("/triggers/new", data=form | {"cron": "61 * * * *", "payload": '{"to": 1}'})
        assert refused.status_code == 422
        assert "no minute" in wrong(refused, "cron")
        assert opened(refused)["payload"] == '{"to": 1}'
        broken = admin.post("/triggers/new", data=form | {"cron": "0 2 * * *", "payload": "{"})
        assert "is not JSON" in wrong(broken, "payload")
        made = admin.post("/triggers/new", data=form | {"cron": "0 2 * * *", "payload": '{"to": "seven", "n": 1.50}'})
        assert made.status_code == 303, made.text
        page = made.headers["location"]
        shown = admin.get(page).text
        assert "at 02:00 every day in New York" in shown
        assert "<script>alert" not in shown
        schedule = next(
            each for each in acme.schedules() if each.kind == "send_email" and each.payload["to"] == "seven"
        )
        assert (schedule.cron, schedule.tz, schedule.payload, schedule.label) == (
            *("0 2 * * *", "America/New_York"),
            *({"to": "seven", "n": 1.5}, HOSTILE),
        )
        # only what the person changed is sent: the rest stays as others have it
        mine, theirs = opened(admin.get(f"{page}/edit")), opened(admin.get(f"{page}/edit"))
        assert mine["cron"] == "0 2 * * *"
        first = admin.post(f"{page}/edit", data=theirs | {"cron": "0 3 * * *", "overlap": "skip"})
        assert first.headers["location"] == page
        conflict = admin.post(f"{page}/edit", data=mine | {"cron": "0 4 * * *", "label": "Nightly"})
        assert conflict.status_code == 412
        assert "It changed since you opened it" in conflict.text
        row = re.search(r'<th scope="row">Cron expression</th>.*?</tr>', conflict.text, re.S)
        assert row is not None
        assert re.findall(r"0 \d \* \* \*", row[0]) == ["0 2 * * *", "0 3 * * *", "0 4 * * *"]
        assert "unchanged: theirs is kept" in conflict.text
        again = opened(conflict)
        assert (again["cron"], again["overlap"], again["label"]) == ("0 4 * * *", "skip", "Nightly")
        assert admin.post(f"{page}/edit", data=again).status_code == 303
        changed = dashboard.app.get_trigger(UUID(schedule.id))
        assert (changed.cron, changed.overlap, changed.label, changed.payload) == (
            *("0 4 * * *", "skip", "Nightly"),
            {"to": "seven", "n": 1.5},
        )
        unchanged = admin.post(f"{page}/edit", data=opened(admin.get(f"{page}/edit")))
        assert unchanged.status_code == 303
        assert dashboard.app.get_trigger(UUID(schedule.id)).revision == changed.revision
        rehearsed = admin.post(f"{page}/try", data={"payload": '{"to": "x"}'})
        assert "It would enqueue <code>send_email</code>" in rehearsed.text
        assert admin.post(f"{page}/try", data={"payload": "{"}).status_code == 422
        gone = admin.post("/do/delete-schedule", data={"id": schedule.id})
        assert gone.headers["location"] == "/triggers"
    assert schedule.id not in [each.id for each in acme.schedules()]


def test_an_event_trigger_is_tried_before_it_is_stored(dashboard: Dashboard) -> None:
    acme = dashboard.app.tenant("acme")
    with dashboard.visitor("admin") as admin:
        form = opened(admin.get("/triggers/new?type=event")) | {"event": "order.paid", "kind": "send_email"}
        asked = {"url": "/triggers/new?type=event", "headers": {"X-Headway-Part": "1"}}

        def preview(**changes: str) -> str:
            return unescape(admin.post(**asked, data=form | {"do": "preview"} | changes).text)

        said = preview(payload='{"to": "{{event.note}}"}')
        assert "With the last one" in said
        assert "It would enqueue <code>send_email</code> on <code>mail</code>" in said
        assert "<script>alert" not in admin.post(**asked, data=form | {"payload": '{"to": "{{event.note}}"}'}).text
        assert "It would not fire" in preview(when='{"event.note": "another"}')
        assert "leads nowhere" in preview(payload='{"to": "{{event.nobody}}"}')
        assert "no template" in preview(kind="", template="unheard-of")
        assert "With the last one" not in preview(event="order.unheard_of")
    assert "order.paid" not in {each.event for each in acme.triggers()}


def test_templates_keys_tenants_limits_queues_and_definitions(
    dashboard: Dashboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    acme = dashboard.app.tenant("acme")
    with dashboard.visitor("admin") as admin:
        form = opened(admin.get("/templates/new")) | {"name": "mine", "kind": "send_email"}
        assert "is not a valid name" in wrong(admin.post("/templates/new", data=form | {"name": "no name"}), "name")
        assert admin.post("/templates/new", data=form | {"payload": '{"password": "x"}'}).status_code == 303
        template = acme.get_template("mine")
        page = f"/templates/{template.id}/edit"
        secret = opened(admin.get(page))
        assert "[redacted]" in secret["payload"]
        kept = admin.post(page, data=secret | {"payload": secret["payload"].replace("{", '{"to": "y",', 1)})
        assert "stands for a secret" in wrong(kept, "payload")
        assert admin.post(page, data=secret | {"description": "for tests"}).status_code == 303
        assert acme.get_template("mine").description == "for tests"
        assert admin.post("/do/delete-template", data={"id": template.id}).status_code == 303

        form = opened(admin.get("/connectors/new?kind=connector.webhook.deliver")) | {"name": "shop", "events": "x.*"}
        service = form | {"kind": "connector.http.request", "url": "https://shop.example"}
        assert "takes no events" in admin.post("/connectors/new", data=service).text
        secret = admin.post("/connectors/new", data=service | {"events": "", "headers": '{"Authorization": "x"}'})
        assert "holds a secret" in secret.text
        headers = {"Authorization": ["Bearer ", {"$secret": "SHOP"}]}
        stored = form | {"url": "https://shop.example", "events": "order.*, x.y", "headers": json.dumps(headers)}
        monkeypatch.setenv(MASTER, "m" * 40)
        made = admin.post("/connectors/new", data=stored)
        shown = f">{keys_of(acme.get_connector('shop')).secret}<"
        assert shown in made.text
        assert made.headers["cache-control"] == "no-store"
        monkeypatch.delenv(MASTER)
        unshown = admin.post("/connectors/new", data=stored | {"name": "unshown"}).text
        assert "cannot show its secret" in unshown
        assert "headway webhooks rotate unshown" in unshown
        acme.delete_connector("unshown")
        connector = acme.get_connector("shop")
        assert (connector.headers, connector.events, connector.enabled) == (headers, ["order.*", "x.y"], True)
        page = f"/connectors/{connector.id}/edit"
        stale = opened(admin.get(page))
        assert admin.post(page, data=stale | {"events": ""}).status_code == 303
        assert admin.post(page, data=stale | {"events": "y"}).status_code == 412
        assert admin.post("/do/disable-connector", data={"id": connector.id}).status_code == 303
        connector = acme.get_connector("shop")
        assert (connector.headers, connector.events, connector.enabled) == (headers, [], False)
        assert re.search(r">disabled</span>.*/do/enable-connector", admin.get("/connectors").text)
        assert admin.post("/do/enable-connector", data={"id": connector.id}).status_code == 303
        assert acme.get_connector("shop").enabled
        assert admin.post("/do/delete-connector", data={"id": connector.id}).status_code == 303
        assert [each.name for each in acme.connectors()] == ["crm"]

        form = opened(admin.get("/keys/new"))
        assert "superadmin" not in admin.get("/keys/new").text
        assert admin.post("/keys/new", data=form | {"name": "x", "role": "superadmin"}).status_code == 422
        made = admin.post("/keys/new", data=form | {"name": HOSTILE, "role": "producer", "kinds": "send_email, charge"})
        text = re.search(r"hw_live_\w+", made.text)
        assert text is not None
        assert made.headers["cache-control"] == "no-store"
        key = next(each for each in acme.api_keys() if each.name == HOSTILE)
        assert (key.role, key.kinds) == ("producer", ("send_email", "charge"))
        assert key.expires_at is not None
        assert text[0] not in admin.get("/keys").text

    dashboard.keys["brief"] = acme.create_api_key("brief", "admin", expires="1d").text
    with dashboard.visitor("brief") as brief:  # makes no key that lasts longer, and is offered none
        form = opened(brief.get("/keys/new")) | {"name": "as brief"}
        assert "in 30 days" not in brief.get("/keys/new").text
        assert "hw_live_" in brief.post("/keys/new", data=form).text
        refused = brief.post("/keys/new", data=form | {"expires": "365"})
        assert refused.text.count("makes no key that lasts longer") == 1

    with dashboard.visitor("superadmin") as root:
        form = opened(root.get("/tenants/new"))
        assert "is not a valid name" in root.post("/tenants/new", data=form | {"slug": "A B"}).text
        assert "is not a time zone" in wrong(root.post("/tenants/new", data=form | {"slug": "x", "tz": "CET!"}), "tz")
        assert root.post("/tenants/new", data=form | {"slug": "initech", "tz": "Asia/Tokyo"}).status_code == 303
        tenant = dashboard.app.get_tenant("initech")
        # its schedules start with its zone, on the form and where none is named
        schedule = opened(root.get("/t/initech/triggers/new"))
        assert (schedule["tz"], opened(root.get("/triggers/new"))["tz"]) == ("Asia/Tokyo", "UTC")
        given = schedule | {"label": "x", "kind": "send_email", "tz": "", "cron": "0 2 * * *", "do": "preview"}
        assert "At 02:00 every day in Tokyo" in root.post("/t/initech/triggers/new", data=given).text
        initech = dashboard.app.tenant("initech")
        made = initech.create_schedule("a", "0 2 * * *", kind="ping")
        assert (made.tz, initech.create_schedule("b", "@daily", kind="ping", tz="UTC").tz) == (
            "Asia/Tokyo",
            "UTC",
        )
        assert (initech.ensure_schedule("a", "0 2 * * *", kind="ping").tz, made.revision) == ("Asia/Tokyo", 1)
        assert initech.change_schedule("b", tz=None).tz == "Asia/Tokyo"
        page = f"/tenants/{tenant.id}"
        stale = opened(root.get(f"{page}/edit"))
        assert root.post(f"{page}/edit", data=stale | {"slug": "initrode", "tz": ""}).status_code == 303
        assert dashboard.app.get_tenant("initrode").tz is None
        assert initech.create_schedule("c", "@daily", kind="ping").tz == "UTC"
        assert root.post(f"{page}/edit", data=stale | {"slug": "innotech"}).status_code == 412
        assert root.post(f"{page}/delete", data={"typed": "initech"}).status_code == 422
        assert root.post(f"{page}/delete", data={"typed": "initrode"}).status_code == 303
        assert "initrode" not in [each.slug for each in dashboard.app.tenants()]

        form = opened(root.get("/limits/set?scope=kind&name=send_email"))
        refused = root.post("/limits/set", data=form | {"rate": "often"})
        assert "is not a rate" in wrong(refused, "rate")
        assert root.post("/limits/set", data=form | {"rate": "5/min", "max_running": "3"}).status_code == 303
        form = opened(root.get("/limits/set?scope=kind&name=send_email"))
        assert (form["rate"], form["max_running"]) == ("5/min", "3")
        assert root.post("/limits/set", data=form | {"rate": ""}).status_code == 303
        (limit,) = dashboard.app.limits()
        assert (limit.rate_count, limit.max_running) == (None, 3)
        assert "0 of 3" in root.get("/limits").text

        held = dashboard.app.reserve_queue("mail", expires="1h")
        assert f"/do/end-reservation?id={held.id}" in root.get("/limits").text
        assert root.post("/do/end-reservation", data={"id": held.id}).status_code == 303
        assert dashboard.app.reservations() == []
        shares = root.get("/queues/mail").text.partition('id="shares"')[2].partition("</section>")[0]
        assert re.search(r'/t/acme/">acme</a>.*?>2</td>.*?100 %', shares, re.S)
        assert 'id="shares"' not in root.get("/t/acme/queues/mail").text

        form = opened(root.get("/queues/mail/edit"))
        kept = form | {"max_running": "4", "fair": "true", "retention": '{"dead": "30d"}'}
        assert root.post("/queues/mail/edit", data=kept).status_code == 303
        form = opened(root.get("/queues/mail/edit"))
        assert (form["max_running"], form["fair"], form["retention"]) == ("4", "true", '{"dead": "30d"}')

        form = opened(root.get("/definitions/new"))
        schema = '{"properties": {"color": {"enum": ["red", "blue"]}}}'
        preview = root.post("/definitions/new", data=form | {"arg_schema": schema, "do": "preview"})
        assert "one of red, blue" in preview.text
        assert "is not JSON" in wrong(
            root.post("/definitions/new", data=form | {"key": "x", "arg_schema": "{"}), "arg_schema"
        )
        assert root.post("/definitions/new", data=form | {"key": "paint", "arg_schema": schema}).status_code == 303
        page = "/definitions/paint/edit"
        form = opened(root.get(page))
        assert root.post(page, data=form | {"max_attempts": "2"}).status_code == 303
        assert root.post(page, data=form | {"max_attempts": "3"}).status_code == 412
        paint = next(each for each in dashboard.app.definitions() if each.kind == "paint")
        assert (paint.max_attempts, set(paint.changed)) == (2, {"schema", "max_attempts"})


def test_what_only_others_changed_is_theirs() -> None:
    fields = [Field("a", "A"), Field("b", "B"), Field("n", "N", "number"), Field("on", "On", "flag"), Field("c", "C")]
    was = {"a": "1", "b": "1", "n": "1", "on": "true", "c": "1"}
    mine = Form({"a": "2", "b": "1", "n": "1", "c": "2", "was": '{"a":"1","b":"1","n":"1","on":"true","c":"1"}'})
    assert body_of_change(fields, mine) == {"a": "2", "on": False, "c": "2"}
    state = merged(fields, mine, was | {"b": "3", "a": "4", "c": "2"}, 7)
    assert {each.field.name: each.value for each in state.fields} == {"a": "2", "b": "3", "n": "1", "on": "", "c": "2"}
    assert [(each.label, each.now, each.yours) for each in state.conflicts] == [("A", "4", "2"), ("B", "3", None)]
    assert body_of_new(fields, Form({"a": " x ", "n": "12"})) == {"a": "x", "n": 12, "on": False}
    assert doctest.testmod(forms).failed == 0
