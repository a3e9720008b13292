"""Twelve nodes' worth merges in about the processor time of a plain parse of its JSON, and under 2 GB."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.fleet.bench.made_up.results import make_measurement

OF_PARSING = 1.5
"""Processor time of the merge, at most, in times of what Python's own JSON parser takes for the same files; 0.8 to 1.0 measured."""
MEBIBYTES = 2048
WATCH = """
import resource, subprocess, sys
done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=False)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(done.returncode, used.ru_utime + used.ru_stime, used.ru_maxrss)
"""
"""Runs a command; prints its exit code, seconds of CPU with its children, and KiB of the largest of them."""


@pytest.mark.slow
def test_twelve_nodes_worth(tmp_path: Path) -> None:
    folder = make_measurement(
        tmp_path, clients=32, requests_per_client=3125, connections_per_client=256, output_tokens=(256, 512)
    )  # fmt: skip
    files = sorted(folder.rglob("client-???.json"))
    size = sum(path.stat().st_size for path in files)
    assert size > 500 * 2**20
    merge = [sys.executable, "-m", "fleet.cli.main", "bench", "report", str(folder), "--format", "json"]
    # From a process of its own: Linux counts what a process forks from to that process's peak, and this one may be large.
    done = subprocess.run([sys.executable, "-c", WATCH, *merge], capture_output=True, text=True, check=False)
    code, spent, kibibytes = map(float, done.stdout.split())
    assert code in (0, 1)
    began = time.process_time()
    for path in files[::4]:
        json.loads(path.read_bytes())
    parsing = (time.process_time() - began) * size / sum(path.stat().st_size for path in files[::4])
    peak = kibibytes / 1024
    print(f"{size / 2**20:.0f} MiB: {spent:.1f} s of CPU, {spent / parsing:.2f} of parsing, {peak:.0f} MiB at most")  # noqa: T201
    assert spent / parsing < OF_PARSING
    assert peak < MEBIBYTES
