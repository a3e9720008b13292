from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.cloud.kubelet_stages import EXIT_CODE, RUN_SECONDS
from lab.cloud.timings import Timings
from lab.cloud.writer import Attempt, Writer
from lab.control_plane.api import Manifest
from tests.lab.cloud.fake_world import feed, make_world, on_node, pod, until

WHOLE = Timings(writer_seconds=300.0)


class Download:
    """A writer, and pods of its Job."""

    def __init__(self, speed: float = 6000.0) -> None:
        self.world, self.api = make_world(speed)
        self.writer = Writer(self.world, WHOLE)

    def start(self, name: str, claim: str = "weights") -> Manifest:
        volume = {"name": "weights", "persistentVolumeClaim": {"claimName": claim}}
        one = pod(name, {"cpu": "4"}, volumes=[volume])
        one["metadata"]["labels"] = {"app": "weights-writer"}
        feed(self.world.pods, "added", one)
        feed(self.world.pods, "modified", on_node(one, "node"))
        return one

    def end(self, one: Manifest, code: int) -> Attempt:
        ended = on_node(one, "node", phase="Failed" if code else "Succeeded")
        ended["status"]["containerStatuses"][0]["state"] = {"terminated": {"exitCode": code}}
        feed(self.world.pods, "modified", ended)
        return self.writer.attempts()[-1]

    def told(self) -> list[dict[str, str]]:
        return [body["metadata"]["annotations"] for kind, _, body, _ in self.api.patches if kind == "Pod"]


@pytest.fixture
def download() -> Iterator[Download]:
    made = Download()
    with made.writer:
        yield made


def test_a_download_without_trouble_is_left_to_the_kubelet(download: Download) -> None:
    attempt = download.end(download.start("a"), 0)
    assert (attempt.share_written, attempt.exit_code, attempt.over) == (1.0, 0, True)
    assert download.told() == []


def test_an_attempt_that_is_made_to_fail_is_told_when_and_how(download: Download) -> None:
    download.writer.fail_next(after_share=0.6, exit_code=7)
    first = download.start("a")
    assert until(download.told) == [{RUN_SECONDS: "180.000", EXIT_CODE: "7"}]
    assert download.end(first, 7).share_written == pytest.approx(0.6)


def test_the_second_attempt_takes_only_the_rest(download: Download) -> None:
    download.writer.fail_next(after_share=0.6, exit_code=7)
    download.end(download.start("a"), 7)
    second = download.start("b")
    until(lambda: len(download.told()) == 2)
    assert download.told()[1] == {RUN_SECONDS: "120.000", EXIT_CODE: "0"}
    assert download.end(second, 0).share_written == pytest.approx(0.4)
    assert [one.pod for one in download.writer.attempts()] == ["a", "b"]


def test_another_volume_starts_from_nothing(download: Download) -> None:
    download.end(download.start("a"), 0)
    assert download.end(download.start("b", claim="other"), 0).share_written == 1.0


def test_a_complete_volume_is_only_looked_at(download: Download) -> None:
    download.end(download.start("a"), 0)
    again = download.start("b")
    assert until(download.told) == [{RUN_SECONDS: "5.000", EXIT_CODE: "0"}]
    assert download.end(again, 0).share_written == 0.0


def test_a_deleted_claim_takes_what_was_written_along(download: Download) -> None:
    download.end(download.start("a"), 0)
    feed(download.world.claims, "added", {"metadata": {"name": "weights", "namespace": "vllm"}})
    feed(download.world.claims, "deleted", {"metadata": {"name": "weights", "namespace": "vllm"}})
    assert download.end(download.start("b"), 0).share_written == 1.0


def test_a_pod_that_is_cut_short_keeps_what_the_line_brought() -> None:
    download = Download(speed=600.0)
    first = download.start("a")
    download.world.clock.sleep(60)
    feed(download.world.pods, "deleted", on_node(first, "node"))
    attempt = download.writer.attempts()[0]
    assert 0.2 <= attempt.share_written < 0.9
    assert (attempt.exit_code, attempt.over) == (None, True)
    second = download.start("b")
    assert download.end(second, 0).share_written == pytest.approx(1 - attempt.share_written)


def test_attempts_are_counted_from_a_moment_on(download: Download) -> None:
    download.end(download.start("a"), 0)
    later = download.world.clock.now_seconds()
    assert download.writer.attempts_since(0) == 1
    assert download.writer.attempts_since(later) == 0
    download.start("b")
    assert download.writer.attempts_since(later) == 1


def test_other_pods_are_none_of_its_business(download: Download) -> None:
    feed(download.world.pods, "added", pod("other", {"cpu": "1"}))
    assert download.writer.attempts() == ()
