"""Runs one benchmark pod's share of the clients: waits for the server, starts together with the other pods, stores results.

One `vllm bench serve` process is one Python event loop and saturates one core, so the load is spread over many of them,
each with its own seed: the same seed draws the same prompts. Every pod of the run writes a marker into the bucket and
reads the others'; the last marker's time, by the bucket's clock, plus a margin is the start for all of them.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import resource
import subprocess
import sys
import time
import urllib.error
import urllib.request
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .results_bucket import METADATA_URL, STORAGE_URL, Bucket, BucketError

START_MARGIN_SECONDS = 30.0
"""From the last pod's marker to the start: more than a poll of the bucket takes."""
POLL_SECONDS = 5.0
SPARE_FILES = 256
"""Open files of a client besides its connections: libraries, logs, the tokenizer."""
LOG = logging.getLogger("launch_clients")


@dataclass(frozen=True, kw_only=True)
class Run:
    """One benchmark run, as every pod of it sees it."""

    name: str
    endpoint: str
    model: str
    tokenizer: str
    workload: str
    input_len: int
    output_len: int
    range_ratio: str
    clients: int
    """Client processes of all pods together."""
    connections: int
    """Requests in flight of all clients together."""
    prompts_per_client: int
    pods: int

    @property
    def first_seed(self) -> int:
        """Differs between runs: a server that is still warm must not know the prompts."""
        return zlib.crc32(self.name.encode()) % 2**31


def share(total: int, parts: int, index: int) -> range:
    """The consecutive numbers of 0..total-1 that fall to one of `parts`, as evenly as they divide."""
    return range(total * index // parts, total * (index + 1) // parts)


def client_command(run: Run, client: int, *, started_at: float, results: Path) -> list[str]:
    """The `vllm bench serve` of one client, numbered over all pods."""
    metadata = {
        "run": run.name,
        "client": client,
        "clients": run.clients,
        "workload": run.workload,
        "seed": run.first_seed + client,
        # Saved start times are monotonic and mean nothing on another node; this is the wall clock they hang on.
        "started_at": f"{started_at:.3f}",
    }
    return [
        "vllm",
        "bench",
        "serve",
        "--backend=openai",
        f"--base-url={run.endpoint}",
        "--endpoint=/v1/completions",
        f"--model={run.model}",
        f"--tokenizer={run.tokenizer}",
        "--dataset-name=random",
        f"--random-input-len={run.input_len}",
        f"--random-output-len={run.output_len}",
        f"--random-range-ratio={run.range_ratio}",
        f"--num-prompts={run.prompts_per_client}",
        f"--max-concurrency={len(share(run.connections, run.clients, client))}",
        f"--seed={run.first_seed + client}",
        "--percentile-metrics=ttft,tpot,itl,e2el",
        "--metric-percentiles=50,90,99",
        "--disable-tqdm",
        "--save-result",
        "--save-detailed",
        f"--result-dir={results}",
        f"--result-filename={result_name(client)}",
        "--metadata",
        *(f"{key}={value}" for key, value in metadata.items()),
    ]


def result_name(client: int) -> str:
    """File and object name of one client's result."""
    return f"client-{client:03d}.json"


def allow_open_files(connections: int) -> None:
    """Raise the soft limit of open files. Exits when even the hard limit is too low: requests would fail one by one."""
    needed = connections + SPARE_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < needed:
        sys.exit(f"{connections} connections a client need {needed} open files; this pod may have {hard} at most")
    if soft != resource.RLIM_INFINITY and soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def wait_for_server(run: Run, *, until: float, poll_seconds: float = POLL_SECONDS) -> None:
    """Return once the server lists the model. Exits when it does not by the moment `until` (epoch seconds)."""
    url = f"{run.endpoint}/v1/models"
    key = os.environ.get("OPENAI_API_KEY")
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    while True:
        try:
            request = urllib.request.Request(url, headers=headers)  # noqa: S310 - the endpoint is http by construction
            with urllib.request.urlopen(request, timeout=30) as response:  # noqa: S310
                served = [entry["id"] for entry in json.load(response)["data"]]
            if run.model in served:
                return
            sys.exit(f"{url} serves {', '.join(served)}, not {run.model}: the clients would get errors only")
        except urllib.error.HTTPError as error:
            if error.code in (401, 403):
                sys.exit(f"{url}: HTTP {error.code}: the API key in this pod is not the server's")
            problem = f"HTTP {error.code}"
        except OSError as error:
            problem = str(error)
        if time.time() >= until:
            sys.exit(f"{url} did not answer in time: {problem}")
        LOG.info("waiting for %s: %s", url, problem)
        time.sleep(poll_seconds)


def common_start(
    bucket: Bucket, run: Run, pod: int, *, until: float, margin_seconds: float, poll_seconds: float
) -> float:
    """The moment at which all pods of the run start, in epoch seconds. Exits when one of them never reports."""
    prefix = f"runs/{run.name}/ready/"
    bucket.put(f"{prefix}{pod}", b"ready")
    while True:
        ready = bucket.created(prefix)
        if len(ready) == run.pods:
            return max(ready.values()) + margin_seconds
        if time.time() >= until:
            missing = sorted(set(range(run.pods)) - {int(name.removeprefix(prefix)) for name in ready})
            sys.exit(f"pods {missing} of {run.pods} did not report in time; a run without their share measures nothing")
        LOG.info("%d of %d pods are ready", len(ready), run.pods)
        time.sleep(poll_seconds)


def run_clients(run: Run, clients: Iterable[int], *, started_at: float, results: Path) -> Mapping[int, int]:
    """Start this pod's clients at once and wait for all; exit code by client."""
    processes = {}
    for client in clients:
        command = client_command(run, client, started_at=started_at, results=results)
        with (results / f"client-{client:03d}.log").open("wb") as log:
            processes[client] = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    return {client: process.wait() for client, process in processes.items()}


def tokens_and_window(results: Sequence[Mapping[str, Any]]) -> tuple[int, int, float]:
    """Input tokens, output tokens and seconds from first start to last end, over the requests that succeeded.

    Start times of one node share a clock, so clients of one pod may be laid over each other.
    """
    tokens_in = tokens_out = 0
    first, last = float("inf"), float("-inf")
    for result in results:
        requests = zip(
            result["start_times"],
            result["ttfts"],
            result["itls"],
            result["input_lens"],
            result["output_lens"],
            strict=True,
        )
        for start, ttft, itls, length_in, length_out in requests:
            if length_out == 0:  # failed
                continue
            tokens_in, tokens_out = tokens_in + length_in, tokens_out + length_out
            first, last = min(first, start), max(last, start + ttft + sum(itls))
    return tokens_in, tokens_out, max(last - first, 0.0)


def report(clients: Mapping[int, int], results: Path) -> tuple[str, bool]:
    """What a person reads in the pod's log, and whether every client did its work."""
    lines, read, sound = [], [], True
    for client, code in clients.items():
        file = results / result_name(client)
        if code != 0 or not file.exists():
            tail = (results / f"client-{client:03d}.log").read_text(errors="replace").splitlines()[-5:]
            lines.append(f"client {client}: exit code {code}; its last words: {' | '.join(tail)}")
            sound = False
            continue
        result = json.loads(file.read_text())
        sound = sound and result["completed"] > 0
        lines.append(f"client {client}: {result['completed']} requests completed, {result.get('failed', 0)} failed")
        read.append({key: result[key] for key in ("start_times", "ttfts", "itls", "input_lens", "output_lens")})
    tokens_in, tokens_out, seconds = tokens_and_window(read)
    if seconds > 0:
        lines.append(
            f"this pod: {(tokens_in + tokens_out) / seconds:,.0f} total tok/s, {tokens_out / seconds:,.0f} output tok/s "
            f"over {seconds:.1f} s"
        )
    return "\n".join(lines), sound


def main(arguments: Sequence[str] | None = None) -> int:
    """Run this pod's share. 0 when every client finished and its result is in the bucket."""
    options = _parse(arguments)
    pod = int(os.environ["JOB_COMPLETION_INDEX"])
    run = Run(
        name=f"{os.environ['JOB_NAME']}-{os.environ['JOB_UID'][:8]}",
        endpoint=options.endpoint.rstrip("/"),
        model=options.model,
        tokenizer=options.tokenizer,
        workload=options.workload,
        input_len=options.input_len,
        output_len=options.output_len,
        range_ratio=options.range_ratio,
        clients=options.clients,
        connections=options.connections,
        prompts_per_client=options.prompts_per_client,
        pods=options.pods,
    )
    mine = share(run.clients, run.pods, pod)
    results = Path(options.results)
    results.mkdir(parents=True, exist_ok=True)
    bucket = Bucket(options.bucket, storage_url=options.storage_url, metadata_url=options.metadata_url)

    allow_open_files(max(len(share(run.connections, run.clients, client)) for client in mine))
    until = time.time() + 60 * options.wait_minutes
    wait_for_server(run, until=until)
    try:
        # Before the run, and not only to meet the others: a run whose results cannot be stored is not worth its GPUs.
        start = common_start(
            bucket, run, pod, until=until, margin_seconds=options.start_margin_seconds, poll_seconds=POLL_SECONDS
        )
        LOG.info("clients %d to %d of %d start at %.0f", mine[0], mine[-1], run.clients, start)
        time.sleep(max(0.0, start - time.time()))
        codes = run_clients(run, mine, started_at=time.time(), results=results)
        text, sound = report(codes, results)
        LOG.info("%s", text)
        for file in sorted(results.iterdir()):
            bucket.put(f"runs/{run.name}/{file.name}", file)
    except BucketError as error:
        LOG.error("%s", error)
        return 1
    LOG.info("results: gs://%s/runs/%s/", bucket.name, run.name)
    return 0 if sound else 1


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    for text in ("endpoint", "model", "tokenizer", "workload", "range-ratio", "bucket", "results"):
        parser.add_argument(f"--{text}", required=True)
    for number in ("input-len", "output-len", "clients", "connections", "prompts-per-client", "pods", "wait-minutes"):
        parser.add_argument(f"--{number}", required=True, type=int)
    parser.add_argument("--start-margin-seconds", type=float, default=START_MARGIN_SECONDS)
    parser.add_argument("--storage-url", default=STORAGE_URL)
    parser.add_argument("--metadata-url", default=METADATA_URL)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", stream=sys.stdout)
    sys.exit(main())
