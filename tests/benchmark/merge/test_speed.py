"""Twelve nodes' worth merges in under ten seconds and under 2 GB, the whole command from its start to its end."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmark.merge import merge_folder
from benchmark.merge.reading import SECOND_PROCESS_PAYS
from scripts.bench_results import make_measurement

SECONDS = 10.0
MEBIBYTES = 2048


@pytest.mark.slow
def test_twelve_nodes_worth(tmp_path: Path) -> None:
    folder = make_measurement(
        tmp_path, clients=32, requests_per_client=3125, connections_per_client=256, output_tokens=(256, 512), clients_per_pod=4
    )  # fmt: skip
    size = sum(path.stat().st_size for path in folder.rglob("client-???.json"))
    assert size > 500 * 2**20
    began, cpu = time.monotonic(), os.times()
    done = subprocess.run(
        [sys.executable, "-m", "cli.main", "bench", "merge", str(folder), "--format", "json"],
        stdout=subprocess.DEVNULL,
        check=False,
    )
    took, after = time.monotonic() - began, os.times()
    spent = after.children_user + after.children_system - cpu.children_user - cpu.children_system
    assert done.returncode in (0, 1)
    # Peak of any single one of the command's processes; there are three.
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"{size / 2**20:.0f} MiB: {took:.1f} s, {spent:.1f} s of CPU, {peak:.0f} MiB in the largest process")  # noqa: T201
    # A machine that others use too takes longer; there it must be fast enough on a single core of its own.
    assert min(took, spent) < SECONDS
    assert 3 * peak < MEBIBYTES


@pytest.mark.slow
def test_two_processes_read_what_one_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_measurement(
        tmp_path, clients=4, requests_per_client=3000, connections_per_client=256, output_tokens=(256, 512), with_gpu=False
    )  # fmt: skip
    assert sum(path.stat().st_size for path in folder.rglob("client-???.json")) > SECOND_PROCESS_PAYS
    two = merge_folder(folder)
    monkeypatch.setattr("benchmark.merge.reading.SECOND_PROCESS_PAYS", 2**40)
    assert merge_folder(folder) == two
