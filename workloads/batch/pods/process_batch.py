"""A client pod of a batch: `python3 -m workloads.batch.pods.process_batch --bucket ... --batch ...`.

Exit code 0: the batch is done, or it was stopped. 143: SIGTERM; the Job starts the client again. 1: anything else, and the same.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
from collections.abc import Sequence

from workloads.benchmark.pods.results_bucket import METADATA_URL, STORAGE_URL, BucketError
from workloads.benchmark.pods.server_metrics import split_address

from .client import TERMINATED, Client, Options
from .window import MOST

TERMINATED_CODE = 128 + signal.SIGTERM


def main(arguments: Sequence[str] | None = None) -> int:
    """Work until the batch is done, stopped, or this pod is ended."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bucket", required=True)
    parser.add_argument("--batch", required=True, help="id of the batch")
    parser.add_argument("--endpoint", required=True, help="URL of the servers, without a path")
    parser.add_argument("--server-pods", required=True, help="HOST:PORT; every address of HOST is one server")
    parser.add_argument("--index", required=True, type=int, help="number of this client; 0 is the keeper")
    parser.add_argument("--storage-url", default=STORAGE_URL)
    parser.add_argument("--metadata-url", default=METADATA_URL)
    parser.add_argument("--most-in-flight", type=int, default=MOST)
    parser.add_argument(
        "--speed", type=float, default=1.0, help="seconds of every duration and price in one of the wall"
    )
    given = parser.parse_args(arguments)
    try:
        server_pods = split_address(given.server_pods)
    except ValueError as error:
        sys.exit(f"--server-pods: {error}")
    client = Client(
        Options(
            bucket=given.bucket,
            batch=given.batch,
            endpoint=given.endpoint,
            server_pods=server_pods,
            index=given.index,
            pod=os.environ.get("POD_UID", ""),
            storage_url=given.storage_url,
            metadata_url=given.metadata_url,
            key=os.environ.get("OPENAI_API_KEY"),
            speed=given.speed,
            most_in_flight=given.most_in_flight,
        )
    )

    def terminate(*_: object) -> None:
        client.is_terminated = True

    # A request to the bucket that is tried again is no event; what fails for long is (`blind`).
    logging.getLogger("results_bucket").setLevel(logging.ERROR)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, terminate)
    try:
        reason = client.run()
    except BucketError as error:
        sys.exit(str(error))
    return TERMINATED_CODE if reason == TERMINATED else 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    # Open requests that are given up hold no process.
    os._exit(code)
