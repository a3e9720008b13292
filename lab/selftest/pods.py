"""Benchmark pods as processes: the programs of workloads/benchmark/pods, started as a Job's pods start them."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fleet.bench.errors import BenchmarkError
from fleet.clients.scratch import scratch
from lab.selftest.load import Load
from lab.selftest.tokenizer_folder import write_tokenizer
from lab.simulators.bucket import LocalBucket
from lab.simulators.model_server.processes import ServerProcesses
from workloads.pod_programs import PACKAGE, benchmark_programs

JOB: Final = "selftest"
UID: Final = "00000000"
"""Constant, so that every self-test draws the same prompts."""
NAME: Final = f"{JOB}-{UID}"
"""Name of the measurement and its folder in the bucket."""
POLL_SECONDS: Final = 0.05
LOOK_SECONDS: Final = 1.0
"""Seconds between readings of the pods' progress."""
START_SECONDS: Final = 600.0
"""For everything but the requests. Assumed: six clients of vLLM that import it at the same time on two busy cores need a third of it."""
LONGER: Final = 20.0
"""Allowed factor of the planned duration. A saturated client needs about eight."""
_SMALL_CLIENT: Final = Path(__file__).with_name("small_client")
_WHERE: Final = re.compile(r"; what there is: gs://\S+")
"""Source: workloads/benchmark/pods/launch_clients.py."""
_START: Final = (
    "import os, runpy, signal, sys, threading\n"
    "def follow():\n"
    "    while os.read(0, 1):\n"
    "        pass\n"
    "    os.killpg(0, signal.SIGKILL)\n"
    "threading.Thread(target=follow, daemon=True).start()\n"
    "cores = [int(core) for core in sys.argv.pop(1).split(',') if core]\n"
    "if cores:\n"
    "    os.sched_setaffinity(0, cores)\n"
    "runpy.run_module('pod_scripts.launch_clients', run_name='__main__', alter_sys=True)\n"
)
"""A pod with its clients ends when its standard input does: with this process, however that ends."""


@dataclass(frozen=True, kw_only=True)
class Played:
    """A stored measurement."""

    seconds: float


def play(
    load: Load, servers: ServerProcesses, bucket: LocalBucket, *, vllm: Path | None, look: Callable[[], None]
) -> Played:
    """Run the pods to their end; `look` is called every second meanwhile. Raises BenchmarkError with the last words of one that
    failed, or where there is no end.
    """
    began = time.monotonic()
    with scratch("selftest") as room:
        # As in a pod, only these programs can be imported.
        programs = room / "scripts" / PACKAGE
        programs.mkdir(parents=True)
        for name, code in benchmark_programs().items():
            (programs / name).write_text(code, encoding="utf-8")
        (room / "run.json").write_text(json.dumps(load.asked(len(servers.urls))), encoding="utf-8")
        tokenizer = write_tokenizer(room / "tokenizer")
        with contextlib.ExitStack() as stack:
            pods = [
                stack.enter_context(_pod(number, room, load, servers, bucket, tokenizer, vllm))
                for number in range(load.pods)
            ]
            _wait(pods, START_SECONDS + LONGER * load.planned_seconds, look)
        _refuse_failed(pods, room)
    return Played(seconds=time.monotonic() - began)


@contextlib.contextmanager
def _pod(
    number: int,
    room: Path,
    load: Load,
    servers: ServerProcesses,
    bucket: LocalBucket,
    tokenizer: Path,
    vllm: Path | None,
) -> Iterator[subprocess.Popen[bytes]]:
    addresses = ",".join(url.removeprefix("http://") for url in servers.urls)
    command = [
        str(vllm or sys.executable),
        "-c",
        _START,
        ",".join(str(core) for core in load.client_cores),
        f"--run={room / 'run.json'}",
        f"--endpoint={servers.url}",
        f"--bucket={bucket.name}",
        f"--tokenizer={tokenizer}",
        f"--server-pods={addresses}",
        "--wait-minutes=1",
        f"--results={room / f'results-{number}'}",
        f"--storage-url={bucket.url}",
        f"--metadata-url={bucket.url}",
        f"--start-margin-seconds={0.5 if vllm is None else 2}",
        "--poll-seconds=0.1",
        "--progress-seconds=2",
    ]
    paths = [str(room / "scripts")] + ([str(_SMALL_CLIENT)] if vllm is None else [])
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(paths),
        "JOB_NAME": JOB,
        "JOB_UID": UID,
        "JOB_COMPLETION_INDEX": str(number),
        "NODE_NAME": "loopback",
        # vLLM's client needs only a tokenizer folder from the hub.
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
    }
    with (room / f"pod-{number}.log").open("wb") as log:
        process = subprocess.Popen(
            command,
            env=environment,
            cwd=room,
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill what is left of a pod."""
    # The pod's session includes its clients and its collector.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdin is not None:
        process.stdin.close()


def _wait(pods: Sequence[subprocess.Popen[bytes]], seconds: float, look: Callable[[], None]) -> None:
    """Wait until all have ended. They notice a failed pod themselves, but not a server that never answers."""
    until = time.monotonic() + seconds
    looked = 0.0
    while any(pod.poll() is None for pod in pods):
        if time.monotonic() > until:
            raise BenchmarkError(
                f"the benchmark pods have not ended after {seconds:,.0f} s; a client is still waiting for an answer"
            )
        if time.monotonic() - looked > LOOK_SECONDS:
            look()
            looked = time.monotonic()
        time.sleep(POLL_SECONDS)


def _refuse_failed(pods: Sequence[subprocess.Popen[bytes]], room: Path) -> None:
    failed = [number for number, pod in enumerate(pods) if pod.returncode]
    if not failed:
        return
    log = (room / f"pod-{failed[0]}.log").read_text(encoding="utf-8", errors="replace").strip().splitlines()
    # The bucket named in the log no longer exists.
    said = [_WHERE.sub("", line) for line in log if re.search(r"failed: ", line)] or log[-3:]
    raise BenchmarkError(
        f"benchmark pod {failed[0]} ended with exit code {pods[failed[0]].returncode}: {' | '.join(said)}"
    )
