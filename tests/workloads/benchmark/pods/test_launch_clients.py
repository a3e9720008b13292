"""A whole measurement as its pods play it, with a stand-in for vLLM and a bucket on loopback; and each way in which it can fail."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from fleet.bench.folder import Asked, MetricsSample, PodCourse, Witness
from tests.workloads.benchmark.pods.fake_cloud import FakeCloud, fake_cloud
from tests.workloads.benchmark.pods.stand_in import stand_in
from workloads.benchmark.pods import launch_clients
from workloads.benchmark.pods.client_processes import SPARE_FILES, SPARE_PORTS, wait_for_ports

NAME = "benchmark-ab-12345678"
PREFIX = f"runs/{NAME}/"


def asked(**changes: Any) -> dict[str, Any]:
    """A run.json as the program writes it."""
    values: dict[str, Any] = {
        "schema": 1,
        "stack": "dev",
        "profile": "article",
        "served_model": "the/model",
        "model_revision": "abc",
        "image": "vllm@sha256:0",
        "engines_per_replica": 8,
        "speculative_tokens": 0,
        "workload": {
            "name": "article",
            "kind": "random",
            "arguments": {"dataset-name": "random", "random-input-len": "768"},
            "ignore_eos": True,
        },
        "points": [{"connections": 8, "clients": 3}],
        "repeats": 1,
        "prompts_per_client": 4,
        "pods": 2,
        "shape": {
            "model": "the/model",
            "engine_version": "0.18.1",
            "machine_type": "a4-highgpu-8g",
            "replicas": 1,
            "gpus_per_replica": 8,
            "flags": {},
            "env": {},
            "routing": "cluster-ip",
            "workload": "article",
        },
    }
    return {**values, **changes}


@dataclass
class Measurement:
    """Pods of one measurement as processes."""

    cloud: FakeCloud
    folder: Path
    pods: list[subprocess.Popen[str]] = field(default_factory=list)

    def start(self, plan: dict[str, Any], pods: list[int], *options: str, **environment: str) -> None:
        run = self.folder / "run.json"
        run.write_text(json.dumps(plan))
        tree = stand_in(self.folder / "tree")
        port = self.cloud.url.rpartition(":")[2]
        known = {
            "run": run,
            "endpoint": f"{self.cloud.url}/",
            "bucket": "results",
            "tokenizer": "/nowhere",
            "server-pods": f"127.0.0.1:{port}",
            "wait-minutes": 1,
            "start-margin-seconds": 0.2,
            "poll-seconds": 0.05,
            "progress-seconds": 0.1,
            "idle-minutes": 0.05,
            "storage-url": self.cloud.url,
            "metadata-url": self.cloud.url,
        }
        for pod in pods:
            arguments = [f"--{name}={value}" for name, value in known.items()]
            self.pods.append(
                subprocess.Popen(
                    [
                        *(sys.executable, "-m", "workloads.benchmark.pods.launch_clients", *arguments),
                        f"--results={self.folder / f'pod-{pod}'}",
                        *options,
                    ],
                    env={
                        **os.environ,
                        "PYTHONPATH": f"{Path(launch_clients.__file__).parents[3]}:{tree}",
                        "JOB_NAME": "benchmark-ab",
                        "JOB_UID": "12345678-aaaa",
                        "JOB_COMPLETION_INDEX": str(pod),
                        **environment,
                    },
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                )
            )

    def end(self) -> list[tuple[int, str]]:
        """Exit code and log of each pod."""
        ended = [(pod.communicate(timeout=60)[0], pod.returncode) for pod in self.pods]
        for log, _ in ended:
            assert "Traceback" not in log, log
        return [(code, log) for log, code in ended]

    def stored(self) -> set[str]:
        """Names of what lies in the measurement's folder, without barriers and progress."""
        names = {name.removeprefix(PREFIX) for name in list(self.cloud.contents)}
        return {name for name in names if not name.startswith(".")}

    def read(self, name: str) -> Any:
        return json.loads(self.cloud.contents[PREFIX + name])

    def progress(self, pod: int) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.cloud.contents.get(f"{PREFIX}.progress/{pod}.json", b"{}"))
        return found


@contextmanager
def measurement(folder: Path, **how: Any) -> Iterator[Measurement]:
    with fake_cloud(**how) as cloud:
        made = Measurement(cloud, folder)
        try:
            yield made
        finally:
            for pod in made.pods:
                if pod.poll() is None:
                    pod.kill()
                    pod.communicate()


def files_of(folder: str, clients: range, pods: range) -> set[str]:
    kinds = ("json", "witness.json", "log")
    own = {f"{folder}/client-{client:03d}.{kind}" for client in clients for kind in kinds}
    return {
        *own,
        *(f"{folder}/pod-{pod}.json" for pod in pods),
        f"{folder}/{launch_metrics}",
        f"{folder}/collector.log",
    }


launch_metrics = "server-metrics.jsonl.gz"


def test_two_pods_play_every_point_together(tmp_path: Path) -> None:
    plan = asked(points=[{"connections": 8, "clients": 3}, {"connections": 1, "clients": 1}])
    with measurement(tmp_path, api_key="s3cret") as made:
        made.start(plan, [0, 1], OPENAI_API_KEY="s3cret")
        ended = made.end()
        assert [code for code, _ in ended] == [0, 0], ended
        folders = {"point-00-repeat-0": 3, "point-01-repeat-0": 1}
        expected = {"run.json"}.union(*(files_of(name, range(n), range(2)) for name, n in folders.items()))
        assert made.stored() == expected
        written = Asked.model_validate(made.read("run.json"), strict=False)
        assert (written.name, written.created[:2]) == (NAME, "20")
        results = {name: made.read(name) for name in expected if name.endswith(".json") and name.count(".") == 1}
        clients = [value for name, value in results.items() if "/client-" in name]
        assert len({one["seed"] for one in clients}) == 4, "no seed twice in the measurement"
        assert {one["key"] for one in clients} == {"s3cret"}
        assert sorted(one["max_concurrency"] for one in clients) == [1, 2, 3, 3]
        ends = 0.0
        for name, count in folders.items():
            seen = [
                Witness.model_validate(made.read(f"{name}/client-{n:03d}.witness.json"), strict=False)
                for n in range(count)
            ]
            assert len({one.barrier.go_at for one in seen}) == 1, "one start for all clients of all pods"
            go = seen[0].barrier.go_at
            assert all(one.barrier.ready_at < go <= one.barrier.released_at < go + 2 for one in seen)
            assert go > ends, "runs do not overlap"
            ends = max(one.ended_at for one in seen)
            assert {float(made.read(f"{name}/client-{n:03d}.json")["started_at"]) for n in range(count)} == {
                round(go, 3)
            }
            courses = [PodCourse.model_validate(made.read(f"{name}/pod-{pod}.json"), strict=False) for pod in range(2)]
            assert courses[0].clients + courses[1].clients == tuple(range(count))
            assert set(courses[0].exit_codes.values()) == {0}
            lines = gzip.decompress(made.cloud.contents[f"{PREFIX}{name}/{launch_metrics}"]).splitlines()
            samples = [MetricsSample.model_validate_json(line) for line in lines]
            assert samples
            assert samples[0].values == {
                "vllm:num_requests_running": {"0": 0.0},
                "vllm:num_requests_waiting": {"0": 0.0},
            }
            assert samples[0].at < ends
        # With one client for two pods the second has none and takes part all the same.
        assert PodCourse.model_validate(made.read("point-01-repeat-0/pod-1.json"), strict=False).clients == ()
        assert made.progress(0)["state"] == made.progress(1)["state"] == "finished"
    assert "this pod:" in ended[0][1]
    assert "output tok/s" in ended[0][1]
    assert "client 0: 4 requests completed, 0 failed" in ended[0][1]
    assert ended[1][1].splitlines()[-1].endswith(f"finished: 2 runs; results: gs://results/{PREFIX}")
    assert "s3cret" not in ended[0][1] + ended[1][1]


@pytest.mark.slow
def test_progress_tells_where_a_pod_is(tmp_path: Path) -> None:
    with measurement(tmp_path) as made:
        made.start(asked(points=[{"connections": 2, "clients": 2}], pods=1), [0], REQUEST_SECONDS="0.25")
        seen: dict[str, dict[str, Any]] = {}
        while made.pods[0].poll() is None:
            told = made.progress(0)
            if told and (told["state"], told.get("requests_done")) not in [
                (one["state"], one.get("requests_done")) for one in seen.values()
            ]:
                seen[f"{told['state']}{told.get('requests_done') or ''}"] = told
            time.sleep(0.02)
        assert made.end()[0][0] == 0
        assert made.progress(0)["state"] == "finished"
    assert {"preparing", "running"} <= {one["state"] for one in seen.values()}
    running = [one for one in seen.values() if one["state"] == "running" and one["clients"]["running"] == 2]
    assert any(0 < (one["requests_done"] or 0) < 8 for one in running)
    last = running[-1]
    assert (last["pod"], last["pods"], last["point"], last["repeat"], last["run"], last["runs"]) == (0, 1, 0, 0, 1, 1)
    assert (last["requests"], last["connections"], last["clients"]["all"]) == (8, 2, 2)
    assert last["elapsed_seconds"] > 0


@pytest.mark.slow
def test_a_client_that_fails_fails_its_run_and_leaves_the_others_alone(tmp_path: Path) -> None:
    with measurement(tmp_path) as made:
        made.start(asked(repeats=2), [0, 1], WRONG="2:dies-later")
        ended = made.end()
        assert [code for code, _ in ended] == [1, 1], "all pods know of it"
        stored = made.stored()
        for folder in ("point-00-repeat-0", "point-00-repeat-1"):
            assert {f"{folder}/client-00{n}.json" for n in (0, 1)} <= stored
            assert f"{folder}/client-002.log" in stored
            assert f"{folder}/client-002.json" not in stored
        assert made.read("point-00-repeat-0/pod-1.json")["exit_codes"]["2"] == 4
        assert made.progress(0)["state"] == "failed"
    said = "client 2: exit code 4; its last words: it went wrong on the way"
    last = ended[1][1].splitlines()[-1]
    assert f"failed: point-00-repeat-0: {said}; point-00-repeat-1: {said}; what there is: gs://results/{PREFIX}" in last
    assert "point-00-repeat-0: failed on pods [1]" in ended[0][1].splitlines()[-1]


@pytest.mark.slow
def test_a_client_that_dies_before_the_start_ends_the_run_everywhere_and_two_such_runs_the_measurement(
    tmp_path: Path,
) -> None:
    with measurement(tmp_path) as made:
        made.start(asked(repeats=3), [0, 1], WRONG="2:dies")
        ended = made.end()
        assert [code for code, _ in ended] == [1, 1]
        assert not any(name.startswith("point-00-repeat-2") for name in made.stored())
        assert not any(name.endswith("witness.json") for name in made.stored()), "nobody started without the others"
        course = made.read("point-00-repeat-0/pod-0.json")
    assert any("pods [1] could not make their clients ready" in step["what"] for step in course["steps"])
    said = "client 2 ended before the start with exit code 3; its last words: no memory left for this client"
    assert said in ended[1][1]
    assert "1 runs were left out: 2 in a row never started" in ended[0][1].splitlines()[-1]


@pytest.mark.slow
def test_pods_that_saw_another_end_of_the_barrier_agree_that_the_run_never_started(tmp_path: Path) -> None:
    with measurement(tmp_path) as made:
        put = made.cloud.put
        barriers = [{f"{PREFIX}.barrier/point-00-repeat-{repeat}/{pod}" for pod in (0, 1)} for repeat in range(2)]

        def put_while_a_client_dies(name: str, content: bytes) -> Any:
            # The caller holds the bucket's lock: no pod sees both markers before the second pod has lost its client.
            stored = put(name, content)
            if any(name in both and both <= made.cloud.contents.keys() for both in barriers):
                (victim,) = [child for child in _children(made.pods[1].pid) if "--client=2" in _command(child)]
                os.kill(victim, signal.SIGKILL)
                _wait_for_state(victim, "Z")
                made.pods[1].send_signal(signal.SIGSTOP)
                _wait_for_state(made.pods[1].pid, "T")
            return stored

        made.cloud.put = put_while_a_client_dies
        made.start(asked(repeats=3), [0, 1])
        for repeat in range(2):
            # The second pod is stopped until the first one has gone on.
            _wait_until(
                lambda repeat=repeat: (
                    made.progress(0).get("repeat") == repeat and made.progress(0)["state"] in ("running", "storing")
                )
            )
            made.pods[1].send_signal(signal.SIGCONT)
        ended = made.end()
        assert [code for code, _ in ended] == [1, 1]
        assert "point-00-repeat-0/client-000.json" in made.stored(), "the first pod went on"
        assert not any(name.startswith("point-00-repeat-2") for name in made.stored())
    for _, log in ended:
        assert "1 runs were left out: 2 in a row never started" in log.splitlines()[-1]


@pytest.mark.slow
def test_a_client_that_hangs_is_ended_and_the_others_results_are_kept(tmp_path: Path) -> None:
    with measurement(tmp_path) as made:
        made.start(asked(pods=1), [0], "--run-minutes=0.05", WRONG="1:hangs")
        ((code, log),) = made.end()
        assert code == 1
        assert {"point-00-repeat-0/client-000.json", "point-00-repeat-0/client-002.json"} <= made.stored()
        assert made.read("point-00-repeat-0/pod-0.json")["exit_codes"]["1"] == -signal.SIGTERM
    assert "clients 1 had not ended 0.05 minutes after the start" in log


@pytest.mark.slow
def test_a_client_without_one_success_is_a_failure(tmp_path: Path) -> None:
    with measurement(tmp_path) as made:
        made.start(asked(pods=1), [0], WRONG="1:all-fail")
        ((code, log),) = made.end()
    assert code == 1
    assert "client 1: none of its requests succeeded" in log


@pytest.mark.slow
def test_a_pod_that_is_told_to_end_ends_its_clients_and_stores_what_there_is(tmp_path: Path) -> None:
    with measurement(tmp_path) as made:
        made.start(asked(pods=1, repeats=2, prompts_per_client=100), [0], REQUEST_SECONDS="0.5")
        until = time.time() + 20
        while made.progress(0).get("clients", {}).get("running") != 3:
            assert time.time() < until
            time.sleep(0.02)
        children = _children(made.pods[0].pid)
        assert len(children) == 4, "three clients and the collector"
        made.pods[0].send_signal(signal.SIGTERM)
        ((code, log),) = made.end()
        assert code == 1
        assert {
            f"point-00-repeat-0/{name}" for name in ("client-000.log", "pod-0.json", launch_metrics)
        } <= made.stored()
        assert made.read("point-00-repeat-0/pod-0.json")["steps"][-1]["what"] == "the pod was told to end"
        assert made.progress(0)["state"] == "stopped"
        assert not [child for child in children if Path(f"/proc/{child}").exists()]
    assert "the pod was told to end before the measurement was done" in log.splitlines()[-1]


@pytest.mark.slow
def test_a_pod_that_gives_up_stores_what_there_is_whoever_tells_it_to_end_meanwhile(tmp_path: Path) -> None:
    with measurement(tmp_path) as made:
        # Nobody expects another's object among the markers: this stands for every mistake.
        foreign = f"{PREFIX}.barrier/point-00-repeat-0/note"
        made.cloud.put(foreign, b"")
        made.cloud.upload_seconds = 0.2
        made.start(asked(pods=1), [0])
        until = time.time() + 20
        while not any(name.startswith("point-00") for name in made.stored()):
            assert time.time() < until
            time.sleep(0.005)
        made.pods[0].send_signal(signal.SIGTERM)
        ((code, log),) = made.end()
        assert code == 1
        logs = {f"point-00-repeat-0/client-00{client}.log" for client in range(3)}
        assert made.stored() == {"run.json", "point-00-repeat-0/pod-0.json", *logs}
        assert made.read("point-00-repeat-0/pod-0.json")["steps"][-1]["what"].startswith("given up: invalid literal")
        assert made.progress(0)["state"] == "failed"
    assert "failed: ValueError: invalid literal for int" in log.splitlines()[-1]
    assert "(barrier.py, line " in log.splitlines()[-1]


@pytest.mark.slow
def test_the_next_run_waits_until_the_servers_are_idle_or_a_bounded_time(tmp_path: Path) -> None:
    with measurement(tmp_path, in_flight=[2]) as made:
        made.start(asked(pods=1, repeats=2), [0], "--idle-minutes=0.02")
        ((code, log),) = made.end()
        assert code == 0, log
        first = made.read("point-00-repeat-0/pod-0.json")["steps"]
        last = made.read("point-00-repeat-1/pod-0.json")["steps"]
        assert first[-1]["what"] == "servers not idle after 0.02 minutes: 2 requests in flight"
        assert not any("idle" in step["what"] for step in last), "nothing follows the last run"


@pytest.mark.slow
def test_the_next_run_begins_when_the_servers_have_become_idle(tmp_path: Path) -> None:
    with measurement(tmp_path) as made:
        made.start(asked(pods=1, repeats=2), [0], "--idle-minutes=1", REQUEST_SECONDS="0.3")
        while made.progress(0).get("state") != "running":
            time.sleep(0.02)
        made.cloud.in_flight = [5]
        while made.progress(0).get("state") != "waiting for idle servers":
            time.sleep(0.02)
        time.sleep(2.0)
        assert made.progress(0)["state"] == "waiting for idle servers"
        made.cloud.in_flight = [0]
        ((code, log),) = made.end()
        assert code == 0, log
        assert made.read("point-00-repeat-0/pod-0.json")["steps"][-1]["what"] == "servers idle"


def test_no_client_starts_when_the_bucket_refuses(tmp_path: Path) -> None:
    with measurement(tmp_path, statuses=[403] * 100) as made:
        made.start(asked(pods=1), [0])
        ((code, log),) = made.end()
    assert code == 1
    assert "HTTP 403" in log.splitlines()[-1]
    assert not list((tmp_path / "pod-0").iterdir())


@pytest.mark.parametrize(
    ("how", "environment", "message"),
    [
        ({"models": ["another/model"]}, {}, "serves another/model, not the/model: the clients would get errors only"),
        ({"api_key": "right"}, {"OPENAI_API_KEY": "wrong"}, "HTTP 401: the API key in this pod is not the server's"),
    ],
)
def test_a_server_that_cannot_be_measured_ends_the_pod_with_one_line(
    tmp_path: Path, how: dict[str, Any], environment: dict[str, str], message: str
) -> None:
    with measurement(tmp_path, **how) as made:
        made.start(asked(pods=1), [0], **environment)
        ((code, log),) = made.end()
        assert made.progress(0)["state"] == "failed"
    assert code == 1
    assert message in log.splitlines()[-1]


def test_a_pod_that_never_comes_is_named(tmp_path: Path) -> None:
    with measurement(tmp_path) as made:
        made.start(asked(), [0], "--wait-minutes=-1")
        ((code, log),) = made.end()
    assert code == 1
    assert "failed: pods [1] of 2 did not report in time" in log.splitlines()[-1]


def test_a_wrong_plan_is_one_line(tmp_path: Path) -> None:
    with measurement(tmp_path) as made:
        made.start(asked(repeats=0), [0])
        ((code, log),) = made.end()
    assert code == 1
    assert log.splitlines()[-1].endswith("run.json: repeats is 0; 1 is the least")
    assert len(log.splitlines()) == 1


@pytest.mark.slow
def test_a_trace_is_sent_line_by_line_over_all_clients_and_repeats(tmp_path: Path) -> None:
    workload = {
        "name": "trace",
        "kind": "trace",
        "arguments": {"dataset-name": "custom"},
        "ignore_eos": True,
    }
    trace = tmp_path / "trace.jsonl"
    trace.write_text("".join(json.dumps({"prompt": f"p{n}", "output_tokens": n + 1}) + "\n" for n in range(24)))
    with measurement(tmp_path) as made:
        made.start(asked(workload=workload, repeats=2), [0, 1], f"--dataset={trace}")
        ended = made.end()
        assert [code for code, _ in ended] == [0, 0], ended
        lengths: list[int] = []
        for repeat in range(2):
            for client in range(3):
                seen = Witness.model_validate(
                    made.read(f"point-00-repeat-{repeat}/client-{client:03d}.witness.json"), strict=False
                )
                lengths += seen.asked_output_tokens
    assert sorted(lengths) == list(range(1, 25)), "every line once"


def test_a_wrong_trace_is_named_before_anything_runs(tmp_path: Path) -> None:
    workload = {"name": "trace", "kind": "trace", "arguments": {}, "ignore_eos": True}
    trace = tmp_path / "trace.jsonl"
    trace.write_text('{"prompt": "a", "output_tokens": 0}\n')
    with measurement(tmp_path) as made:
        made.start(asked(workload=workload, pods=1), [0], f"--dataset={trace}")
        ((code, log),) = made.end()
    assert code == 1
    assert "trace.jsonl, line 1: output_tokens is 0; a whole number from 1 to" in log.splitlines()[-1]


def test_open_files_are_raised_to_what_the_connections_need() -> None:
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (64, 4096)); "
        "from workloads.benchmark.pods.client_processes import allow_open_files; allow_open_files(1000); "
        "print(resource.getrlimit(resource.RLIMIT_NOFILE)[0]); allow_open_files(10_000)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    assert done.stdout.strip() == f"{1000 + SPARE_FILES}"
    assert done.returncode == 1
    assert done.stderr.strip() == "10000 connections a client need 10256 open files; this pod may have 4096 at most"


def test_a_run_waits_for_the_ports_of_the_run_before(tmp_path: Path) -> None:
    (tmp_path / "sys/net/ipv4").mkdir(parents=True)
    (tmp_path / "net").mkdir()
    (tmp_path / "sys/net/ipv4/ip_local_port_range").write_text("32768\t60999\n")

    def closing(number: int) -> None:
        (tmp_path / "net/sockstat").write_text(
            f"sockets: used 5\nTCP: inuse 3 orphan 0 tw {number} alloc 4 mem 1\nUDP: inuse 0 mem 0\n"
        )

    closing(28_232 - 16_000 - SPARE_PORTS)
    assert wait_for_ports(16_000, 5.0, tmp_path) < 0.1
    closing(28_232 - 16_000 - SPARE_PORTS + 1)
    assert wait_for_ports(16_000, 0.15, tmp_path) >= 0.15
    timer = threading.Timer(0.15, closing, (10_000,))
    timer.start()
    assert 0.15 <= wait_for_ports(16_000, 5.0, tmp_path) < 2
    timer.join()
    # Where there is nothing to wait for, nobody waits: more connections than ports, or a kernel that does not say.
    closing(0)
    assert wait_for_ports(40_000, 5.0, tmp_path) < 0.1
    assert wait_for_ports(16_000, 5.0, tmp_path / "nowhere") < 0.1


def _wait_until(holds: Callable[[], bool]) -> None:
    until = time.time() + 60
    while not holds():
        assert time.time() < until
        time.sleep(0.01)


def _wait_for_state(process: int, state: str) -> None:
    """Until /proc shows that state; a process that is gone has any."""
    status = Path(f"/proc/{process}/stat")

    def shown() -> bool:
        try:
            return status.read_text().rpartition(")")[2].split()[0] == state
        except OSError:
            return True

    _wait_until(shown)


def _children(process: int) -> list[int]:
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == process:
            found.append(int(status.parent.name))
    return found


def _command(process: int) -> list[str]:
    return Path(f"/proc/{process}/cmdline").read_text().split("\0")
