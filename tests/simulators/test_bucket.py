from __future__ import annotations

import socket
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from google.oauth2.credentials import Credentials

from fleet.clients.storage import Bucket as LaptopBucket
from tests.support.simulators.bucket import TOKEN, LocalBucket
from workloads.benchmark.pods.results_bucket import Bucket as PodBucket


def pod(bucket: LocalBucket) -> PodBucket:
    return PodBucket(bucket.name, storage_url=bucket.url, metadata_url=bucket.url)


def test_what_a_pod_stores_a_laptop_mirrors(tmp_path: Path) -> None:
    with LocalBucket(page=2) as bucket:
        for name in (
            "run.json",
            "point-00-repeat-0/client-000.json",
            "point-00-repeat-0/client-000.log",
            ".progress/pod.json",
        ):
            pod(bucket).put(f"runs/x/{name}", name.encode() * 100)
        pod(bucket).put("runs/x/run.json", b"newer")
        laptop = LaptopBucket(bucket.name, Credentials(TOKEN), url=bucket.url)
        assert laptop.folders("runs/") == ("x",)
        assert laptop.read("runs/x/run.json") == b"run.json" * 100, "what is there stays"
        assert laptop.read("runs/x/nothing") is None
        files = laptop.mirror("runs/x/", tmp_path)
        assert sorted(str(file.relative_to(tmp_path)) for file in files) == [
            "point-00-repeat-0/client-000.json",
            "point-00-repeat-0/client-000.log",
            "run.json",
        ]
        assert (tmp_path / "point-00-repeat-0/client-000.log").read_bytes() == b"point-00-repeat-0/client-000.log" * 100


def test_a_download_goes_on_where_it_broke_off_and_strangers_are_refused() -> None:
    with LocalBucket() as bucket:
        bucket.put("a/b", b"0123456789")
        url = f"{bucket.url}/storage/v1/b/{bucket.name}/o/a%2Fb?alt=media"
        headers = {"Authorization": f"Bearer {TOKEN}", "Range": "bytes=4-"}
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers)) as answer:
            assert (answer.status, answer.read()) == (206, b"456789")
        for path, code in (
            (url, 401),
            (f"{bucket.url}/computeMetadata/v1/instance/service-accounts/default/token", 403),
        ):
            with pytest.raises(urllib.error.HTTPError) as caught:
                urllib.request.urlopen(path)
            with caught.value as error:
                assert error.code == code


def test_an_upload_that_breaks_off_is_no_object() -> None:
    with LocalBucket() as bucket:
        host, port = bucket.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as half:
            path = f"/upload/storage/v1/b/{bucket.name}/o?uploadType=media&name=a"
            half.sendall(
                f"POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: 100\r\n\r\nhalf".encode()
            )
            half.shutdown(socket.SHUT_WR)
            assert half.recv(100) == b""
        assert not bucket.objects
