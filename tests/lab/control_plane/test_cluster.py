"""The control plane as a whole: real programs, hence slow."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lab.control_plane.api import DEPLOYMENT, NAMESPACE, NODE, POD, ApiUnreachableError
from lab.control_plane.cluster import ControlPlane
from lab.control_plane.mirror import Mirror
from lab.control_plane.programs import SIMULATED_NODES
from lab.results.result import RehearsalError
from lab.stage.meter import is_ready
from tests.support.waiting import alive, within

if TYPE_CHECKING:
    from lab.control_plane.build import Binaries

ROOT = Path(__file__).parents[3]
PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")


def simulated_node(name: str) -> dict[str, Any]:
    size = {"cpu": "224", "memory": "3900Gi", "pods": "32", "nvidia.com/gpu": "8"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "annotations": dict([SIMULATED_NODES.split("=")])},
        "status": {"capacity": size, "allocatable": size},
    }


def config_map(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}}


def folder_of(running: ControlPlane) -> Path:
    return running.kubeconfig.parent


def pids_using(folder: Path) -> dict[int, str]:
    """Processes whose working folder is this one -> their program."""
    found = {}
    for process in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if process.name.isdigit() and (process / "cwd").readlink() == folder:
                found[int(process.name)] = (process / "exe").readlink().name
    return found


@pytest.mark.slow
def test_pods_of_a_deployment_get_ready_on_simulated_nodes(control_plane: ControlPlane) -> None:
    api = control_plane.api
    api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ready"}})
    api.create(simulated_node("ready-0"))
    with Mirror(api, POD, namespace="ready") as pods:
        container = {"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": "2"}}}
        began = time.monotonic()
        api.apply(
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": "d", "namespace": "ready"},
                "spec": {
                    "replicas": 4,
                    "selector": {"matchLabels": {"app": "d"}},
                    "template": {"metadata": {"labels": {"app": "d"}}, "spec": {"containers": [container]}},
                },
            }
        )
        assert within(30, lambda: sum(map(is_ready, pods.all())) == 4)
    # An etcd without progress requests starves kwok's watches: ten seconds and more instead of a fraction of one.
    assert time.monotonic() - began < 5
    api.delete(DEPLOYMENT, "d", "ready")
    api.delete(NODE, "ready-0")
    api.delete(NAMESPACE, "ready")


@pytest.mark.slow
def test_its_folder_is_closed_to_others_and_it_listens_on_one_loopback_port(control_plane: ControlPlane) -> None:
    folder = folder_of(control_plane)
    assert folder.stat().st_mode & 0o777 == 0o700
    inodes = set()
    for pid in pids_using(folder):
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                inodes.add(str(descriptor.readlink()).removeprefix("socket:[").rstrip("]"))
    listening = [
        line.split()[1]
        for table in ("tcp", "tcp6")
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]
        if line.split()[3] == "0A" and line.split()[9] in inodes
    ]
    assert [address.split(":")[0] for address in listening] == ["0100007F"]


@pytest.mark.slow
def test_while_the_api_server_is_down_it_is_unreachable(binaries: Binaries) -> None:
    with ControlPlane(binaries) as running:
        running._processes["kube-apiserver"].stop()
        with pytest.raises(ApiUnreachableError):
            running.api.version()
        running.restart_api_server()
        assert running.api.version() == "v1.36.3"


@pytest.mark.slow
def test_a_program_that_cannot_start_is_reported_with_its_last_words(
    binaries: Binaries, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / ("longer than the path of a socket " * 5)
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    broken = tmp_path / "kube-apiserver"
    broken.write_text("#!/bin/sh\necho 'listen tcp: address already in use'; exit 1\n")
    broken.chmod(0o755)
    with pytest.raises(RehearsalError, match=r"kube-apiserver ended unexpectedly \(exit code 1\)[\s\S]*already in use"):
        ControlPlane(dataclasses.replace(binaries, api_server=broken)).__enter__()
    assert list(temporary.iterdir()) == []


@pytest.mark.slow
def test_an_api_server_that_dies_later_is_the_reason_given(binaries: Binaries) -> None:
    def lose_the_api_server() -> None:
        with ControlPlane(binaries) as running:
            (pid,) = (pid for pid, name in pids_using(folder_of(running)).items() if name == "kube-apiserver")
            os.kill(pid, signal.SIGKILL)
            assert within(5, lambda: running._processes["kube-apiserver"].exit_code is not None)
            running.api.version()

    with pytest.raises(RehearsalError, match=r"kube-apiserver ended unexpectedly \(exit code 137\)"):
        lose_the_api_server()


PARENT = """
import sys, time
from lab.control_plane.build import binaries
from lab.control_plane.cluster import ControlPlane
with ControlPlane(binaries(print)) as running:
    print("up", running.kubeconfig.parent, flush=True)
    time.sleep(600)
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_nothing_is_left_when_the_rehearsal_is_ended(binaries: Binaries, number: int) -> None:
    assert binaries.api_server.is_file()  # so that the process below builds nothing
    process = subprocess.Popen([sys.executable, "-c", PARENT], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("up ")
        folder = Path(line.split(maxsplit=1)[1].strip())
        pids = pids_using(folder)
        assert {"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"} <= set(pids.values())
        process.send_signal(number)
        process.communicate(timeout=20)
    finally:
        # Left running, it fails a later test by its ResourceWarning.
        process.kill()
        process.communicate()
    assert process.returncode != 0
    assert within(10, lambda: not any(map(alive, pids)))
    assert within(10, lambda: not folder.exists())
