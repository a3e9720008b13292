"""`fleet bench run` and `fleet bench fetch` as a user meets them: what is wrong is one sentence, and what is right is brought."""

from __future__ import annotations

import json
import re
import subprocess
import time
from pathlib import Path

import pytest

from fleet.cli.bench.run import _cannot_be_certified
from tests.fleet.bench.made_up.results import make_measurement
from tests.fleet.bench.run.kubelet import upload
from tests.fleet.bench.run.laptop import BENCHMARK, Laptop
from tests.fleet.cli.command import SMALL_STACK, fleet
from tests.fleet.clients.fake_google import FakeGoogle


def run(here: Laptop, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return fleet("bench", *arguments, cwd=here.root, **{**here.environment, **environment})


def refused(here: Laptop, *arguments: str, **environment: str) -> str:
    done = run(here, *arguments, **environment)
    assert done.returncode == 2, done.stdout
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith(("fleet: ", "Stack "))
    return done.stderr


def test_what_is_wrong_before_anything_is_asked(offline: Laptop) -> None:
    given = ("run", "--stack", "try", "--outputs", str(offline.outputs))
    assert "--concurrency 1,x" in refused(offline, *given, "--concurrency", "1,x")
    assert "benchmark.repeats: 99" in refused(offline, *given, "--repeats", "99")
    assert str(offline.outputs) in refused(offline, *given, "--out", str(offline.outputs / "runs"))
    assert not offline.asked.exists()  # the cluster was left alone


def test_a_run_without_a_certificate_in_reach_is_told_with_its_price() -> None:
    assert "--repeats 3" in _cannot_be_certified(2)
    assert _cannot_be_certified(3) == ""


@pytest.mark.slow
def test_outputs_are_needed(offline: Laptop, tmp_path: Path) -> None:
    assert "--stack is missing" in refused(offline, "run")
    assert "Pulumi.nope.yaml" in refused(offline, "run", "--stack", "nope")
    given = ("run", "--stack", "try")
    nowhere = run(offline, *given, "--kubeconfig", "none.yaml")
    assert nowhere.returncode == 2
    assert re.search(r"--kubeconfig.*none\.yaml", nowhere.stderr)
    assert "none.json" in refused(offline, *given, "--outputs", "none.json")
    # Programs of this machine are out of sight, pulumi among them if it has one.
    assert "pulumi" in refused(offline, *given, PATH=str(tmp_path / "empty"))
    offline.outputs.write_text("{}")
    assert "no outputs" in refused(offline, *given, "--outputs", str(offline.outputs))


@pytest.mark.slow
def test_kubectl_and_the_cluster_are_needed(offline: Laptop, tmp_path: Path) -> None:
    given = ("run", "--stack", "try", "--outputs", str(offline.outputs))
    assert "i/o timeout" in refused(offline, *given)
    assert "kubectl is not" in refused(offline, *given, PATH=str(tmp_path / "empty"))
    assert list(Path(offline.environment["TMPDIR"]).iterdir()) == []


@pytest.mark.slow
def test_a_stack_without_a_benchmark_or_with_other_settings_is_refused(offline: Laptop) -> None:
    given = ("run", "--stack", "try", "--outputs", str(offline.outputs))
    file = offline.root / "Pulumi.try.yaml"
    file.write_text(SMALL_STACK)
    said = refused(offline, *given)
    assert "benchmark.enabled" in said
    assert "Pulumi.try.yaml" in said
    file.write_text(SMALL_STACK.replace("serve-chat", "record") + BENCHMARK)
    said = refused(offline, *given)
    assert "serve-chat" in said
    assert "file record" in said
    file.write_text(SMALL_STACK + BENCHMARK)
    folder = offline.root / "mine"
    folder.mkdir()
    (folder / "run.json").write_text('{"name": "another"}')
    assert "(run.json)" in refused(offline, *given, "--out", "mine")


@pytest.fixture
def stored(google: FakeGoogle, tmp_path: Path) -> tuple[str, str]:
    """Two measurements of this stack and a newer one of another, in the bucket."""
    for name, stack in (("benchmark-1-aa", "try"), ("benchmark-2-bb", "try"), ("benchmark-3-cc", "other")):
        folder = make_measurement(tmp_path / name, name=name, repeats=3)
        asked = json.loads((folder / "run.json").read_text())
        (folder / "run.json").write_text(json.dumps({**asked, "stack": stack}))
        upload(google, folder, name)
        google.put(f"runs/{name}/.progress/pod.json", b"{}")
    google.put("runs/older-layout/client-000.json", b"{}")
    return "benchmark-1-aa", "benchmark-2-bb"


@pytest.mark.slow
def test_the_stacks_newest_measurement_is_fetched_and_judged(
    offline: Laptop, google: FakeGoogle, stored: tuple[str, str]
) -> None:
    given = ("--stack", "try", "--outputs", str(offline.outputs))
    done = run(offline, "fetch", "latest", *given)
    assert done.returncode == 1, done.stderr  # made up too short to be certified
    assert "Not certified" in done.stdout
    folder = offline.root / "out" / "runs" / stored[1]
    assert json.loads((folder / "run.json").read_text())["name"] == stored[1]
    assert (folder / "report.html").is_file()
    assert not (folder / ".progress").exists()
    assert not offline.asked.exists()  # no cluster is needed
    google.asked.clear()
    again = run(offline, "fetch", f"gs://results/runs/{stored[1]}/", *given)
    assert again.returncode == 1, again.stderr
    assert [line for line in google.asked if "alt=media" in line and ".progress" not in line] == []
    assert "still running" not in again.stdout
    progress = {"state": "running", "at": time.time(), "run": 2, "runs": 9, "runs_done": 1, "connections": 32}
    google.put(f"runs/{stored[1]}/.progress/pod.json", json.dumps(progress).encode())
    going = run(offline, "fetch", stored[1], *given).stdout
    assert re.search(rf"{stored[1]} .*still running \(running: run 2 of 9 ", going)
    into = refused(offline, "fetch", stored[0], *given, "--out", str(folder))
    assert f"measurement {stored[1]};" in into


@pytest.mark.slow
@pytest.mark.usefixtures("stored")
def test_a_measurement_that_is_not_there_is_told_with_those_that_are(offline: Laptop, google: FakeGoogle) -> None:
    given = ("--stack", "try", "--outputs", str(offline.outputs))
    said = refused(offline, "fetch", "benchmark-9", *given)
    assert "benchmark-9" in said
    assert "benchmark-3-cc, benchmark-2-bb, benchmark-1-aa" in said
    for name in [name for name in google.objects if "cc" not in name]:
        del google.objects[name]
    said = refused(offline, "fetch", "latest", *given)
    assert "stack try" in said
    assert "benchmark-3-cc" in said
    google.statuses = [403]
    assert "roles/storage.objectViewer" in refused(offline, "fetch", "latest", *given)
