"""A launch that does not come to its end leaves no Job behind, whatever kept it from it."""

from __future__ import annotations

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
from tests.fleet.clients.cluster_in_files import ClusterInFiles
from tests.fleet.clients.test_stack_outputs import outputs
from workloads import names

THEIRS = "benchmark-theirs"
GONE = "Unable to connect to the server: dial tcp: i/o timeout"


class Cluster(ClusterInFiles):
    """Where a benchmark is launched."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.settings = settings_for(project(folder / "project", **{"try": SMALL_STACK + BENCHMARK}), "try", Changes())

    def launch(self) -> Launched:
        kubectl = Kubectl(namespace="vllm", program=str(self.program))
        return launch(kubectl, self.settings, stack_outputs.accept("try", outputs(), "here"))

    @property
    def whose(self) -> list[str]:
        """Of the Jobs that are there."""
        names = [job["metadata"]["name"] for job in self.objects("job")]
        return sorted("theirs" if name == THEIRS else "mine" for name in names)

    def keep_theirs(self, **status: Any) -> None:
        """Somebody else's benchmark."""
        meta = {"name": THEIRS, "uid": "theirs", "creationTimestamp": "2026-01-01T00:00:00Z"}
        self.keep("job", {"metadata": {**meta, "labels": names.selector(names.BENCHMARK_APP)}, "status": status})


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path / "cluster")


@pytest.mark.slow
def test_a_launch_leaves_job_and_config_map(cluster: Cluster) -> None:
    assert cluster.launch().uid == cluster.job()["metadata"]["uid"]
    assert len(cluster.objects("configmap")) == 1


def test_a_job_whose_answer_was_lost_is_removed(cluster: Cluster) -> None:
    cluster.trouble("created job", GONE)
    with pytest.raises(LiveError) as caught:
        cluster.launch()
    assert caught.value.reason == "unreachable"
    assert cluster.whose == []


def test_ctrl_c_while_the_job_is_made_removes_it(cluster: Cluster) -> None:
    (cluster.cluster / "interrupt").touch()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with pytest.raises(KeyboardInterrupt):
        cluster.launch()
    assert cluster.whose == []


@pytest.mark.slow
@pytest.mark.parametrize("deleted", [True, False])
def test_a_job_without_its_config_map_is_removed_or_told(cluster: Cluster, deleted: bool) -> None:
    refusal = 'Error from server (Forbidden): configmaps is forbidden: User "me" cannot create resource "configmaps" in API group ""'
    cluster.trouble("created configmap", refusal)
    if not deleted:
        cluster.trouble("delete", GONE)
    with pytest.raises(LiveError, match='cannot create resource "configmaps"') as caught:
        cluster.launch()
    if deleted:
        assert cluster.whose == []
        return
    launch = cluster.job()["metadata"]["labels"]["vllm-fleet/launch"]
    assert f"kubectl --namespace vllm delete jobs --selector vllm-fleet/launch={launch}" in str(caught.value)


def test_somebody_elses_job_of_the_same_name_is_left_alone(cluster: Cluster) -> None:
    cluster.keep_theirs()
    cluster.trouble("create", 'Error from server (AlreadyExists): jobs.batch "benchmark-x" already exists')
    cluster.trouble("delete", "nobody shall ask for it")
    with pytest.raises(LiveError, match="already exists"):
        cluster.launch()
    assert cluster.whose == ["theirs"]


def test_of_two_who_ask_at_the_same_moment_not_both_measure(cluster: Cluster) -> None:
    cluster.keep_theirs()
    with pytest.raises(BenchmarkError, match="benchmark benchmark-theirs "):
        cluster.launch()
    assert cluster.whose == ["theirs"]
    cluster.keep_theirs(conditions=[{"type": "Complete", "status": "True"}])
    cluster.launch()
    assert cluster.whose == ["mine", "theirs"]
