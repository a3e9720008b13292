"""The program that serves each rank of a pod on a port of its own, with processes that stand for vLLM's servers."""

from __future__ import annotations

import http.client
import http.server
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fleet.clients.metrics_text import parse
from tests.support.rows import each_row
from tests.support.waiting import until
from workloads.pod_programs import python_program
from workloads.server import rank_servers as program

RANKS = 3
WAIT_SECONDS = 20.0
STAND_IN = Path(__file__).with_name("rank_stand_in.py")


@dataclass(frozen=True)
class Pod:
    """The program with its servers."""

    process: subprocess.Popen[str]
    first: int

    def get(self, path: str, headers: dict[str, str] | None = None) -> tuple[int, str]:
        return self.ask("GET", path, None, headers)

    def ask(self, method: str, path: str, body: str | None, headers: dict[str, str] | None) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.first + RANKS, timeout=10)
        try:
            connection.request(method, path, body=body, headers=headers or {})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        except OSError:
            return 0, ""
        finally:
            connection.close()


def _free_ports(count: int) -> int:
    """The first of that many ports in a row that nobody uses."""
    for first in range(20_000 + os.getpid() % 97, 32_000, 97):
        held: list[socket.socket] = []
        try:
            for port in range(first, first + count):
                held.append(socket.create_server(("127.0.0.1", port)))
        except OSError:
            continue
        else:
            return first
        finally:
            for one in held:
                one.close()
    raise AssertionError("no free ports")


@contextmanager
def running(folder: Path, *options: str) -> Iterator[Pod]:
    (folder / "program.py").write_text(python_program("server/rank_servers.py"))
    first = _free_ports(RANKS + 1)
    server = [sys.executable, str(STAND_IN), "serve", "model", f"--port={first}", "--data-parallel-size=3"]
    own = ["-I", "-S", str(folder / "program.py"), f"--ranks={RANKS}", f"--status-port={first + RANKS}", *options, "--"]
    process = subprocess.Popen(
        [sys.executable, *own, *server, "--tensor-parallel-size=2", "--api-server-count=3"],
        env={"SICK": str(folder / "sick"), "PATH": "/usr/bin:/bin"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    pod = Pod(process, first)
    try:
        until(lambda: pod.get("/health")[0] == 200)
        yield pod
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=WAIT_SECONDS)


@pytest.mark.slow
def test_each_rank_has_its_port_its_gpus_and_no_option_of_the_whole_pod(tmp_path: Path) -> None:
    with running(tmp_path) as pod:
        for rank in range(RANKS):
            _, said = pod.get("/who", {"X-data-parallel-rank": str(rank), "Authorization": "Bearer key"})
            told = json.loads(said)
            assert (told["port"], told["gpus"]) == (pod.first + rank, f"{2 * rank},{2 * rank + 1}")
            assert told["words"] == ["serve", "model", "--tensor-parallel-size=2", f"--port={pod.first + rank}"]
            assert told["key"] == "Bearer key"
        status, said = pod.ask("POST", "/v1/completions", "a prompt", {"X-data-parallel-rank": "1"})
        assert (status, said) == (200, f"{pod.first + 1} a prompt")
        turns = [pod.ask("POST", "/v1/completions", "a", None)[1] for _ in range(RANKS)]
        assert sorted(turns) == [f"{pod.first + rank} a" for rank in range(RANKS)]
        assert pod.get("/v1/models", {"X-data-parallel-rank": "3"})[0] == 400


@pytest.mark.slow
def test_the_page_has_every_rank_and_the_pod_is_ill_when_one_is(tmp_path: Path) -> None:
    with running(tmp_path) as pod:
        _, page = pod.get("/metrics")
        running_on = parse(page).by("engine", "vllm:num_requests_running")
        assert running_on == {str(rank): pod.first + rank for rank in range(RANKS)}
        assert page.count("# TYPE vllm:num_requests_running") == 1
        (tmp_path / f"sick{pod.first + 2}").touch()
        assert pod.get("/health")[0] == 503
        assert pod.get("/metrics")[0] == 503


@pytest.mark.slow
def test_a_rank_that_dies_ends_the_pod(tmp_path: Path) -> None:
    with running(tmp_path) as pod:
        [second] = [int(child) for child in _children(pod.process.pid) if f"--port={pod.first + 1}" in _words(child)]
        os.kill(second, signal.SIGKILL)
        said, errors = pod.process.communicate(timeout=WAIT_SECONDS)
        assert pod.process.returncode == 1
        assert "rank 1 ended with -9" in errors
        assert set(said.splitlines()) == {f"stopped {pod.first}", f"stopped {pod.first + 2}"}


@pytest.mark.slow
def test_ranks_serve_on_after_a_death_until_no_balancer_sends_to_the_pod(tmp_path: Path) -> None:
    """A balancer follows the pod's readiness: it sends as long as the status port is 200, and then for less than `--leave`."""
    own = {"X-data-parallel-rank": "0"}
    with running(tmp_path, "--leave=3") as pod, ThreadPoolExecutor() as clients:
        long = clients.submit(pod.ask, "POST", "/v1/completions", "long", own)
        pod.ask("POST", "/v1/completions", "end", {"X-data-parallel-rank": "1"})
        until(lambda: pod.get("/health")[0] == 503)
        left = time.monotonic() + 2
        while time.monotonic() < left:
            assert pod.ask("POST", "/v1/completions", "a", own)[0] == 200
        assert long.result() == (200, f"{pod.first} long whole")
        said, errors = pod.process.communicate(timeout=WAIT_SECONDS)
        assert (pod.process.returncode, said.count("stopped")) == (1, 2)
        assert "rank 1 ended with 0" in errors


@pytest.mark.slow
def test_a_stop_signal_reaches_every_rank(tmp_path: Path) -> None:
    with running(tmp_path) as pod:
        pod.process.send_signal(signal.SIGTERM)
        said, _ = pod.process.communicate(timeout=WAIT_SECONDS)
        assert (pod.process.returncode, said.count("stopped")) == (0, RANKS)


class _Router(http.server.BaseHTTPRequestHandler):
    """Stands for the router of a split pod."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"vllm_router_requests_total 3\n" if self.path == "/metrics" else b"by the router")

    def log_message(self, *_: Any) -> None:
        """Quiet."""


@pytest.mark.slow
def test_a_split_pod_answers_through_its_router_and_ends_after_it_decode_before_prefill(tmp_path: Path) -> None:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Router) as router:
        threading.Thread(target=router.serve_forever, daemon=True).start()
        port = router.server_address[1]
        with running(tmp_path, "--prefill=1", f"--router={port},{port}", f"--drain={2 * WAIT_SECONDS}") as pod:
            _, page = pod.get("/metrics")
            roles = [re.search(r'role="(\w+)"', line) for line in page.splitlines() if line.startswith("vllm:")]
            assert [role and role[1] for role in roles] == ["prefill", "decode", "decode"]
            assert "vllm_router_requests_total 3" in page
            assert pod.get("/v1/models")[1] == "by the router"
            assert pod.get("/v1/../remove_worker")[1] != "by the router"
            pod.process.send_signal(signal.SIGTERM)
            until(lambda: pod.get("/health")[0] == 503)
            # It has the signal, and the router still has streams.
            assert all(pod.get("/who", {"X-data-parallel-rank": str(rank)})[0] == 200 for rank in range(RANKS))
            router.shutdown()
            router.server_close()
            said, _ = pod.process.communicate(timeout=WAIT_SECONDS)
            assert pod.process.returncode == 0
            order = [int(line.split()[1]) - pod.first for line in said.splitlines()]
            assert (set(order[:2]), order[2:]) == ({1, 2}, [0])


@pytest.mark.slow
def test_prefill_does_not_outlive_the_only_decode(tmp_path: Path) -> None:
    with running(tmp_path, "--prefill=2") as pod, ThreadPoolExecutor() as clients:
        clients.submit(pod.ask, "POST", "/v1/completions", "long", {"X-data-parallel-rank": "0"})
        began = time.monotonic()
        pod.ask("POST", "/v1/completions", "end", {"X-data-parallel-rank": "2"})
        said, _ = pod.process.communicate(timeout=WAIT_SECONDS)
        assert (pod.process.returncode, f"stopped {pod.first}\n" in said) == (1, False)
        assert time.monotonic() - began < program.END_SECONDS / 4


def _children(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def _words(pid: str) -> list[str]:
    return Path(f"/proc/{pid}/cmdline").read_text().split("\0")


@each_row(
    ("line", "wanted"),
    [
        ('a{engine="0"} 1', 'a{engine="5"} 1'),
        ('a{x="y",engine="0",z="}"} 1e3', 'a{x="y",engine="5",z="}"} 1e3'),
        ('a_total{my_engine="0"} 1', 'a_total{my_engine="0",engine="5"} 1'),
        ("a 1.0 1700000000", 'a{engine="5"} 1.0 1700000000'),
        ("a{} 1", 'a{engine="5"} 1'),
    ],
)
def test_a_sample_has_the_label_of_its_rank(line: str, wanted: str) -> None:
    assert program.of_rank(line, 5) == wanted


def test_families_stay_together_and_are_explained_once() -> None:
    page = '# HELP a A.\n# TYPE a gauge\na 1\n# HELP b B.\n# TYPE b gauge\nb{engine="0"} 2\n'
    assert program.merged([page, page]).splitlines() == [
        "# HELP a A.",
        "# TYPE a gauge",
        'a{engine="0"} 1',
        'a{engine="1"} 1',
        "# HELP b B.",
        "# TYPE b gauge",
        'b{engine="0"} 2',
        'b{engine="1"} 2',
    ]


def test_ranks_that_share_experts_know_one_another() -> None:
    words = ["vllm", "serve", "m", "--port=8000", "--data-parallel-size=8"]
    together = ["--port=8003", "--data-parallel-size=8", "--data-parallel-rank=3"]
    assert program.command_of(3, 8, words, True)[3:] == together
    assert program.command_of(3, 8, words, False)[3:] == ["--port=8003"]


def test_a_rank_sees_its_part_of_the_gpus_that_the_pod_sees() -> None:
    words = ["--tensor-parallel-size=2"]
    assert program.environment_of(1, words, {"CUDA_VISIBLE_DEVICES": "7,5,3,1"})["CUDA_VISIBLE_DEVICES"] == "3,1"
    assert program.environment_of(1, words, {}) == {"CUDA_VISIBLE_DEVICES": "2,3"}


def test_a_rank_compiles_into_a_folder_of_its_own() -> None:
    made = [program.environment_of(rank, [], {"VLLM_CACHE_ROOT": "/cache/vllm"})["VLLM_CACHE_ROOT"] for rank in (0, 7)]
    assert made == ["/cache/vllm/rank-0", "/cache/vllm/rank-7"]
