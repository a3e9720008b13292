"""The bucket over plain HTTP: what is retried, what is not, what is checked."""

from __future__ import annotations

import io
import urllib.error
from email.message import Message
from pathlib import Path
from typing import Any

import pytest

from tests.workloads.benchmark.pods.fake_cloud import FakeCloud, fake_cloud
from workloads.benchmark.pods.results_bucket import Bucket, BucketError


def bucket(cloud: FakeCloud) -> Bucket:
    return Bucket("results", storage_url=cloud.url, metadata_url=cloud.url, pause_seconds=0.002)


def test_bytes_and_files_arrive_whole(tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    file.write_bytes(b"x" * 300_000)
    with fake_cloud() as cloud:
        bucket(cloud).put("runs/a/ready/0", b"ready")
        bucket(cloud).put("runs/a/with space+plus.json", file)
        assert cloud.contents == {"runs/a/ready/0": b"ready", "runs/a/with space+plus.json": b"x" * 300_000}


def test_one_token_serves_many_calls() -> None:
    with fake_cloud() as cloud:
        target = bucket(cloud)
        for number in range(4):
            target.put(f"o{number}", b"")
        assert cloud.tokens_handed_out == 1


NO_TOKEN = "the metadata server gave no token: .*"


@pytest.mark.parametrize(
    ("kind", "trouble", "said"),
    [
        ("statuses", 503, "HTTP 503"),
        ("cut", True, ""),
        ("token_answers", (404, "Unable to find"), f"{NO_TOKEN}HTTP 404"),
        ("token_answers", (200, "nobody"), f"{NO_TOKEN}no token in its answer"),
        ("token_answers", (500, ""), f"{NO_TOKEN}HTTP 500"),
    ],
)
def test_what_may_pass_is_tried_again_and_named_when_it_stays(kind: str, trouble: Any, said: str) -> None:
    with fake_cloud(**{kind: [trouble] * 3}) as cloud:
        bucket(cloud).put("object", b"content")
        assert cloud.contents["object"] == b"content"
    with fake_cloud(**{kind: [trouble] * 100}) as cloud:
        with pytest.raises(BucketError, match=f"put gs://results/object: given up after 6 attempts: .*{said}"):
            bucket(cloud).put("object", b"content")
        assert len(getattr(cloud, kind)) == 94


def test_a_refusal_is_not_repeated() -> None:
    with (
        fake_cloud(statuses=[403] * 100) as cloud,
        pytest.raises(BucketError, match=r"HTTP 403.*made to say 403"),
    ):
        bucket(cloud).put("object", b"content")


def test_what_shall_stay_is_stored_once_whatever_becomes_of_the_answer() -> None:
    with fake_cloud(uploads_lost=1) as cloud:
        target = bucket(cloud)
        target.put("marker", b"")
        target.put("marker", b"")
        assert cloud.uploaded == ["marker"]
        target.put("runs/a/.progress/0.json", b"1", again=True)
        target.put("runs/a/.progress/0.json", b"2", again=True)
        assert cloud.contents["runs/a/.progress/0.json"] == b"2"
        with pytest.raises(BucketError, match=r"HTTP 403.*storage\.objects\.delete"):
            target.put("marker", b"", again=True)


@pytest.mark.parametrize("is_there", [True, False])
def test_a_refusal_to_write_over_what_is_there_is_as_good_as_stored(
    monkeypatch: pytest.MonkeyPatch, is_there: bool
) -> None:
    target = Bucket("b")

    def call(_: Bucket, url: str, data: object = None, **_headers: object) -> dict[str, object]:
        if data is None:
            return {"items": [{"name": "runs/a/0" if is_there else "runs/a/01"}]}
        raise urllib.error.HTTPError(url, 403, "forbidden", Message(), io.BytesIO(b"no storage.objects.delete access"))

    monkeypatch.setattr(Bucket, "_call", call)
    if is_there:
        target.put("runs/a/0", b"content")
    else:
        with pytest.raises(BucketError, match="HTTP 403"):
            target.put("runs/a/0", b"content")
