"""GPU samples by `kubectl exec`: the stand-in runs the command in a shell of this machine, with an nvidia-smi of its own."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from benchmark.run import gpu_samples
from benchmark.run.gpu_samples import DMON, GpuSamples
from live.kubectl import Kubectl
from tests.benchmark.run.kubelet import until
from tests.live.programs import in_front, stand_in

HERE = """
import os, subprocess, sys
if os.environ.get("REFUSES"):
    sys.exit(os.environ["REFUSES"])
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


def test_samples_are_written_while_the_block_lasts_and_dmon_ends_with_it(kubectl: Kubectl, tmp_path: Path) -> None:
    pods = ["server-a", "server-b"]
    files = [tmp_path / "gpu" / f"dmon-{pod}.txt" for pod in pods]
    with GpuSamples(kubectl, pods, "vllm", tmp_path) as samples:
        until(lambda: all(file.is_file() and file.read_text().count("\n") > 3 for file in files), 20)
        assert samples.problems == ()
        assert len(running(tmp_path)) == 2
        began = time.monotonic()
    # Asked to end by the end of its stdin, and not by force.
    assert time.monotonic() - began < 4
    assert running(tmp_path) == []
    assert all(file.read_text().startswith("#Date") and "UTC 2" in file.read_text() for file in files)


@pytest.mark.slow
def test_a_connection_that_breaks_is_taken_up_again_and_told(
    kubectl: Kubectl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SAMPLES", "2")
    file = tmp_path / "gpu" / "dmon-server-a.txt"
    with GpuSamples(kubectl, ["server-a"], "vllm", tmp_path) as samples:
        until(lambda: file.is_file() and file.read_text().count("#Date") >= 2, 20)
    (problem,) = samples.problems
    assert problem == "gaps in the GPU samples by nvidia-smi: nvidia-smi dmon ended by itself (1 of 1 servers)"


@pytest.mark.parametrize(
    ("says", "words"),
    [
        (
            'Error from server (Forbidden): pods "server-a" is forbidden: User "me" cannot create resource "pods/exec" in API group '
            '"" in the namespace "vllm"',
            "user me may not create pods/exec in namespace vllm",
        ),
        ("", "the container has no such program"),
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
        until(lambda: len(samples._problems) == 2, 20)
    (problem,) = samples.problems
    assert problem.startswith("no GPU samples by nvidia-smi: ")
    assert words in problem
    assert problem.endswith("(2 of 2 servers)")
    assert not (tmp_path / "gpu").exists()
