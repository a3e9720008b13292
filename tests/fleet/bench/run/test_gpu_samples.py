"""GPU samples by `kubectl exec`: the stand-in runs the command in a shell of this machine, with an nvidia-smi of its own."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

import fleet.clients.kubectl
from fleet.bench.run import gpu_samples
from fleet.bench.run.gpu_samples import DMON, GpuSamples
from fleet.clients.kubectl import Kubectl
from tests.fleet.bench.run.kubelet import until
from tests.fleet.clients.programs import in_front, stand_in

HERE = """
import os, pathlib, subprocess, sys
if os.environ.get("REFUSES"):
    sys.exit(os.environ["REFUSES"])
if "OUTAGE" in os.environ:
    # One connection that breaks off within a row, a cluster that is away for longer than ten attempts, then all is well.
    count = pathlib.Path(os.environ["OUTAGE"])
    number = int(count.read_text()) if count.exists() else 0
    count.write_text(str(number + 1))
    if number == 0:
        print("#Date       Time        gpu    pwr\\n 20260101   00:00:01      0    7", end="", flush=True)
        sys.exit("error: error reading from error stream: next reader: read tcp 192.0.2.7:5051: i/o timeout")
    if number < 15:
        sys.exit("Unable to connect to the server: dial tcp: lookup gke-1.gke.goog: no such host")
command = sys.argv[sys.argv.index("--") + 1 :]
if code := subprocess.run(command).returncode:
    sys.exit(f"command terminated with exit code {code}")
"""
NVIDIA_SMI = """
import os, pathlib, sys, time
assert sys.argv[1:] == os.environ["WANTED"].split()[1:], sys.argv
folder = pathlib.Path(__file__).parent
with open(folder / "pids", "a") as file:
    file.write(f"{os.getpid()}\\n")
print("#Date       Time        gpu    pwr", flush=True)
for number in range(int(os.environ.get("SAMPLES", "600"))):
    print(f"{os.environ['TZ']} {number}", flush=True)
    time.sleep(0.05)
"""


@pytest.fixture
def kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kubectl:
    stand_in(tmp_path / "bin", "nvidia-smi", NVIDIA_SMI)
    monkeypatch.setenv("PATH", in_front(tmp_path / "bin"))
    monkeypatch.setenv("WANTED", DMON)
    monkeypatch.setattr(gpu_samples, "AGAIN_SECONDS", 0.05)
    return Kubectl(namespace="vllm", program=str(stand_in(tmp_path / "kubectl", "kubectl", HERE)))


def running(tmp_path: Path) -> list[str]:
    def is_there(pid: str) -> bool:
        status = Path(f"/proc/{pid}/status")
        return status.exists() and "\nState:\tZ" not in status.read_text()

    return [pid for pid in (tmp_path / "bin" / "pids").read_text().split() if is_there(pid)]


def test_samples_are_written_while_the_block_lasts_and_dmon_ends_with_it(
    kubectl: Kubectl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet.clients.kubectl, "STOP_SECONDS", 60.0)
    pods = ["server-a", "server-b"]
    files = [tmp_path / "gpu" / f"dmon-{pod}.txt" for pod in pods]
    with GpuSamples(kubectl, pods, "vllm", tmp_path) as samples:
        until(lambda: all(file.is_file() and file.read_text().count("\n") > 3 for file in files))
        assert samples.problems == ()
        assert len(running(tmp_path)) == 2
        began = time.monotonic()
    # Asked to end by the end of its stdin, and not by force, which comes after a minute.
    assert time.monotonic() - began < 50
    assert running(tmp_path) == []
    assert all(file.read_text().startswith("#Date") and "UTC 2" in file.read_text() for file in files)


@pytest.mark.slow
def test_a_connection_that_breaks_is_taken_up_again_and_told(
    kubectl: Kubectl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SAMPLES", "2")
    file = tmp_path / "gpu" / "dmon-server-a.txt"
    with GpuSamples(kubectl, ["server-a"], "vllm", tmp_path) as samples:
        until(lambda: file.is_file() and file.read_text().count("#Date") >= 2)
    (problem,) = samples.problems
    assert problem.startswith("gaps ")
    assert problem.endswith(" (1 of 1 servers)")


@pytest.mark.slow
def test_a_network_that_is_away_for_minutes_is_waited_for_and_leaves_no_cut_row(
    kubectl: Kubectl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTAGE", str(tmp_path / "outage"))
    monkeypatch.setattr(gpu_samples, "AGAIN_SECONDS", 0.001)
    monkeypatch.setattr(gpu_samples, "_LOOK_SECONDS", 0.01)
    file = tmp_path / "gpu" / "dmon-server-a.txt"
    with GpuSamples(kubectl, ["server-a"], "vllm", tmp_path) as samples:
        until(lambda: file.is_file() and "UTC 2" in file.read_text())
    assert file.read_text().startswith(
        "#Date       Time        gpu    pwr\n#Date       Time        gpu    pwr\nUTC 0\n"
    )
    (problem,) = samples.problems
    assert "does not respond" in problem


def test_a_network_that_stays_away_is_given_up(
    kubectl: Kubectl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REFUSES", "Unable to connect to the server: dial tcp: i/o timeout")
    monkeypatch.setattr(gpu_samples, "PATIENCE_SECONDS", 0.05)
    monkeypatch.setattr(gpu_samples, "_LOOK_SECONDS", 0.01)
    with GpuSamples(kubectl, ["server-a"], "vllm", tmp_path) as samples:
        until(lambda: not samples._threads[0].is_alive())
    assert "does not respond" in samples.problems[0]


@pytest.mark.parametrize(
    ("says", "words"),
    [
        (
            'Error from server (Forbidden): pods "server-a" is forbidden: User "me" cannot create resource "pods/exec" in API group '
            '"" in the namespace "vllm"',
            "create pods/exec in namespace vllm",
        ),
        ("", "program not found"),
    ],
)
def test_where_there_can_be_none_it_goes_on_and_says_so_once(
    kubectl: Kubectl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str, words: str
) -> None:
    if says:
        monkeypatch.setenv("REFUSES", says)
    else:
        (tmp_path / "bin" / "nvidia-smi").unlink()
        monkeypatch.setenv("PATH", os.defpath)
    with GpuSamples(kubectl, ["server-a", "server-b"], "vllm", tmp_path) as samples:
        until(lambda: len(samples._problems) == 2)
    (problem,) = samples.problems
    assert problem.startswith("no GPU samples ")
    assert words in problem
    assert problem.endswith("(2 of 2 servers)")
    assert not (tmp_path / "gpu").exists()
