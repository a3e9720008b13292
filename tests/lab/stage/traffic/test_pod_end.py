from __future__ import annotations

from typing import Any

import pytest

from lab.stage.traffic.pod_end import grace_left, share_cut
from tests.lab.stage.traffic.pods import ONE_API_SERVER, changed, pod
from workloads.server.pod_end import PodEnd, pod_end


def end_of(*arguments: Any, **options: Any) -> PodEnd:
    return pod_end(pod(*arguments, **options)["spec"])


def test_with_several_api_servers_only_the_sleep_saves_a_stream() -> None:
    end = end_of("a", pre_stop_seconds=5, grace_seconds=15, args=("--shutdown-timeout=10",))
    assert (end.accept_seconds, end.finish_seconds, end.stream_seconds) == (5, 0, 5)


def test_with_one_api_server_the_shutdown_timeout_counts_up_to_the_grace() -> None:
    assert end_of("a", args=ONE_API_SERVER).stream_seconds == 15
    long = end_of("a", grace_seconds=300, args=("--api-server-count=1", "--shutdown-timeout=400"))
    assert (long.accept_seconds, long.finish_seconds) == (5, 295)


def test_the_module_entry_point_is_one_api_server() -> None:
    one = pod("a", args=("--shutdown-timeout=10",))
    one["spec"]["containers"][0]["command"] = ["python3", "-m", "vllm.entrypoints.openai.api_server"]
    assert pod_end(one["spec"]).finish_seconds == 10


def test_without_a_sleep_or_a_timeout_streams_end_with_the_signal() -> None:
    assert end_of("a", pre_stop_seconds=None, grace_seconds=None).stream_seconds == 0


def test_a_shorter_grace_than_the_pods_own_shortens_the_sleep() -> None:
    end = pod_end(pod("a", pre_stop_seconds=120, grace_seconds=630)["spec"], grace_seconds=15)
    assert (end.accept_seconds, end.finish_seconds) == (15, 0)
    assert pod_end(pod("a")["spec"], grace_seconds=600).accept_seconds == 5


def test_a_pod_ends_by_deletion_or_by_notice() -> None:
    one = pod("a", grace_seconds=600)
    assert grace_left(one, 15) is None
    assert grace_left(changed(one, ready=False), 15) is None
    assert grace_left(changed(one, deleted_with_grace=30), 15) == 30
    assert [grace_left(changed(one, notice=True), left) for left in (15, 105)] == [15, 105]


def test_an_eviction_by_the_api_is_no_notice() -> None:
    one = changed(pod("a"), notice=True)
    one["status"]["conditions"][-1]["reason"] = "EvictionByEvictionAPI"
    assert grace_left(one, 15) is None


def test_a_notice_shorter_than_a_request_cuts_the_difference() -> None:
    assert share_cut(24.0, 15.0) == pytest.approx(0.375)
    assert share_cut(24.0, 5.0) == pytest.approx(19 / 24)
    assert share_cut(24.0, 0.0) == 1.0
    assert share_cut(24.0, -1.0) == 1.0
    assert share_cut(24.0, 30.0) == 0.0
