"""`fleet rehearse` as processes: two side by side, interrupted in the middle, and on somebody else's cluster."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rehearsal.api import NAMESPACE, ApiRefusedError, ClusterApi
from tests.cli.command import ROOT

if TYPE_CHECKING:
    from rehearsal.control_plane.build import Binaries

pytestmark = pytest.mark.slow
SPEED = "300"
END_SECONDS = 15.0
"""Wall time that an interrupted rehearsal may take to end. Measured: one to two seconds on a busy machine."""
LONG_SECONDS = 150.0
"""Wall time of a whole rehearsal of one drill at most. Measured: 25 s on two idle cores."""
SETTLE_SECONDS = 15.0
"""Wall time in which Kubernetes' own controllers finish what was deleted."""
MIDDLE = "Job/weights"
"""Said in the middle of `pulumi up`, while the weights' Job is waited for."""
_LEFT_TO_KUBERNETES = frozenset({"Event", "Lease", "EndpointSlice", "Endpoints", "ComponentStatus", "FlowSchema"})
"""Kinds that a control plane writes by itself."""


class Rehearsal:
    """`fleet rehearse` in a process, with a folder for temporary files of its own."""

    def __init__(self, temporary: Path, *arguments: str) -> None:
        temporary.mkdir()
        self.temporary = temporary
        program = "import sys; from cli.main import main; sys.exit(main())"
        command = [sys.executable, "-c", program, "rehearse", "--stack", "dev", "--speed", SPEED, *arguments]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(temporary)}
        self.process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def until(self, words: str) -> None:
        """Read on until it says that."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if words in line:
                return
        pytest.fail(f"it ended without saying {words}: {self.process.communicate()[1]}")

    def interrupted(self, number: signal.Signals) -> tuple[int, float, str]:
        """Exit code after the signal, wall seconds until then, and what went to stderr."""
        began = time.monotonic()
        self.process.send_signal(number)
        _, said = self.process.communicate(timeout=END_SECONDS * 2)
        return self.process.returncode, time.monotonic() - began, said

    def leftovers(self) -> list[str]:
        """Files it left, and command lines of processes that still work in its folder."""
        found = [path.name for path in self.temporary.iterdir()]
        for entry in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                line = entry.read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if str(self.temporary) in line:
                found.append(line)
        return found


@contextmanager
def rehearsal(temporary: Path, *arguments: str) -> Iterator[Rehearsal]:
    one = Rehearsal(temporary, *arguments)
    try:
        yield one
    finally:
        one.process.kill()
        one.process.communicate()


@pytest.mark.usefixtures("binaries")
def test_of_two_side_by_side_one_is_interrupted_and_the_other_does_not_notice(tmp_path: Path) -> None:
    arguments = ("--drill", "bring-up", "--drill", "second-up", "--format", "json")
    with rehearsal(tmp_path / "whole", *arguments) as whole, rehearsal(tmp_path / "cut", "--drill", "bring-up") as cut:
        cut.until(MIDDLE)
        assert cut.leftovers()  # it looks where there is something
        code, seconds, said = cut.interrupted(signal.SIGINT)
        assert (code, said) == (130, "")
        assert seconds < END_SECONDS
        assert cut.leftovers() == []
        out, said = whole.process.communicate(timeout=LONG_SECONDS)
        assert (whole.process.returncode, said) == (0, "")
        assert [one["name"] for one in json.loads(out)["drills"]] == ["bring-up", "second-up"]
        assert whole.leftovers() == []


def objects(api: ClusterApi) -> set[tuple[str, str, str]]:
    """Kind, namespace and name of everything in a cluster that Kubernetes does not write by itself."""
    found: set[tuple[str, str, str]] = set()
    groups: list[dict[str, Any]] = api.raw("GET", "/apis")["groups"]
    for path in ("/api/v1", *(f"/apis/{group['preferredVersion']['groupVersion']}" for group in groups)):
        try:
            found |= set(objects_of(api, path))
        except ApiRefusedError as refusal:  # a kind that comes or goes just now
            found.add((path, "", refusal.message))
    return found


def objects_of(api: ClusterApi, path: str) -> Iterator[tuple[str, str, str]]:
    """Those of one group."""
    for resource in api.raw("GET", path)["resources"]:
        kind = resource["kind"]
        if "/" in resource["name"] or "list" not in resource["verbs"] or kind in _LEFT_TO_KUBERNETES:
            continue
        for one in api.raw("GET", f"{path}/{resource['name']}").get("items") or ():
            yield kind, one["metadata"].get("namespace", ""), one["metadata"]["name"]


@pytest.mark.parametrize("number", [None, signal.SIGTERM])
def test_somebody_elses_cluster_is_given_back_as_it_was(
    somebodys: tuple[ClusterApi, Path, set[tuple[str, str, str]]], tmp_path: Path, number: signal.Signals | None
) -> None:
    api, kubeconfig, before = somebodys
    with rehearsal(tmp_path / "guest", "--drill", "bring-up", "--kubeconfig", str(kubeconfig)) as guest:
        guest.until(MIDDLE)
        assert api.get(NAMESPACE, "vllm") is not None
        if number is None:
            out, said = guest.process.communicate(timeout=LONG_SECONDS)
            assert (guest.process.returncode, said) == (0, ""), out
        else:
            code, _, said = guest.interrupted(number)
            assert (code, said) == (128 + number, "")
        assert guest.leftovers() == []
    deadline = time.monotonic() + SETTLE_SECONDS
    while objects(api) != before and time.monotonic() < deadline:
        time.sleep(0.5)
    after = objects(api)
    assert (after - before, before - after) == (set(), set())


@pytest.fixture(scope="module")
def somebodys(binaries: Binaries) -> Iterator[tuple[ClusterApi, Path, set[tuple[str, str, str]]]]:
    """A control plane without kwok, which is somebody's; its kubeconfig; and what is in it."""
    from rehearsal.control_plane.cluster import ControlPlane

    with ControlPlane(binaries, stages=[]) as running:
        running.api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "theirs"}})
        deadline = time.monotonic() + 20
        while ("ServiceAccount", "theirs", "default") not in objects(running.api) and time.monotonic() < deadline:
            time.sleep(0.2)
        time.sleep(1.0)  # the root certificate's ConfigMap follows
        yield running.api, running.kubeconfig, objects(running.api)
