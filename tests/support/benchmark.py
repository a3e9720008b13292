"""A benchmark on this machine with vLLM's own client: the pod's programs as processes, against one simulated server and bucket."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from google.oauth2.credentials import Credentials

from fleet.bench.run.fetching import RUNS
from fleet.clients.storage import Bucket
from tests.support import word_tokenizer
from tests.support.simulators.bucket import TOKEN, LocalBucket
from tests.support.simulators.model_server.engine_server import LOOPBACK
from tests.support.simulators.model_server.node import Node
from tests.support.waiting import within
from workloads.pod_programs import PACKAGE, benchmark_programs

VLLM_PYTHON: Final = Path(__file__).resolve().parents[2] / ".venv-vllm" / "bin" / "python"
needs_vllm: Final = pytest.mark.skipif(
    not os.environ.get("CI") and not VLLM_PYTHON.exists(), reason="`make bench-vllm` installs vLLM"
)
JOB, UID = "benchmark", "00000000"
"""Constant, so that every benchmark draws the same prompts."""
END_SECONDS: Final = 900.0
"""Of a whole benchmark. Assumed: clients that import vLLM at the same time on two busy cores need most of it."""
ENVIRONMENT: Final = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "NO_PROXY": LOOPBACK, "no_proxy": LOOPBACK}
"""The client needs only a folder with a tokenizer from the hub."""


@dataclass(frozen=True, kw_only=True)
class Load:
    """Requests of one benchmark; lengths are drawn from two thirds to four thirds of the means."""

    input_tokens: int
    output_tokens: int
    connections: int
    clients: int
    requests_per_client: int

    def asked(self, node: Node) -> dict[str, Any]:
        """run.json."""
        lengths = {"input-len": f"{self.input_tokens}", "output-len": f"{self.output_tokens}", "range-ratio": "0.3333"}
        return run_json(
            node.model,
            "words",
            lengths,
            {
                "engine_version": f"stand-in for {node.version}",
                "machine_type": "loopback",
                "replicas": 1,
                "gpus_per_replica": node.ranks,
                "flags": {},
            },
            engines_per_replica=node.ranks,
            speculative_tokens=node.speculative_tokens,
            points=[{"connections": self.connections, "clients": self.clients}],
            repeats=1,
            prompts_per_client=self.requests_per_client,
        )


def run_json(
    model: str, workload: str, lengths: Mapping[str, str], shape: Mapping[str, Any], **more: Any
) -> dict[str, Any]:
    """What a pod is asked, of random prompts for the stack `dev`. `shape`: what the servers have of their own."""
    return {
        "schema": 1,
        "stack": "dev",
        "profile": "record",
        "served_model": model,
        "model_revision": "0" * 40,
        "image": "v0.18.0@sha256:" + "0" * 64,
        "workload": {
            "name": workload,
            "kind": "random",
            "arguments": {f"random-{name}": value for name, value in lengths.items()},
            "ignore_eos": True,
        },
        "shape": {"model": model, "env": {}, "routing": "cluster-ip", "workload": workload, **shape},
        **more,
    }


def write_tokenizer(folder: Path) -> None:
    """A tokenizer whose tokens are words."""
    subprocess.run([VLLM_PYTHON, word_tokenizer.__file__, folder], check=True, timeout=120)


def measure(load: Load, node: Node, url: str, room: Path) -> tuple[Path, int]:
    """Run the pod to its end and fetch what it stored.

    Returns the measurement's folder and the pod's exit code.
    """
    # As in a pod, only these programs can be imported.
    programs = room / "scripts" / PACKAGE
    programs.mkdir(parents=True)
    for name, code in benchmark_programs().items():
        (programs / name).write_text(code, encoding="utf-8")
    (room / "run.json").write_text(json.dumps(load.asked(node)), encoding="utf-8")
    write_tokenizer(room / "tokenizer")
    with LocalBucket() as bucket, ExitStack() as stack:
        pod = _start(room, url, bucket)
        stack.callback(_end, pod)
        assert within(END_SECONDS, lambda: pod.poll() is not None), "the benchmark's pod has not ended"
        Bucket(bucket.name, Credentials(TOKEN), url=bucket.url).mirror(f"{RUNS}{JOB}-{UID}/", room / "measurement")
    return room / "measurement", pod.returncode


def _start(room: Path, url: str, bucket: LocalBucket) -> subprocess.Popen[bytes]:
    options = {
        "run": room / "run.json",
        "endpoint": url,
        "bucket": bucket.name,
        "tokenizer": room / "tokenizer",
        "server-pods": url.removeprefix("http://"),
        "wait-minutes": 1,
        "results": room / "results",
        "storage-url": bucket.url,
        "metadata-url": bucket.url,
        "start-margin-seconds": 2,
        "progress-seconds": 2,
    }
    environment = {
        **os.environ,
        **ENVIRONMENT,
        "PYTHONPATH": str(room / "scripts"),
        "JOB_NAME": JOB,
        "JOB_UID": UID,
    }
    command = [str(VLLM_PYTHON), "-m", f"{PACKAGE}.launch_clients"]
    command += [f"--{name}={value}" for name, value in options.items()]
    with (room / "pod.log").open("wb") as log:
        return subprocess.Popen(command, env=environment, cwd=room, stdout=log, stderr=log, start_new_session=True)


def _end(pod: subprocess.Popen[bytes]) -> None:
    # The pod's session includes its clients and its collector.
    if pod.poll() is None:
        os.killpg(pod.pid, signal.SIGKILL)
        pod.wait()
