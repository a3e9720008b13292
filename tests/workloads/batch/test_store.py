from __future__ import annotations

import time

import pytest

from lab.simulators.bucket import is_state_of_a_batch
from tests.fleet.clients.fake_google import fake_google
from tests.workloads.batch.played import batches
from tests.workloads.batch.test_leases import store
from workloads.batch.pods.store import BucketError


def test_an_object_is_created_once_and_replaced_by_generation_only() -> None:
    with batches() as bucket:
        objects = store(bucket)
        first = objects.create("leases/00000", b"a")
        assert first is not None
        assert objects.create("leases/00000", b"b") is None
        second = objects.write("leases/00000", b"c", first)
        assert second is not None
        assert objects.write("leases/00000", b"d", first) is None
        read = objects.read("leases/00000")
        assert read is not None
        assert (read.content, read.generation) == (b"c", second)
        objects.delete("leases/00000", first)
        assert objects.has("leases/00000"), "another generation stays"
        objects.delete("leases/00000", second)
        objects.delete("leases/00000", second)
        assert not objects.has("leases/00000")
        assert objects.read("leases/00000") is None
        assert objects.write("leases/00000", b"e", second) is None, "what is gone has no generation"
        assert abs(objects.now - time.time()) < 5


def test_pods_can_neither_replace_nor_delete_a_result() -> None:
    with batches() as bucket:
        objects = store(bucket)
        assert objects.create("results/00000.jsonl", b"a") is not None
        assert objects.create("results/00000.jsonl", b"b") is None
        for forbidden in (
            lambda: objects.write("results/00000.jsonl", b"b"),
            lambda: objects.delete("results/00000.jsonl"),
        ):
            with pytest.raises(BucketError, match="403"):
                forbidden()


def test_a_list_has_every_page_and_no_prefix() -> None:
    with batches() as bucket:
        bucket.page = 2
        objects = store(bucket)
        for number in range(5):
            objects.create(f"parts/{number}", b"")
        assert [found.name for found in objects.list("parts/")] == [f"parts/{number}" for number in range(5)]


def test_a_bucket_that_fails_for_a_moment_is_asked_again() -> None:
    with fake_google(overwritable=is_state_of_a_batch, statuses=[503, 429, 200, 500]) as google:
        objects = store(google)
        assert objects.create("parts/0", b"a") is not None
        read = objects.read("parts/0")
        assert read is not None
        assert read.content == b"a"
