"""The benchmark pod's program: shares, seeds, the common start, and a whole run against a fake `vllm`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.workloads.pod_scripts.fake_cloud import FakeCloud, fake_cloud
from workloads.pod_scripts import launch_clients
from workloads.pod_scripts.launch_clients import Run, client_command, share, tokens_and_window
from workloads.pod_scripts.results_bucket import Bucket

FAKE_VLLM = """#!{python}
import json, os, resource, sys, time
options, metadata = {{}}, {{}}
for argument in sys.argv[1:]:
    if argument.startswith("--"):
        name, _, value = argument[2:].partition("=")
        options[name] = value
    elif "=" in argument:
        name, _, value = argument.partition("=")
        metadata[name] = value
if os.environ.get("BROKEN_CLIENT") == metadata["client"]:
    print("the clients' own error")
    sys.exit(3)
started = time.perf_counter()
result = {{
    "argv": sys.argv[1:], "files": resource.getrlimit(resource.RLIMIT_NOFILE)[0], "began": time.time(),
    "key": os.environ.get("OPENAI_API_KEY"), "completed": 2, "failed": 1, **metadata,
    "start_times": [started, started, started], "ttfts": [1.0, 1.0, 0.0], "itls": [[1.0], [2.0, 1.0], []],
    "input_lens": [100, 100, 100], "output_lens": [50, 50, 0],
}}
with open(os.path.join(options["result-dir"], options["result-filename"]), "w") as file:
    json.dump(result, file)
"""


def a_run(**changes: Any) -> Run:
    values: dict[str, Any] = {
        "name": "benchmark-1234",
        "endpoint": "http://server:8000",
        "model": "the/model",
        "tokenizer": "/scratch/tokenizer",
        "workload": "article",
        "input_len": 768,
        "output_len": 384,
        "range_ratio": "0.3333",
        "clients": 24,
        "connections": 24_000,
        "prompts_per_client": 5_000,
        "pods": 2,
    }
    return Run(**values | changes)


@given(total=st.integers(0, 5_000), parts=st.integers(1, 200))
def test_shares_are_disjoint_complete_and_even(total: int, parts: int) -> None:
    shares = [share(total, parts, index) for index in range(parts)]
    assert [number for one in shares for number in one] == list(range(total))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_the_clients_of_all_pods_add_up_to_the_load_with_a_seed_each() -> None:
    run = a_run(clients=3, connections=2_000)
    commands = [client_command(run, client, started_at=0.0, results=Path("/r")) for client in range(3)]
    at_once = [int(_option(command, "max-concurrency")) for command in commands]
    assert sorted(at_once) == [666, 667, 667]
    assert len({_option(command, "seed") for command in commands}) == 3


def test_another_run_draws_other_prompts() -> None:
    assert abs(a_run(name="benchmark-1").first_seed - a_run(name="benchmark-2").first_seed) > 24


def test_the_article_is_drawn_with_the_lengths_that_vllm_0_18_needs_for_it() -> None:
    command = client_command(a_run(), 0, started_at=1.5, results=Path("/r"))
    assert command[:3] == ["vllm", "bench", "serve"]
    assert [_option(command, f"random-{name}") for name in ("input-len", "output-len", "range-ratio")] == [
        "768",
        "384",
        "0.3333",
    ]
    assert {"--save-result", "--save-detailed", "started_at=1.500", "workload=article"} <= set(command)


def test_open_files_are_raised_to_what_the_connections_need() -> None:
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (64, 4096)); "
        "from workloads.pod_scripts.launch_clients import allow_open_files; allow_open_files(1000); "
        "print(resource.getrlimit(resource.RLIMIT_NOFILE)[0]); allow_open_files(10_000)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    assert done.stdout.strip() == "1256"
    assert done.returncode == 1
    assert done.stderr.strip() == "10000 connections a client need 10256 open files; this pod may have 4096 at most"


def test_the_server_is_waited_for_until_it_lists_the_model() -> None:
    with fake_cloud(not_ready_for=3) as cloud:
        launch_clients.wait_for_server(a_run(endpoint=cloud.url), until=time.time() + 10, poll_seconds=0.01)
        assert cloud.not_ready_for == 0


def test_a_server_of_another_model_ends_the_run() -> None:
    with (
        fake_cloud(models=["another/model"]) as cloud,
        pytest.raises(SystemExit, match=r"serves another/model, not the/model"),
    ):
        launch_clients.wait_for_server(a_run(endpoint=cloud.url), until=time.time() + 10)


def test_a_wrong_key_ends_the_run_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "wrong")
    complaint = r"HTTP 401: the API key in this pod is not the server's"
    with fake_cloud(api_key="right") as cloud, pytest.raises(SystemExit, match=complaint):
        launch_clients.wait_for_server(a_run(endpoint=cloud.url), until=time.time() + 10)


def test_a_server_that_never_answers_is_given_up_in_time() -> None:
    with fake_cloud(not_ready_for=10**9) as cloud, pytest.raises(SystemExit, match=r"did not answer in time: HTTP 503"):
        launch_clients.wait_for_server(a_run(endpoint=cloud.url), until=time.time() + 0.1, poll_seconds=0.02)


def bucket(cloud: FakeCloud) -> Bucket:
    return Bucket("results", storage_url=cloud.url, metadata_url=cloud.url, pause_seconds=0.01)


def test_all_pods_get_the_same_start_after_the_last_of_them() -> None:
    run, starts = a_run(pods=3), {}
    with fake_cloud() as cloud:

        def pod(index: int) -> None:
            time.sleep(0.05 * index)
            starts[index] = launch_clients.common_start(
                bucket(cloud), run, index, until=time.time() + 10, margin_seconds=30.0, poll_seconds=0.01
            )

        threads = [threading.Thread(target=pod, args=(index,)) for index in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(set(starts.values())) == 1
    assert 25 < starts[0] - time.time() <= 30


def test_a_pod_that_never_reports_is_named() -> None:
    with fake_cloud() as cloud, pytest.raises(SystemExit, match=r"pods \[0, 2\] of 3 did not report in time"):
        launch_clients.common_start(
            bucket(cloud), a_run(pods=3), 1, until=time.time() + 0.1, margin_seconds=0.0, poll_seconds=0.02
        )


def test_throughput_counts_successful_requests_over_the_time_they_all_took() -> None:
    one = {
        "start_times": [10.0, 11.0],
        "ttfts": [1.0, 0.5],
        "itls": [[1.0], []],
        "input_lens": [8, 8],
        "output_lens": [4, 0],
    }
    two = {"start_times": [12.0], "ttfts": [1.0], "itls": [[2.0, 5.0]], "input_lens": [8], "output_lens": [4]}
    assert tokens_and_window([one, two]) == (16, 8, 10.0)
    assert tokens_and_window([]) == (0, 0, 0.0)


def start(cloud: FakeCloud, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Pod 1 of 2 of a run whose pod 0 is ready, as the Job starts it."""
    (folder / "bin").mkdir()
    program = folder / "bin" / "vllm"
    program.write_text(FAKE_VLLM.format(python=sys.executable))
    program.chmod(0o755)
    cloud.objects["runs/benchmark-ab-12345678/ready/0"] = b"ready"
    cloud.created["runs/benchmark-ab-12345678/ready/0"] = "2026-01-01T00:00:00.000Z"
    options = {
        "endpoint": f"{cloud.url}/",
        "model": "the/model",
        "tokenizer": "/scratch/tokenizer",
        "workload": "article",
        "input-len": "768",
        "output-len": "384",
        "range-ratio": "0.3333",
        "clients": "4",
        "connections": "100",
        "prompts-per-client": "10",
        "pods": "2",
        "wait-minutes": "1",
        "bucket": "results",
        "results": str(folder / "results"),
        "start-margin-seconds": "0.3",
        "storage-url": cloud.url,
        "metadata-url": cloud.url,
    }
    return subprocess.run(
        [sys.executable, "-m", "pod_scripts.launch_clients", *(f"--{name}={value}" for name, value in options.items())],
        env={
            **os.environ,
            "PATH": f"{program.parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(Path(launch_clients.__file__).parent.parent),
            "JOB_NAME": "benchmark-ab",
            "JOB_UID": "12345678-aaaa",
            "JOB_COMPLETION_INDEX": "1",
            **environment,
        },
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_a_pod_runs_its_share_and_stores_every_result(tmp_path: Path) -> None:
    with fake_cloud(api_key="s3cret") as cloud:
        done = start(cloud, tmp_path, OPENAI_API_KEY="s3cret")
        assert done.returncode == 0, done.stdout + done.stderr
        prefix = "runs/benchmark-ab-12345678"
        stored = {name for name in cloud.objects if not name.startswith(f"{prefix}/ready/")}
        assert stored == {f"{prefix}/client-00{n}.{kind}" for n in (2, 3) for kind in ("json", "log")}
        results = [json.loads(cloud.objects[f"{prefix}/client-00{n}.json"]) for n in (2, 3)]
    assert {result["key"] for result in results} == {"s3cret"}
    assert results[0]["seed"] != results[1]["seed"]
    assert all(result["began"] >= float(result["started_at"]) for result in results)
    assert all(result["files"] >= 25 + launch_clients.SPARE_FILES for result in results)
    assert "client 2: 2 requests completed, 1 failed" in done.stdout
    assert "this pod:" in done.stdout
    assert "s3cret" not in done.stdout + done.stderr


def test_a_client_that_fails_fails_the_pod_and_shows_its_last_words(tmp_path: Path) -> None:
    with fake_cloud() as cloud:
        done = start(cloud, tmp_path, BROKEN_CLIENT="3")
        assert done.returncode == 1
        assert "client 3: exit code 3; its last words: the clients' own error" in done.stdout
        assert "runs/benchmark-ab-12345678/client-002.json" in cloud.objects


def test_no_client_starts_when_the_bucket_refuses(tmp_path: Path) -> None:
    with fake_cloud(storage_forbidden=True) as cloud:
        done = start(cloud, tmp_path)
        assert done.returncode == 1
        assert "HTTP 403" in done.stdout
        assert "Traceback" not in done.stderr
    assert list((tmp_path / "results").iterdir()) == []


def _option(command: list[str], name: str) -> str:
    return next(part for part in command if part.startswith(f"--{name}=")).partition("=")[2]
