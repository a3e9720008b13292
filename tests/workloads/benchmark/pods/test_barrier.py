"""Barriers in the bucket: one start for all, by the bucket's clock; who is missing is named, who failed is known to all."""

from __future__ import annotations

import threading
import time

import pytest

from tests.workloads.benchmark.pods.fake_cloud import FakeCloud, fake_cloud
from workloads.benchmark.pods.barrier import Barrier, LateError
from workloads.benchmark.pods.results_bucket import Bucket


def barrier(cloud: FakeCloud, pod: int, pods: int) -> Barrier:
    bucket = Bucket("results", storage_url=cloud.url, metadata_url=cloud.url, pause_seconds=0.01)
    return Barrier(bucket, "runs/a/.barrier/point-00-repeat-0/", pod, pods, poll_seconds=0.01)


def test_all_pods_see_the_same_newest_marker() -> None:
    newest = {}
    with fake_cloud() as cloud:

        def arrive(pod: int) -> None:
            time.sleep(0.05 * pod)
            one = barrier(cloud, pod, 12)
            one.arrive()
            newest[pod] = one.wait(time.time() + 10).newest

        threads = [threading.Thread(target=arrive, args=(pod,)) for pod in (0, 1, 2, 11)]
        for pod in range(3, 11):
            barrier(cloud, pod, 12).arrive()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert "runs/a/.barrier/point-00-repeat-0/11" in cloud.contents
    assert len(newest) == 4
    assert len(set(newest.values())) == 1
    assert 0 <= time.time() - newest[0] < 10


def test_a_pod_that_never_comes_is_named() -> None:
    with fake_cloud() as cloud:
        barrier(cloud, 1, 3).arrive()
        with pytest.raises(LateError, match=r"pods \[0, 2\] of 3 did not report in time"):
            barrier(cloud, 1, 3).wait(time.time() + 0.05)


def test_a_failure_ends_the_wait_of_those_that_need_everybody() -> None:
    with fake_cloud() as cloud:
        barrier(cloud, 2, 3).arrive(failed=True)
        here = barrier(cloud, 0, 3).wait(time.time() + 5, end_on_failure=True)
        assert here.failed == {2}
        # Others wait for those who matter, whether they failed or not.
        assert barrier(cloud, 0, 3).wait(time.time() + 5, for_pods={2}).failed == {2}


def test_a_failure_reported_late_leaves_the_arrival_as_it_was() -> None:
    with fake_cloud() as cloud:
        one = barrier(cloud, 0, 1)
        one.arrive()
        first = one.arrivals().newest
        time.sleep(0.02)
        one.arrive(failed=True)
        assert one.arrivals().newest == first
        assert one.arrivals().failed == {0}


def test_a_marker_whose_answer_was_lost_keeps_its_moment() -> None:
    # Another pod may have read the first one by then: two moments would be two starts.
    with fake_cloud(uploads_lost=1) as cloud:
        barrier(cloud, 0, 1).arrive()
        assert cloud.uploaded == ["runs/a/.barrier/point-00-repeat-0/0"]


def test_who_waits_can_be_called_away() -> None:
    with fake_cloud() as cloud:
        one = barrier(cloud, 0, 2)
        one.arrive()
        calls = iter([True, True, False])
        assert set(one.wait(time.time() + 5, go_on=lambda: next(calls)).at) == {0}
