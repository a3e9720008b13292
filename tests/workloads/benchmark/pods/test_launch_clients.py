"""A whole measurement as its pod plays it, with a stand-in for vLLM and a bucket on loopback; and each way in which it can fail."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fleet.bench.folder import Asked, MetricsSample, PodCourse, Witness
from tests.support.benchmark import Load
from tests.support.simulators.model_server.node import Node, Pace
from tests.support.waiting import until
from tests.workloads.benchmark.pods.fake_cloud import FakeCloud, fake_cloud
from tests.workloads.benchmark.pods.stand_in import stand_in
from workloads.benchmark.pods import launch_clients
from workloads.benchmark.pods.client_processes import SPARE_FILES, SPARE_PORTS, wait_for_ports

NAME = "benchmark-ab-12345678"
PREFIX = f"runs/{NAME}/"


def asked(**changes: Any) -> dict[str, Any]:
    """A run.json as the program writes it."""
    load = Load(input_tokens=768, output_tokens=250, connections=8, clients=3, requests_per_client=4)
    return {**load.asked(Node(model="the/model", pace=Pace(fixed_s=1.0))), **changes}


@dataclass
class Measurement:
    """The pod of one measurement as a process."""

    cloud: FakeCloud
    folder: Path
    pod: subprocess.Popen[str] | None = None

    def start(self, plan: dict[str, Any], *options: str, **environment: str) -> None:
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
            "progress-seconds": 0.1,
            "idle-minutes": 0.05,
            "storage-url": self.cloud.url,
            "metadata-url": self.cloud.url,
            "results": self.folder / "pod",
        }
        arguments = [f"--{name}={value}" for name, value in known.items()]
        self.pod = subprocess.Popen(
            [sys.executable, "-m", "workloads.benchmark.pods.launch_clients", *arguments, *options],
            env={
                **os.environ,
                "PYTHONPATH": f"{Path(launch_clients.__file__).parents[3]}:{tree}",
                "JOB_NAME": "benchmark-ab",
                "JOB_UID": "12345678-aaaa",
                **environment,
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def end(self) -> tuple[int, str]:
        """Exit code and log of the pod."""
        assert self.pod is not None
        log = self.pod.communicate(timeout=60)[0]
        assert "Traceback" not in log, log
        return self.pod.returncode, log

    def stored(self) -> set[str]:
        """Names of what lies in the measurement's folder, without progress."""
        names = {name.removeprefix(PREFIX) for name in list(self.cloud.contents)}
        return {name for name in names if not name.startswith(".")}

    def read(self, name: str) -> Any:
        return json.loads(self.cloud.contents[PREFIX + name])

    def progress(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.cloud.contents.get(f"{PREFIX}.progress/pod.json", b"{}"))
        return found

    def wait_for(self, holds: Callable[[dict[str, Any]], bool]) -> None:
        """Until the pod's progress is so."""
        until(lambda: holds(self.progress()))


@contextmanager
def measurement(folder: Path, **how: Any) -> Iterator[Measurement]:
    with fake_cloud(**how) as cloud:
        made = Measurement(cloud, folder)
        try:
            yield made
        finally:
            if made.pod is not None and made.pod.poll() is None:
                made.pod.kill()
                made.pod.communicate()


METRICS = "server-metrics.jsonl.gz"


def files_of(folder: str, clients: int) -> set[str]:
    own = {
        f"{folder}/client-{client:03d}.{kind}" for client in range(clients) for kind in ("json", "witness.json", "log")
    }
    return {*own, f"{folder}/pod.json", f"{folder}/{METRICS}", f"{folder}/collector.log"}


def test_every_load_is_played_by_all_clients_together(tmp_path: Path) -> None:
    plan = asked(points=[{"connections": 8, "clients": 3}, {"connections": 1, "clients": 1}])
    with measurement(tmp_path, api_key="s3cret") as made:
        made.start(plan, OPENAI_API_KEY="s3cret")
        code, log = made.end()
        assert code == 0, log
        folders = {"point-00-repeat-0": 3, "point-01-repeat-0": 1}
        assert made.stored() == {"run.json"}.union(*(files_of(name, count) for name, count in folders.items()))
        written = Asked.model_validate(made.read("run.json"), strict=False)
        assert (written.name, written.created[:2]) == (NAME, "20")
        results = [made.read(f"{name}/client-{n:03d}.json") for name, count in folders.items() for n in range(count)]
        assert len({one["seed"] for one in results}) == 4, "no seed twice in the measurement"
        assert {one["key"] for one in results} == {"s3cret"}
        assert sorted(one["max_concurrency"] for one in results) == [1, 2, 3, 3]
        ends = 0.0
        for name, count in folders.items():
            clients = [made.read(f"{name}/client-{n:03d}.json") for n in range(count)]
            witnesses = [
                Witness.model_validate(made.read(f"{name}/client-{n:03d}.witness.json"), strict=False)
                for n in range(count)
            ]
            starts = [min(one["start_times"]) for one in clients]
            assert max(starts) - min(starts) < 2, "all start together, by the one clock of their node"
            assert min(starts) > ends, "runs do not overlap"
            ends = max(one.clock.perf_counter for one in witnesses)
            course = PodCourse.model_validate(made.read(f"{name}/pod.json"), strict=False)
            assert course.exit_codes == {f"{n}": 0 for n in range(count)}
            lines = gzip.decompress(made.cloud.contents[f"{PREFIX}{name}/{METRICS}"]).splitlines()
            samples = [MetricsSample.model_validate_json(line) for line in lines]
            assert samples[0].values == {
                "vllm:num_requests_running": {"0": 0.0},
                "vllm:num_requests_waiting": {"0": 0.0},
            }
        assert made.progress()["state"] == "finished"
    assert log.splitlines()[-1].endswith(f"finished: 2 runs; results: gs://results/{PREFIX}")
    assert "s3cret" not in log


@pytest.mark.slow
def test_progress_tells_where_the_pod_is(tmp_path: Path) -> None:
    with measurement(tmp_path) as made:
        made.start(asked(points=[{"connections": 2, "clients": 2}]), REQUEST_SECONDS="0.25")
        made.wait_for(lambda told: told.get("state") == "preparing")
        made.wait_for(lambda told: told.get("state") == "running" and 0 < told["requests_done"] < 8)
        told = made.progress()
        assert (told["run"], told["runs"], told["repeat"], told["connections"]) == (1, 1, 0, 2)
        assert (told["requests"], told["clients"], told["ready"]) == (8, 2, 2)
        assert made.end()[0] == 0


@pytest.mark.slow
def test_a_client_that_fails_fails_its_run_and_leaves_the_others_alone(tmp_path: Path) -> None:
    with measurement(tmp_path) as made:
        made.start(asked(repeats=2), WRONG="2:dies-later 1:all-fail")
        code, log = made.end()
        assert (code, made.progress()["state"]) == (1, "failed")
        for folder in ("point-00-repeat-0", "point-00-repeat-1"):
            kept = files_of(folder, 3) - {f"{folder}/client-002.json", f"{folder}/client-002.witness.json"}
            assert kept <= made.stored()
        assert made.read("point-00-repeat-0/pod.json")["exit_codes"] == {"0": 0, "1": 1, "2": 4}
    last = log.splitlines()[-1]
    assert "client 2 ended with exit code 4 (it went wrong on the way)" in last
    assert "none of its requests succeeded" in last
    assert last.endswith(f"what there is: gs://results/{PREFIX}")


@pytest.mark.slow
def test_two_runs_whose_clients_die_before_the_start_end_the_measurement(tmp_path: Path) -> None:
    with measurement(tmp_path) as made:
        made.start(asked(repeats=3), WRONG="2:dies")
        code, log = made.end()
        assert code == 1
        assert not any(name.startswith("point-00-repeat-2") for name in made.stored())
        assert not any(name.endswith("witness.json") for name in made.stored()), "nobody started without the others"
    last = log.splitlines()[-1]
    assert "client 2 ended with exit code 3 (no memory left for this client) before the start" in last
    assert "1 runs were left out: 2 in a row never started" in last


@pytest.mark.slow
def test_a_client_that_hangs_is_ended_and_the_others_results_are_kept(tmp_path: Path) -> None:
    with measurement(tmp_path) as made:
        made.start(asked(), "--run-minutes=0.05", WRONG="1:hangs")
        code, log = made.end()
        assert code == 1
        assert {"point-00-repeat-0/client-000.json", "point-00-repeat-0/client-002.json"} <= made.stored()
        assert made.read("point-00-repeat-0/pod.json")["exit_codes"]["1"] == -signal.SIGTERM
    assert "clients [1] had not ended in time" in log


@pytest.mark.slow
def test_a_pod_that_is_told_to_end_ends_its_clients_and_stores_what_there_is(tmp_path: Path) -> None:
    with measurement(tmp_path) as made:
        made.start(asked(repeats=2, prompts_per_client=100), REQUEST_SECONDS="0.5")
        made.wait_for(lambda told: told.get("state") == "running")
        assert made.pod is not None
        of_threads = Path(f"/proc/{made.pod.pid}/task").glob("*/children")
        children = [child for one in of_threads for child in one.read_text().split()]
        assert len(children) == 4, "three clients and the collector"
        made.pod.send_signal(signal.SIGTERM)
        code, log = made.end()
        assert (code, made.progress()["state"]) == (1, "stopped")
        assert {f"point-00-repeat-0/{name}" for name in ("client-000.log", "pod.json", METRICS)} <= made.stored()
        assert made.read("point-00-repeat-0/pod.json")["notes"][-1].endswith("the pod was told to end")
        assert not [child for child in children if Path(f"/proc/{child}").exists()]
    assert "the pod was told to end before the measurement was done" in log.splitlines()[-1]


@pytest.mark.slow
def test_a_run_waits_until_the_servers_are_idle_and_no_longer_than_it_may(tmp_path: Path) -> None:
    with measurement(tmp_path, in_flight=[5, 5, 0]) as made:
        made.start(asked(), "--idle-minutes=1")
        code, log = made.end()
        assert code == 0, log
        assert made.cloud.in_flight == [0]
    with measurement(tmp_path, in_flight=[2]) as busy:
        busy.start(asked(), "--idle-minutes=0.02")
        code, log = busy.end()
        assert not any(name.endswith("witness.json") for name in busy.stored())
    assert code == 1
    assert "the servers have 2 other requests in flight: stop that traffic" in log.splitlines()[-1]


def test_no_client_starts_when_the_bucket_refuses(tmp_path: Path) -> None:
    with measurement(tmp_path, statuses=[403] * 100) as made:
        made.start(asked())
        code, log = made.end()
    assert code == 1
    assert "HTTP 403" in log.splitlines()[-1]
    assert not list((tmp_path / "pod").iterdir())


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
        made.start(asked(), **environment)
        code, log = made.end()
        assert (code, made.progress()["state"]) == (1, "failed")
    assert message in log.splitlines()[-1]


@pytest.mark.slow
def test_a_trace_is_sent_line_by_line_over_all_clients_and_repeats(tmp_path: Path) -> None:
    workload = {"name": "trace", "kind": "trace", "arguments": {"dataset-name": "custom"}, "ignore_eos": True}
    trace = tmp_path / "trace.jsonl"
    trace.write_text("".join(json.dumps({"prompt": f"p{n}", "output_tokens": n + 1}) + "\n" for n in range(24)))
    with measurement(tmp_path) as made:
        made.start(asked(workload=workload, repeats=2), f"--dataset={trace}")
        code, log = made.end()
        assert code == 0, log
        lengths = [
            length
            for repeat in range(2)
            for client in range(3)
            for length in made.read(f"point-00-repeat-{repeat}/client-{client:03d}.witness.json")["asked_output_tokens"]
        ]
    assert sorted(lengths) == list(range(1, 25)), "every line once"


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
