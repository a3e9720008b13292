"""The results bucket over real HTTP: mirrored whole and right, or refused in words."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from fleet.clients import storage
from fleet.clients.errors import LiveError
from fleet.clients.google_api import UserCredentials
from fleet.clients.storage import Bucket
from tests.fleet.clients.fake_google import HASTY, TOKEN, FakeGoogle

BIG = os.urandom(3_000_000)


@pytest.fixture
def bucket(google: FakeGoogle, login: UserCredentials) -> Bucket:
    google.put("runs/a/run.json", b"{}")
    google.put("runs/a/point-00-repeat-0/client-000.json", BIG)
    google.put("runs/a/point-00-repeat-0/empty.log", b"")
    google.put("runs/a/.progress/0.json", b"{}")
    google.put("runs/a/.barrier/point-00-repeat-0/0", b"ready")
    google.put("runs/a/gpu/", b"")
    google.put("runs/ab/run.json", b"{}")
    return Bucket("results", login, url=google.url, retry=HASTY)


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


WHOLE = {"run.json": b"{}", "point-00-repeat-0/client-000.json": BIG, "point-00-repeat-0/empty.log": b""}


def test_a_folder_is_mirrored_without_its_dot_folders(bucket: Bucket, google: FakeGoogle, tmp_path: Path) -> None:
    google.page = 2  # listed page by page
    told: list[tuple[int, int]] = []
    bucket.mirror("runs/a/", tmp_path, progress=lambda done, of: told.append((done, of)))
    assert files(tmp_path) == WHOLE
    assert told[-1] == (len(BIG) + 2, len(BIG) + 2)


def test_what_is_there_and_right_is_not_fetched_again(bucket: Bucket, google: FakeGoogle, tmp_path: Path) -> None:
    bucket.mirror("runs/a/", tmp_path)
    (tmp_path / "run.json").write_text("[]")  # as long, and another
    google.asked.clear()
    bucket.mirror("runs/a/", tmp_path)
    assert [line for line in google.asked if "alt=media" in line and "client-000" in line] == []
    assert files(tmp_path) == WHOLE


def test_a_download_that_breaks_off_goes_on_where_it_was(bucket: Bucket, google: FakeGoogle, tmp_path: Path) -> None:
    google.broken_names = {"client-000.json": [1_500_000, 1_000_000]}
    bucket.mirror("runs/a/", tmp_path)
    assert files(tmp_path) == WHOLE
    ranges = [line.rpartition("bytes=")[2] for line in google.asked if "bytes=" in line]
    assert ranges == ["1500000-", "2500000-"]


def test_a_download_that_was_given_up_leaves_no_file(bucket: Bucket, google: FakeGoogle, tmp_path: Path) -> None:
    google.broken_names = {"client-000.json": [100_000, *[0] * 500]}
    with pytest.raises(LiveError, match="client-000"):
        bucket.mirror("runs/a/", tmp_path)
    assert not [name for name in files(tmp_path) if "client-000" in name]
    google.broken_names = {}
    bucket.mirror("runs/a/", tmp_path)
    assert files(tmp_path) == WHOLE


def test_a_wrong_byte_is_noticed_and_the_next_fetch_begins_anew(
    bucket: Bucket, google: FakeGoogle, tmp_path: Path
) -> None:
    google.spoil = [True]
    with pytest.raises(LiveError, match="MD5") as caught:
        bucket.mirror("runs/a/", tmp_path)
    assert caught.value.reason == "unreachable"
    bucket.mirror("runs/a/", tmp_path)
    assert files(tmp_path) == WHOLE


def test_a_busy_bucket_is_asked_again_and_a_refusal_is_not(bucket: Bucket, google: FakeGoogle) -> None:
    google.statuses = [503, 429]
    assert bucket.read("runs/a/run.json") == b"{}"
    assert bucket.read("runs/a/none.json") is None
    google.asked.clear()
    google.statuses = [403]
    with pytest.raises(LiveError, match=r"roles/storage\.objectViewer") as caught:
        bucket.list_all("runs/a/")
    assert (caught.value.reason, len(google.asked)) == ("forbidden", 1)


@pytest.mark.parametrize(("status", "reason"), [(401, "credentials"), (403, "forbidden"), (503, "unreachable")])
def test_a_download_that_is_refused_is_told_like_a_listing(
    bucket: Bucket, google: FakeGoogle, status: int, reason: str
) -> None:
    google.statuses = [status] * 500
    with pytest.raises(LiveError) as caught:
        bucket.read("runs/a/run.json")
    assert caught.value.reason == reason
    assert "{" not in str(caught.value)


def test_an_answer_that_breaks_off_is_asked_for_again(bucket: Bucket, google: FakeGoogle) -> None:
    google.cut = [True, True]
    assert [one.name for one in bucket.list_all("runs/ab/")] == ["runs/ab/run.json"]
    google.cut = [True] * 500
    with pytest.raises(LiveError) as caught:
        bucket.folders("runs/")
    assert caught.value.reason == "unreachable"


def test_nobody_there_is_told_after_a_while(login: UserCredentials) -> None:
    with pytest.raises(LiveError) as caught:
        Bucket("results", login, url="http://127.0.0.1:9", retry=HASTY).list_all("runs/")
    assert caught.value.reason == "unreachable"


def test_a_refused_token_is_told(bucket: Bucket, google: FakeGoogle) -> None:
    google.accepted = {"another"}
    with pytest.raises(LiveError, match="gcloud auth login") as caught:
        bucket.folders("runs/")
    assert caught.value.reason == "credentials"
    assert TOKEN not in str(caught.value)


@pytest.mark.parametrize("name", ["runs/a/../../evil", "runs/a//x", "runs/a/./x", "runs/a/..\\evil"])
def test_a_name_that_leads_out_of_the_folder_is_refused(
    bucket: Bucket, google: FakeGoogle, tmp_path: Path, name: str
) -> None:
    google.put(name, b"x")
    with pytest.raises(LiveError, match=re.escape(repr(name))):
        bucket.mirror("runs/a/", tmp_path / "in")
    assert files(tmp_path) == {}


def test_gclouds_endpoint_override_is_followed(
    google: FakeGoogle, login: UserCredentials, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(storage.ENDPOINT_VARIABLE, f"{google.url}/storage/v1/")
    google.put("runs/x/run.json", b"{}")
    assert Bucket("results", login).folders("runs/") == ("x",)


def test_an_object_is_created_once_and_another_content_is_an_error(google: FakeGoogle, login: UserCredentials) -> None:
    google.overwritable = lambda _: True
    bucket = Bucket("results", login, url=google.url, retry=HASTY)
    awkward = b'{"a": 1}\r\n\r\n--boundary\r\n'
    bucket.create("a", awkward)
    bucket.create("a", awkward)  # as after a lost answer
    with pytest.raises(LiveError, match="exists with other content") as caught:
        bucket.create("a", b"other")
    assert (caught.value.reason, google.contents["a"]) == ("already exists", awkward)
    google.uploads_lost = 1
    bucket.create("lost", b"x")
    google.put("a", b"other")
    assert google.contents == {"a": b"other", "lost": b"x"}
    bucket.delete("a")
    bucket.delete("a")
    assert google.contents == {"lost": b"x"}
    google.statuses = [403]
    with pytest.raises(LiveError, match=r"roles/storage\.objectUser"):
        bucket.create("a", b"")


def test_an_object_is_replaced_only_where_it_is_the_one_that_was_read(
    google: FakeGoogle, login: UserCredentials
) -> None:
    google.overwritable = lambda _: True
    bucket = Bucket("results", login, url=google.url, retry=HASTY)
    assert bucket.read_version("a") == (None, 0)
    assert bucket.replace("a", b"1", 0)
    assert not bucket.replace("a", b"2", 0)
    content, generation = bucket.read_version("a")
    assert (content, bucket.replace("a", b"2", generation)) == (b"1", True)
    assert not bucket.replace("a", b"3", generation)
    google.uploads_lost = 1
    assert bucket.replace("a", b"4", bucket.read_version("a")[1])
    assert google.contents == {"a": b"4"}
    google.statuses = [403]
    with pytest.raises(LiveError, match=r"roles/storage\.objectUser"):
        bucket.replace("a", b"", 0)


def test_a_large_object_is_sent_whole(google: FakeGoogle, login: UserCredentials, tmp_path: Path) -> None:
    bucket = Bucket("results", login, url=google.url, retry=HASTY)
    large = BIG * 3  # above what the client library sends in one request with its name
    bucket.create("large", large)
    assert google.contents["large"] == large
    bucket.download("large", tmp_path / "large")
    assert (tmp_path / "large").read_bytes() == large
    with pytest.raises(LiveError, match="not found"):
        bucket.download("larg", tmp_path / "none")
