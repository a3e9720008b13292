"""Waiting for the model server: what is only a server that starts, whatever its answers look like."""

from __future__ import annotations

import time

import pytest

from tests.workloads.benchmark.pods.fake_cloud import fake_cloud
from workloads.benchmark.pods.wait_for_server import wait_for_server


def test_a_server_that_answers_in_halves_is_one_that_starts() -> None:
    with fake_cloud(cut=[True] * 2, not_ready_for=1) as cloud:
        wait_for_server(cloud.url, "the/model", until=time.time() + 10, poll_seconds=0.01)
        assert (cloud.cut, cloud.not_ready_for) == ([], 0)


def test_a_server_that_never_answers_whole_is_named() -> None:
    with (
        fake_cloud(cut=[True] * 1000) as cloud,
        pytest.raises(SystemExit, match=r"/v1/models did not answer in time: .*IncompleteRead"),
    ):
        wait_for_server(cloud.url, "the/model", until=time.time() + 0.05, poll_seconds=0.01)
