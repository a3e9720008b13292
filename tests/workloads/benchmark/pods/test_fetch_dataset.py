"""A dataset arrives whole or not at all: resumed where it broke off, checked by its hash, from a bucket or a web server."""

from __future__ import annotations

import hashlib
import random
from pathlib import Path

import pytest

from tests.workloads.benchmark.pods.fake_cloud import FakeCloud, fake_cloud
from workloads.benchmark.pods import fetch_dataset
from workloads.benchmark.pods.fetch_dataset import FetchError, Source, fetch

CONTENT = random.Random(1).randbytes(3_000_000)
SHA256 = hashlib.sha256(CONTENT).hexdigest()


def source(cloud: FakeCloud, url: str = "") -> Source:
    return Source(url or f"{cloud.url}/files/d.jsonl", cloud.url, cloud.url, pause_seconds=0.001)


@pytest.mark.parametrize("etag", ['"1"', 'W/"1"', None])
def test_a_transfer_that_breaks_off_goes_on_where_that_is_safe(tmp_path: Path, etag: str | None) -> None:
    cuts = [1_000_000, 700_000]
    with fake_cloud(files={"d.jsonl": CONTENT}, break_after=cuts, etag=etag) as cloud:
        fetch(source(cloud), SHA256, tmp_path / "d")
        begun = [0 if one is None else int(one[6:-1]) for one in cloud.ranges]
    assert (tmp_path / "d").read_bytes() == CONTENT
    # A weak or no version says nothing about bytes: the file is asked for from its beginning.
    assert begun == ([0, 1_000_000, 1_700_000] if etag == '"1"' else [0, 0, 0])
    assert [one.name for one in tmp_path.iterdir()] == ["d"]


def test_many_breaks_are_borne_as_long_as_something_arrives(tmp_path: Path) -> None:
    with fake_cloud(files={"d.jsonl": CONTENT}, break_after=[200_000] * 14) as cloud:
        fetch(source(cloud), SHA256, tmp_path / "d")
    assert (tmp_path / "d").read_bytes() == CONTENT


def test_a_server_that_sends_nothing_is_given_up(tmp_path: Path) -> None:
    with (
        fake_cloud(files={"d.jsonl": CONTENT}, break_after=[0] * 50) as cloud,
        pytest.raises(FetchError, match=r"files/d.jsonl: given up after 6 attempts: the transfer broke off"),
    ):
        fetch(source(cloud), SHA256, tmp_path / "d")


def test_an_object_is_fetched_with_the_pods_own_identity(tmp_path: Path) -> None:
    with fake_cloud(objects={"sets/my trace.jsonl": CONTENT}, statuses=[503] * 2) as cloud:
        fetch(source(cloud, "gs://results/sets/my trace.jsonl"), SHA256, tmp_path / "d")
        assert cloud.tokens_handed_out >= 1
    assert (tmp_path / "d").read_bytes() == CONTENT


def test_another_file_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    with fake_cloud(files={"d.jsonl": b"other"}) as cloud:
        found = hashlib.sha256(b"other").hexdigest()
        with pytest.raises(
            FetchError, match=f"SHA-256 of its 5 bytes is {found}, benchmark.dataset.sha256 is {SHA256}"
        ):
            fetch(source(cloud), SHA256, tmp_path / "d")
        assert len(cloud.ranges) == 2, "a transfer may have gone wrong once"
    assert not list(tmp_path.iterdir())


def test_a_file_that_is_here_already_is_not_fetched_again(tmp_path: Path) -> None:
    (tmp_path / "d").write_bytes(CONTENT)
    with fake_cloud() as cloud:
        fetch(source(cloud), SHA256, tmp_path / "d")
        assert cloud.ranges == []


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("gs://results/none.jsonl", "HTTP 404: .*no object none.jsonl"),
        ("gs://results", "names no object; write gs://BUCKET/OBJECT"),
        ("http://example.com/d", r"https://... or gs://BUCKET/OBJECT is allowed"),
        ("file:///etc/passwd", r"https://... or gs://BUCKET/OBJECT is allowed"),
    ],
)
def test_a_url_that_leads_nowhere_is_said_so_at_once(tmp_path: Path, url: str, complaint: str) -> None:
    with fake_cloud() as cloud, pytest.raises(FetchError, match=complaint):
        fetch(source(cloud, url), SHA256, tmp_path / "d")


def test_a_pod_without_an_identity_is_told_apart_from_a_missing_object(tmp_path: Path) -> None:
    with fake_cloud() as cloud:
        nobody = Source("gs://results/d", cloud.url, f"{cloud.url}/elsewhere", pause_seconds=0.001)
        with pytest.raises(FetchError, match="given up after 6 attempts: the metadata server gave no token: HTTP 401"):
            fetch(nobody, SHA256, tmp_path / "d")


def test_a_hash_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="cannot fetch the dataset: 'abc' is no SHA-256; 64 hexadecimal digits"):
        fetch_dataset.main(["https://example.com/d", "abc", str(tmp_path / "d")])
