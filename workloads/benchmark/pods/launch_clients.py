"""Run a measurement: every load, every repeat, one run after another.

One `vllm bench serve` process is one Python event loop and saturates one core, so the load is spread over many of them, each with
its own seed: the same seed draws the same prompts. In every run all clients are made ready, warmed up, and started together, and the
servers' metrics are read meanwhile. A failed run keeps its files and does not affect other runs.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import sys
import time
import traceback
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

from .client_processes import allow_open_files
from .dataset_parts import DatasetError, Parts
from .play_run import Limits, Pod
from .progress import Progress
from .results_bucket import METADATA_URL, STORAGE_URL, Bucket, BucketError
from .run_plan import Plan, read_plan
from .server_metrics import split_address
from .wait_for_server import wait_for_server

START_MARGIN_SECONDS = 6.0
"""The fleet is idle meanwhile. More than the 5 s after which vLLM closes the connections of the warm-up, so that no request uses a
closing one. Source: VLLM_HTTP_TIMEOUT_KEEP_ALIVE in vllm/envs.py, 0.18.1."""
READY_MINUTES = 20.0
"""Measured: a client imports vLLM in 7 s and draws a prompt in 7 ms, 5,000 in 35 s; the Job sets more where there are more."""
RUN_MINUTES = 60.0
"""Measured: 24 s a request at full load, so 5,000 prompts over 1,000 connections take 2 minutes; the limit allows thirty times as
many and ends clients that hang."""
IDLE_MINUTES = 2.0
"""Assumed: requests that a client gave up are dropped by the server within seconds."""
FRUITLESS = 2
"""Runs in a row whose clients never started after which the measurement ends: the cause is not temporary."""
STOP_SECONDS = 5.0
"""For clients when the pod is told to end; the rest of the grace period is for storing."""
LOG = logging.getLogger("launch_clients")


class StopError(BaseException):
    """The pod was told to end. Not an Exception, so that no handler treats it as a failure."""


def measure(options: argparse.Namespace, plan: Plan, bucket: Bucket, progress: Progress) -> list[str]:
    """The measurement between reading the plan and the last log line; returns the failures."""
    results = Path(options.results)
    results.mkdir(parents=True, exist_ok=True)
    allow_open_files(max(run.connections_of(run.clients - 1) for run in plan.runs))
    pod = Pod(
        plan=plan,
        bucket=bucket,
        endpoint=options.endpoint.rstrip("/"),
        tokenizer=options.tokenizer,
        server_pods=options.server_pods,
        results=results,
        parts=Parts(plan, Path(options.dataset) if options.dataset else None),
        progress=progress,
        limits=Limits(
            ready_minutes=options.ready_minutes,
            run_minutes=options.run_minutes,
            idle_minutes=options.idle_minutes,
            margin_seconds=options.start_margin_seconds,
        ),
    )
    try:
        # Before anything runs: without storage the GPU time would be wasted.
        created = datetime.now(UTC).isoformat(timespec="seconds")
        content = {**plan.asked, "name": plan.name, "created": created}
        bucket.put(f"runs/{plan.name}/run.json", json.dumps(content, indent=1).encode())
        progress.start()
        wait_for_server(pod.endpoint, plan.model, until=time.time() + 60 * options.wait_minutes)
        return _play(pod)
    except BaseException as error:
        # A second SIGTERM must not stop the storing.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        pod.abandon("the pod was told to end" if isinstance(error, StopError) else f"given up: {error}", STOP_SECONDS)
        raise


def _play(pod: Pod) -> list[str]:
    failures: list[str] = []
    fruitless = 0
    for run in pod.plan.runs:
        failed, started = pod.play(run)
        failures += [f"{run.folder}: {failure}" for failure in failed]
        fruitless = 0 if started else fruitless + 1
        left = len(pod.plan.runs) - run.index - 1
        if fruitless == FRUITLESS and left:
            return [*failures, f"{left} runs were left out: {FRUITLESS} in a row never started"]
    return failures


def main(arguments: Sequence[str] | None = None) -> int:
    """Run this pod. 0 when every client of every run finished and all results are stored."""
    options = _parse(arguments)
    signal.signal(signal.SIGTERM, _stop)
    name = f"{os.environ['JOB_NAME']}-{os.environ['JOB_UID'][:8]}"
    bucket = Bucket(options.bucket, storage_url=options.storage_url, metadata_url=options.metadata_url)
    where = f"gs://{bucket.name}/runs/{name}/"
    plan = read_plan(Path(options.run), name)
    progress = Progress(
        bucket,
        f"runs/{name}/.progress/pod.json",
        period_seconds=options.progress_seconds,
        state="waiting for the server",
        runs=len(plan.runs),
    )
    problem, state = "", "failed"
    try:
        problem = "; ".join(measure(options, plan, bucket, progress))
    except (BucketError, DatasetError, OSError) as error:
        problem = str(error)
    except SystemExit as error:
        problem = str(error.code)
    except StopError:
        problem, state = "the pod was told to end before the measurement was done", "stopped"
    except Exception as error:
        # A defect of these programs: reported in one line, with its place.
        place = traceback.extract_tb(error.__traceback__)[-1]
        problem = f"{type(error).__name__}: {error} ({Path(place.filename).name}, line {place.lineno})"
    if problem:
        progress.end(state=state, problem=problem)
        LOG.error("failed: %s; what there is: %s", problem, where)
        return 1
    progress.end(state="finished")
    LOG.info("finished: %d runs; results: %s", len(plan.runs), where)
    return 0


def _stop(*_: Any) -> NoReturn:
    # A second signal must not stop the storing.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise StopError


def _addresses(text: str) -> list[tuple[str, int]]:
    try:
        return split_address(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    for text in ("run", "endpoint", "bucket", "tokenizer", "results"):
        parser.add_argument(f"--{text}", required=True)
    parser.add_argument(
        "--server-pods", required=True, type=_addresses, help="HOST:PORT; every address of HOST is one server"
    )
    parser.add_argument("--wait-minutes", required=True, type=float)
    parser.add_argument("--dataset", default="")
    parser.add_argument("--ready-minutes", type=float, default=READY_MINUTES)
    parser.add_argument("--run-minutes", type=float, default=RUN_MINUTES)
    parser.add_argument("--idle-minutes", type=float, default=IDLE_MINUTES)
    parser.add_argument("--start-margin-seconds", type=float, default=START_MARGIN_SECONDS)
    parser.add_argument("--progress-seconds", type=float, default=10.0)
    parser.add_argument("--storage-url", default=STORAGE_URL)
    parser.add_argument("--metadata-url", default=METADATA_URL)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", stream=sys.stdout)
    sys.exit(main())
