"""Artifacts over HTTP: listed, downloaded as attachments, in parts; uploaded by workers under their fence."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from headway import Context, Headway
from headway.errors import ArtifactsUnavailable
from headway.model.ids import new_id

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture
def stored(app: Headway, tmp_path: Path) -> dict[str, Any]:
    """Artifacts of two jobs of acme, by name."""
    app.configure(artifacts=str(tmp_path / "artifacts"))

    @app.job(queue="files")
    def store(ctx: Context, name: str, text: str) -> None:
        ctx.artifact(name, text)

    acme = app.tenant("acme")
    for name, text in (("page.html", HOSTILE), ("März 1.csv", "0123456789")):
        acme.enqueue("store", {"name": name, "text": text})
    app.run("files", concurrency=1, until_idle=True)
    return {each.name: each for each in acme.artifacts()}


def test_artifacts_are_listed_and_shown_without_their_place(
    stored: dict[str, Any], client: Any, keys: dict[str, str], app: Headway
) -> None:
    ask, found = client(keys["viewer"]), stored["März 1.csv"]
    said = ask.get("/artifacts?limit=1").json()
    assert said["items"] == [ask.get(f"/artifacts/{found.id}").json()]
    shown = said["items"][0]
    assert (shown["name"], shown["size"], shown["job_id"], shown["fence"]) == ("März 1.csv", 10, found.job_id, 1)
    assert {"store", "path"} & shown.keys() == set()
    rest = ask.get(f"/artifacts?limit=1&cursor={said['next_cursor']}").json()
    assert ([each["name"] for each in rest["items"]], rest["next_cursor"]) == (["page.html"], None)
    assert ask.get(f"/artifacts?job={found.job_id}").json()["items"] == [shown]
    assert ask.get(f"/jobs/{found.job_id}/attempts").json()["items"][0]["artifacts"] == [shown]
    assert [ask.get(f"/artifacts{bad}").status_code for bad in ("?job=x", "?cursor=x", "/x", f"/{new_id()}")] == [
        422,
        422,
        404,
        404,
    ]
    narrow = client(app.tenant("acme").create_api_key("n", "viewer", queues=["mail"]).text)
    assert narrow.get("/artifacts").json()["items"] == []
    for path in ("", "/content"):
        assert narrow.get(f"/artifacts/{found.id}{path}").status_code == 404


def test_bytes_are_an_attachment_and_never_a_page(
    stored: dict[str, Any], client: Any, keys: dict[str, str], app: Headway, tmp_path: Path
) -> None:
    ask = client(keys["producer"])
    said = ask.get(f"/artifacts/{stored['page.html'].id}/content")
    assert (said.status_code, said.text, said.headers["content-type"]) == (200, HOSTILE, "text/html; charset=utf-8")
    assert said.headers["content-disposition"] == "attachment; filename*=UTF-8''page.html"
    assert said.headers["x-content-type-options"] == "nosniff"
    assert said.headers["content-security-policy"].startswith("sandbox")
    path = f"/artifacts/{stored['März 1.csv'].id}/content"
    etag = f'"{stored["März 1.csv"].sha256}"'
    parts = {
        "bytes=2-4": (206, "234", "bytes 2-4/10"),
        "bytes=7-": (206, "789", "bytes 7-9/10"),
        "bytes=-2": (206, "89", "bytes 8-9/10"),
        "bytes=5-99": (206, "56789", "bytes 5-9/10"),
        "bytes=-99": (206, "0123456789", "bytes 0-9/10"),
    }
    for asked in ("bytes=10-", "bytes=4-2", "bytes=-0", "bytes=-", "bytes=0-1,3-4", "lines=1-2", "bytes=x-"):
        parts[asked] = (200, "0123456789", None)
    for asked, expected in parts.items():
        said = ask.get(path, headers={"Range": asked})
        assert (said.status_code, said.text, said.headers.get("content-range")) == expected, asked
        assert (said.headers["content-length"], said.headers["etag"]) == (str(len(said.content)), etag)
    assert ask.get(path, headers={"Range": "bytes=0-1", "If-Range": '"other"'}).status_code == 200
    assert ask.get(path, headers={"Range": "bytes=0-1", "If-Range": etag}).status_code == 206
    assert said.headers["content-disposition"].endswith("M%C3%A4rz%201.csv")
    (tmp_path / "artifacts" / stored["page.html"].path).unlink()
    gone = ask.get(f"/artifacts/{stored['page.html'].id}/content")
    assert (gone.status_code, gone.json()["code"]) == (409, "ArtifactGone")
    app.configure(artifacts=str(tmp_path / "elsewhere"))
    elsewhere = ask.get(path)
    assert (elsewhere.status_code, elsewhere.json()["code"]) == (409, "ArtifactElsewhere")
    assert str(tmp_path) not in elsewhere.text + gone.text


def test_a_worker_uploads_under_its_fence(
    app: Headway, client: Any, keys: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app.configure(artifacts=str(tmp_path / "artifacts"), payload_limit=1_000)

    @app.job(spill=True)
    def large(text: str) -> None: ...

    app.run("none", until_idle=True)  # declares it
    work, worker = client(app.create_api_key("worker", "worker", tenant=None).text), str(uuid4())
    job = app.enqueue("welcome", {"user_id": 7})
    claim = {"worker_id": worker, "queues": ["mail"]}
    (claimed,) = work.post("/worker/jobs/claim", json=claim).json()["jobs"]
    path = f"/worker/jobs/{job.id}/artifacts?worker_id={worker}&fence={claimed['fence']}"
    big = bytes(3_000_000)
    said = work.post(f"{path}&name=a.bin&content_type=application/x-thing", content=big)
    assert (said.status_code, said.json()["size"], said.json()["content_type"]) == (
        201,
        len(big),
        "application/x-thing",
    )
    with app.open_artifact(said.json()["id"]) as file:
        assert file.read() == big
    assert work.post(f"{path}&name=empty.txt", content=b"").json()["size"] == 0
    wrong = {
        f"{path}&name=a.bin": (409, "NotAllowed"),
        f"{path}&name=..%2Fx": (422, "InvalidArtifact"),
        f"{path}&name=x&content_type=y": (422, "InvalidArtifact"),
        path: (422, "InvalidArtifact"),
        f"{path}9&name=x": (409, "LeaseLost"),
        f"{path.replace(worker, str(uuid4()))}&name=x": (409, "LeaseLost"),
        f"{path.replace(worker, 'x')}&name=x": (422, "InvalidRequest"),
        f"/worker/jobs/{new_id()}/artifacts?worker_id={worker}&fence=1&name=x": (404, "NotFound"),
    }
    for asked, expected in wrong.items():
        refused = work.post(asked, content=b"x")
        assert (refused.status_code, refused.json()["code"]) == expected, asked
    monkeypatch.setattr("headway.artifacts.folder.Folder.write", _unavailable)
    refused = work.post(f"{path}&name=b.txt", content=b"x")
    assert (refused.status_code, refused.json()["code"]) == (503, "ArtifactsUnavailable")
    assert "secret-bucket" not in refused.text
    assert (
        refused.json()["detail"] == "the store of artifacts cannot be used right now; the server's log has the reason"
    )
    refused = client(keys["operator"]).post("/jobs", json={"kind": "large", "payload": {"text": "x" * 2_000}})
    assert (refused.status_code, refused.json()["code"]) == (503, "ArtifactsUnavailable")
    assert "secret-bucket" not in refused.text
    done = {"worker_id": worker, "fence": 1, "result": 1}
    assert work.post(f"/worker/jobs/{job.id}/complete", json=done).status_code == 200
    assert [each.name for each in app.artifacts(job.id)] == ["empty.txt", "a.bin"]


def _unavailable(*_: Any) -> None:
    raise ArtifactsUnavailable("secret-bucket does not answer")
