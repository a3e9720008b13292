"""A launch that does not come to its end leaves no Job behind, whatever kept it from it."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from fleet.bench.errors import BenchmarkError
from fleet.bench.run.launch import Launched, launch
from fleet.bench.run.wanted import Changes, settings_for
from fleet.clients import stack_outputs
from fleet.clients.errors import LiveError
from fleet.clients.kubectl import Kubectl
from tests.fleet.bench.run.laptop import BENCHMARK
from tests.fleet.cli.command import SMALL_STACK, project
from tests.fleet.clients.programs import stand_in
from tests.fleet.clients.test_stack_outputs import outputs

# A cluster in files: `create` keeps objects, `get jobs` lists them, `delete jobs` removes those with a label.
CLUSTER = """
import json, os, pathlib, signal, sys, time
folder = pathlib.Path(__file__).parent
words = [word for word in sys.argv[1:] if not word.startswith("--")]
def trouble(of):
    file = folder / f"trouble-{of}"
    if file.exists():
        sys.exit(file.read_text())
if words[0] == "create":
    made = json.load(sys.stdin)
    kind = made["kind"]
    if kind == "Job":
        trouble("before")
    made["metadata"] |= {"uid": "mine" if kind == "Job" else "c", "creationTimestamp": "2026-01-01T00:00:00Z"}
    (folder / "objects" / f"{kind}-mine.json").write_text(json.dumps(made))
    if kind == "Job":
        if (folder / "interrupt").exists():
            os.kill(os.getppid(), signal.SIGINT)
            time.sleep(60)
        trouble("after")
    else:
        trouble("config")
    print(json.dumps(made))
elif words[0] == "get":
    print(json.dumps({"items": [json.loads(one.read_text()) for one in (folder / "objects").glob("Job-*.json")]}))
elif words[0] == "delete":
    trouble("delete")
    (key, value), = [word.partition("=")[2].split("=") for word in sys.argv if word.startswith("--selector=")]
    for file in (folder / "objects").glob("Job-*.json"):
        if json.loads(file.read_text())["metadata"]["labels"].get(key) == value:
            file.unlink()
"""
GONE = "Unable to connect to the server: dial tcp: i/o timeout"


class Cluster:
    """The stand-in's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kubectl = Kubectl(namespace="vllm", program=str(stand_in(folder, "kubectl", CLUSTER)))
        (folder / "objects").mkdir()
        self.settings = settings_for(project(folder / "project", **{"try": SMALL_STACK + BENCHMARK}), "try", Changes())

    def trouble(self, of: str, says: str) -> None:
        (self.folder / f"trouble-{of}").write_text(says)

    def launch(self) -> Launched:
        return launch(self.kubectl, self.settings, stack_outputs.accept("try", outputs(), "here"))

    @property
    def jobs(self) -> list[str]:
        return sorted(path.stem for path in (self.folder / "objects").glob("Job-*.json"))


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path)


def somebody_elses(**status: Any) -> str:
    meta = {"name": "benchmark-theirs", "uid": "theirs", "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {}}
    return json.dumps({"metadata": meta, "status": status})


@pytest.mark.slow
def test_a_launch_leaves_job_and_config_map(cluster: Cluster) -> None:
    assert cluster.launch().uid == "mine"
    assert cluster.jobs == ["Job-mine"]
    assert (cluster.folder / "objects" / "ConfigMap-mine.json").is_file()


def test_a_job_whose_answer_was_lost_is_removed(cluster: Cluster) -> None:
    cluster.trouble("after", GONE)
    with pytest.raises(LiveError) as caught:
        cluster.launch()
    assert caught.value.reason == "unreachable"
    assert cluster.jobs == []


def test_ctrl_c_while_the_job_is_made_removes_it(cluster: Cluster) -> None:
    (cluster.folder / "interrupt").touch()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with pytest.raises(KeyboardInterrupt):
        cluster.launch()
    assert cluster.jobs == []


@pytest.mark.slow
def test_a_job_without_its_config_map_is_removed_or_told(cluster: Cluster) -> None:
    refusal = 'Error from server (Forbidden): configmaps is forbidden: User "me" cannot create resource "configmaps" in API group ""'
    cluster.trouble("config", refusal)
    with pytest.raises(LiveError, match='cannot create resource "configmaps"'):
        cluster.launch()
    assert cluster.jobs == []
    cluster.trouble("delete", GONE)
    with pytest.raises(LiveError) as caught:
        cluster.launch()
    assert 'cannot create resource "configmaps"' in str(caught.value)
    label = json.loads((cluster.folder / "objects" / "Job-mine.json").read_text())["metadata"]["labels"]
    assert f"kubectl --namespace vllm delete jobs --selector vllm-fleet/launch={label['vllm-fleet/launch']}" in str(
        caught.value
    )


def test_somebody_elses_job_of_the_same_name_is_left_alone(cluster: Cluster) -> None:
    (cluster.folder / "objects" / "Job-theirs.json").write_text(somebody_elses())
    cluster.trouble("before", 'Error from server (AlreadyExists): jobs.batch "benchmark-x" already exists')
    cluster.trouble("delete", "nobody shall ask for it")
    with pytest.raises(LiveError, match="already exists"):
        cluster.launch()
    assert cluster.jobs == ["Job-theirs"]


def test_of_two_who_ask_at_the_same_moment_not_both_measure(cluster: Cluster) -> None:
    file = cluster.folder / "objects" / "Job-theirs.json"
    file.write_text(somebody_elses())
    with pytest.raises(BenchmarkError, match="benchmark benchmark-theirs "):
        cluster.launch()
    assert cluster.jobs == ["Job-theirs"]
    file.write_text(somebody_elses(conditions=[{"type": "Complete", "status": "True"}]))
    cluster.launch()
    assert cluster.jobs == ["Job-mine", "Job-theirs"]
