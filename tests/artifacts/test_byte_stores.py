"""Bytes are written whole or not at all, in a folder and on a real S3 server."""

from __future__ import annotations

import asyncio
import io
import os
import shutil
import threading
import time
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from headway.artifacts import ByteStore, Places, blocks, checked_place, in_thread
from headway.artifacts.folder import Folder
from headway.artifacts.objects import Objects
from headway.artifacts.sources import BLOCK
from headway.errors import ArtifactElsewhere, ArtifactGone, ArtifactsUnavailable, ConfigError, InvalidArtifact

BIG = os.urandom(5 * BLOCK + 17)  # more than one part of a multipart upload


def keys_of(store: ByteStore, where: Any) -> list[str]:
    """Every file or object that is there, but for the folder's own id."""
    if isinstance(store, Objects):
        return sorted(each.key.removeprefix("pre/fix/") for each in where.objects.all())
    files = (path for path in Path(where).rglob("*") if path.is_file())
    return sorted(str(path.relative_to(where)) for path in files if path.name != "id")


@pytest.fixture(params=["folder", "s3"])
def there(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[ByteStore, Any]:
    if request.param == "folder":
        return Folder(tmp_path / "artifacts"), tmp_path / "artifacts"
    bucket = request.getfixturevalue("bucket")
    return Objects(f"s3://{bucket.name}/pre/fix/"), bucket


def test_what_was_written_is_read_and_deleted(there: tuple[ByteStore, Any]) -> None:
    store, where = there
    assert store.name.startswith(("folder:", "s3://"))
    written = store.write("t/j/a", blocks(BIG), "text/plain")
    assert (written.size, written.sha256) == (len(BIG), sha256(BIG).hexdigest())
    store.write("t/j/empty", blocks(b""), "text/plain")
    with store.open("t/j/a", len(BIG)) as file:
        assert file.read() == BIG
        file.seek(BLOCK - 3)
        assert file.read(7) == BIG[BLOCK - 3 : BLOCK + 4]
        assert file.seek(0, io.SEEK_END) == len(BIG)
    with store.open("t/j/empty", 0) as file:
        assert file.read() == b""
    for path, size in (("t/j/none", 1), ("t/j/a", 5)):
        with pytest.raises(ArtifactGone):
            store.open(path, size)
    store.delete(["t/j/a", "t/j/none"])
    assert keys_of(store, where) == ["t/j/empty"]
    store.delete(["t/j/empty"])
    store.delete(["t/j/empty"])
    assert keys_of(store, where) == []


def test_a_source_that_fails_midway_leaves_nothing(there: tuple[ByteStore, Any]) -> None:
    store, where = there

    def failing(error: Exception) -> Iterator[bytes]:
        yield BIG
        raise error

    assert store.name
    for own in (FileNotFoundError(2, "the handler's own", "input.csv"), ConnectionResetError(104, "the handler's own")):
        with pytest.raises(type(own), match="the handler's own"):
            store.write("t/j/a", failing(own), "text/plain")
    assert keys_of(store, where) == []
    if isinstance(store, Objects):
        client = where.meta.client
        assert "Uploads" not in client.list_multipart_uploads(Bucket=where.name)


def test_objects_carry_their_type_and_an_absent_bucket_is_named(bucket: Any) -> None:
    store = Objects(f"s3://{bucket.name}/pre/fix")
    store.write("t/j/a", [b"x"], "text/csv")
    assert bucket.Object("pre/fix/t/j/a").content_type == "text/csv"
    with pytest.raises(ArtifactsUnavailable, match="no-such-bucket"):
        Objects("s3://no-such-bucket/x").write("a", [b"x"], "text/plain")


def test_data_of_every_form_becomes_blocks(tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_bytes(BIG)
    for data in (
        BIG,
        bytearray(BIG),
        memoryview(BIG),
        file,
        io.BytesIO(BIG),
        (BIG[i : i + 999] for i in range(0, len(BIG), 999)),
    ):
        made = list(blocks(data))
        assert b"".join(made) == BIG
        assert isinstance(data, bytes | bytearray | memoryview) or max(map(len, made)) < BLOCK + 999
    assert b"".join(blocks("é")) == "é".encode()
    assert b"".join(blocks(["a", b"b", "é"])) == b"ab\xc3\xa9"
    for wrong in (7, None, [1, 2], {"a": 1}.items()):
        with pytest.raises(InvalidArtifact, match="cannot be made from"):
            list(blocks(wrong))  # type: ignore[arg-type]


def test_a_folder_is_known_by_its_id_wherever_it_is(tmp_path: Path) -> None:
    first, default = Places(str(tmp_path / "one"), tmp_path / "beside"), tmp_path / "beside"
    name = first.own.name
    first.own.write("t/j/a", [b"x"], "text/plain")
    assert first.own.name == name
    moved = (tmp_path / "one").rename(tmp_path / "two")
    found = Places(str(moved), default).of(name)
    with found.open("t/j/a", 1) as file:
        assert file.read() == b"x"
    elsewhere = Places(None, default)
    with pytest.raises(ArtifactElsewhere, match="one, which this process does not have"):
        elsewhere.of(name)
    assert elsewhere.ids == []  # a look makes no folder
    assert not default.exists()
    with pytest.raises(ArtifactGone, match="not in its folder"):
        found.open("../../etc/passwd", 1)
    # moved from a folder to a bucket: what is beside the database is still found
    old = Places(None, default).own.name
    assert Places("s3://bucket/x", default).of(old).name == old
    assert Places("s3://bucket/x", default).ids == ["s3://bucket/x", old.partition("@")[0]]


def test_a_folder_that_was_deleted_under_a_worker_is_made_anew(tmp_path: Path) -> None:
    folder = tmp_path / "artifacts"
    worker = Folder(folder)
    lost = worker.name
    shutil.rmtree(folder)
    name = worker.name
    worker.write("t/j/a", [b"x"], "text/plain")
    restarted = Places(str(folder), tmp_path / "beside")
    assert restarted.own.name == name != lost
    with restarted.of(name).open("t/j/a", 1) as file:
        assert file.read() == b"x"


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ArtifactsUnavailable, match="setting artifacts"):
        _ = Folder(tmp_path / "file" / "artifacts").name


def test_a_store_that_hangs_keeps_nobody_from_ending() -> None:
    go_on = threading.Event()

    async def stop_waiting() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(in_thread(go_on.wait, 5), 0.01)

    begun = time.monotonic()
    asyncio.run(stop_waiting())  # which waits for asyncio's own threads
    assert time.monotonic() - begun < 3
    go_on.set()


def test_the_setting_is_a_folder_or_a_bucket() -> None:
    good = ("s3://b/p", "gs://b", "az://account/container/p", "/var/x", "x", "file:///var/x")
    assert [checked_place(each) for each in good] == list(good)
    for wrong in (
        "",
        7,
        None,
        "http://x/y",
        "s3://",
        "s3://key:pa55word@b/p",
        "s3://b/p?x=1",
        "file://host/x",
        "memory:///",
    ):
        with pytest.raises(ConfigError) as refused:
            checked_place(wrong)
        assert "pa55word" not in str(refused.value)
