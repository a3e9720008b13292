"""Pods of a batch as processes, before simulated servers and a simulated bucket."""

from __future__ import annotations

import json
import signal
import threading
import time

import pytest

from tests.support.rows import each_row
from tests.support.simulators.local_server import Answer, Request, served
from tests.support.waiting import until
from tests.workloads.batch.server import CRASH, POISON, REFUSED, RESET
from tests.workloads.batch.world import PREFIX, World, said
from workloads.batch.pods.process_shard import SHARD_FAILED, TERMINATED, TIME_OVER, WRONG_SETUP


def prompts(number: int, **planted: int) -> list[str]:
    """`planted`: a word with the number of its document."""
    words = {n: word for word, n in planted.items()}
    return [f"text {words.get(n, 'good')} {n}" for n in range(1, number + 1)]


def test_every_document_has_its_line_and_what_fails_twice_ends_in_the_last_shard() -> None:
    with World(prompts(40, poison=7, reset=20, refused=33), of_shard=20, seconds=0.02, speed=100) as world:
        job = world.job()
        pods = [world.pod(index, job) for index in range(3)]
        assert [pod.wait() for pod in pods] == [0, 0, 0]
        assert world.errors() == {7: "http-500", 20: "connection-broken", 33: "http-400"}
        assert world.has("later") == [f"{PREFIX}later/00000"]
        assert world.has("checkpoints") == []
        assert world.pod(0, job).wait() == 0  # Its part exists.
        (line,) = (one for one in world.lines() if one["custom_id"] == "d33")
        assert line["id"].endswith("-33")
        assert line["response"]["status_code"] == 400


@pytest.mark.slow
def test_of_documents_beside_one_that_crashes_servers_only_that_one_has_an_error() -> None:
    with World(prompts(30, crash=11), of_shard=30, seconds=0.1, speed=50) as world:
        job = world.job()
        pods = [world.pod(index, job) for index in range(2)]
        crashes = 0
        while any(pod.poll() is None for pod in pods):
            if world.servers[0].poll() is not None:
                crashes += 1
                world.kill_server(0)
                time.sleep(0.2)
                world.start_server(0)
            time.sleep(0.02)
        assert [pod.returncode for pod in pods] == [0, 0]
        assert world.errors() == {11: "connection-broken"}
        assert crashes <= 5  # Each is a restart: two in the shard, one beside others, two alone.


@pytest.mark.slow
def test_a_stopped_pod_keeps_its_answers_and_the_next_one_asks_for_the_rest() -> None:
    with World(prompts(16), of_shard=16, seconds=0.3, at_once=2, speed=100) as world:
        job = world.job()
        pod = world.pod(0, job)
        until(lambda: bool(world.has("checkpoints")))
        pod.send_signal(signal.SIGTERM)
        assert pod.wait() == TERMINATED
        kept = world.bucket.objects[f"{PREFIX}checkpoints/00000.jsonl"].content
        assert 0 < len(kept.splitlines()) < 16
        assert (world.pod(0, job).wait(), world.pod(1, job).wait()) == (0, 0)
        assert world.errors() == {}
        part = world.bucket.objects[f"{PREFIX}parts/00000.jsonl"].content
        assert set(kept.splitlines()) <= set(part.splitlines())


def test_a_pod_has_a_fixed_number_of_requests_in_flight() -> None:
    lock, seen = threading.Lock(), [0]

    def answer(_: Request) -> Answer:
        with lock:
            seen.append(seen[-1] + 1)
        time.sleep(0.2)
        with lock:
            seen.append(seen[-1] - 1)
        return Answer.of_json(200, {"id": "x", "choices": []})

    with served(answer) as port, World(prompts(42), of_shard=42, servers=0) as world:
        job = world.job(in_flight=7)
        job["spec"]["template"]["spec"]["containers"][0]["args"].append(f"--endpoint=http://127.0.0.1:{port}")
        assert world.pod(0, job).wait() == 0
    assert (max(seen), len(seen)) == (7, 1 + 2 * 42)


def test_a_part_is_created_once_and_what_the_first_pod_left_is_what_the_last_shard_asks() -> None:
    with World(prompts(8, poison=3), of_shard=8, speed=500) as world:
        job = world.job()
        # A pod that was thought dead: its part lacks documents 3 and 5.
        lines = [{"id": f"b0123456789ab-{n}", "custom_id": f"d{n}", "error": None} for n in (1, 2, 4, 6, 7, 8)]
        content = "".join(json.dumps(line) + "\n" for line in lines).encode()
        world.bucket.put(f"{PREFIX}later/00000", b"")
        pod = world.pod(0, job)
        until(lambda: pod.poll() is not None or bool(world.bucket.objects))
        world.bucket.put(f"{PREFIX}parts/00000.jsonl", content)
        assert pod.wait() == 0
        assert world.bucket.objects[f"{PREFIX}parts/00000.jsonl"].content == content
        assert world.pod(1, job).wait() == 0
        assert world.errors() == {3: "http-500"}


@each_row(
    "options, failures, code",
    [
        ({"key": "right"}, 0, WRONG_SETUP),
        ({"faults": {"500": 1.0}}, 0, SHARD_FAILED),
    ],
)
def test_broken_servers_and_a_wrong_key_write_no_error_lines(
    options: dict[str, object], failures: int, code: int
) -> None:
    with World(prompts(6), of_shard=6, speed=500, **options) as world:
        pod = world.pod(0, failures=failures, OPENAI_API_KEY="wrong")
        assert pod.wait() == code
        assert world.has("parts") == world.has("later") == []
        assert [one["step"] for one in said(pod)] == ["failing"]


def test_documents_that_are_gone_end_the_job_and_make_no_part() -> None:
    with World(prompts(6), of_shard=6) as world:
        del world.bucket.objects[f"{PREFIX}shards/00000.jsonl"]
        assert world.pod(0).wait() == WRONG_SETUP
        assert world.has("parts") == []


def test_most_documents_that_are_refused_are_told_and_have_their_lines() -> None:
    with World([f"text refused {n}" for n in range(6)], of_shard=6) as world:
        pod = world.pod(0)
        assert pod.wait() == 0
        assert [one["step"] for one in said(pod)] == ["failing", "done"]
        assert len(world.has("parts")) == 1


def test_after_the_last_attempt_of_a_shard_its_documents_are_left_for_the_last_one() -> None:
    with World(prompts(6), of_shard=6, speed=500, faults={"500": 1.0}) as world:
        assert world.pod(0, failures=5).wait() == 0
        assert len(world.has("later")) == len(world.has("parts")) == 1


@pytest.mark.slow
def test_a_pod_waits_for_servers_and_a_bucket_that_are_not_there() -> None:
    with World(prompts(6), of_shard=6, speed=20) as world:
        world.kill_server(0)
        world.bucket.is_broken = True
        pod = world.pod(0)
        until(lambda: world.bucket.asked > 4)
        world.bucket.is_broken = False
        before = world.bucket.asked
        until(lambda: world.bucket.asked > before + 2)
        assert pod.poll() is None
        world.start_server(0)
        assert pod.wait() == 0
        assert len(world.has("parts")) == 1


@pytest.mark.slow
def test_pods_end_when_the_batchs_time_is_over_whatever_they_wait_for() -> None:
    with World(prompts(6), of_shard=6, speed=100, seconds=5.0) as world:
        job = world.job(seconds=1.5)
        pods = [world.pod(index, job) for index in range(2)]  # The last one waits for the other's part.
        assert [pod.wait(20) for pod in pods] == [TIME_OVER, TIME_OVER]
        assert [[one["step"] for one in said(pod)] for pod in pods] == [["limit"], ["limit"]]
        assert world.pod(0, job).wait(20) == TIME_OVER  # As after a suspension, which begins the Job's own time anew.


def test_no_document_is_in_a_log() -> None:
    with World(prompts(12, poison=3, refused=5), of_shard=6, speed=100) as world:
        job = world.job()
        pods = [world.pod(index, job) for index in range(3)]
        assert [pod.wait() for pod in pods] == [0, 0, 0]
        told = [line for pod in pods for line in said(pod)]
        assert {one["step"] for one in told} == {"done"}
        assert not any(word in json.dumps(told) for word in ("text", "d3", "of text", POISON, REFUSED, RESET, CRASH))
