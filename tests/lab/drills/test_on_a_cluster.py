"""Drills on a real control plane with the real Kubernetes provider: each holds for the stack as it is, and fails for a broken one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fleet.preview.offline import open_stack
from lab.control_plane.api import PERSISTENT_VOLUME
from lab.drills.disruption import OTHER_REVISION
from lab.stage.stage import Stage
from lab.stage.start import started
from lab.stage.variants import varied
from tests.lab.drills.mutation import PRIVILEGED, STAMPED, UNLIMITED, broken, retain
from tests.lab.drills.played import failure, failures, impatient, played, without_policies

if TYPE_CHECKING:
    from lab.stage.stage import Surroundings

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[3]
SERVERS = 2
"""The dev stack with a second server: with one, a budget of two and an update one by one mean nothing."""


@pytest.fixture(scope="module")
def running(around: Surroundings) -> Iterator[Stage]:
    """One stage for the module, brought up."""
    opened = varied(open_stack(ROOT, "dev"), {"server": {"replicas": SERVERS}})
    with without_policies(), started(opened, around) as stage:
        stage.bring_up()
        yield stage


@pytest.fixture
def stage(running: Stage) -> Stage:
    """The stage, set right as a runner does between two drills."""
    running.restore()
    return running


@pytest.fixture
def empty(around: Surroundings) -> Iterator[Stage]:
    """A stage that has not been applied yet."""
    with without_policies(), started(open_stack(ROOT, "dev"), around) as stage:
        yield stage


# The stack as it is: what no rehearsal of CI plays, and what one server cannot show


@pytest.mark.parametrize("name", ["over-quota", "drain", "rolling-update", "to-zero"])
def test_the_sample_stack_holds(stage: Stage, name: str) -> None:
    result = played(stage, name)
    assert result.passed, (result.gave_up, failures(result), result.findings)
    assert result.checks


# Broken stacks


def test_a_program_that_is_never_the_same_twice_fails_second_up(stage: Stage) -> None:
    with broken(stage, STAMPED):
        result = played(stage, "second-up")
    assert "ConfigMap/" in failure(result, "changes nothing")


def test_a_privileged_container_is_refused_as_autopilot_does_and_the_drill_says_so(stage: Stage) -> None:
    with broken(stage, PRIVILEGED):
        result = played(stage, "rolling-update")
    assert "privileged" in failure(result, "pulumi up")
    assert failure(result, "every replica is new") == "0 new"


def test_servers_in_another_zone_fail_bring_up(stage: Stage) -> None:
    elsewhere = """
if kind == "Deployment":
    pod = props["spec"]["template"]["spec"]
    pod["nodeSelector"] = {**pod["nodeSelector"], "topology.kubernetes.io/zone": "us-central1-c"}
    return True
"""
    with broken(stage, elsewhere):
        assert not stage.up().failed
        stage.until_ready(SERVERS)
        result = played(stage, "bring-up")
    assert "us-central1-c" in failure(result, "zones")


def test_an_update_to_another_revision_that_fails_half_way_can_be_taken_back(stage: Stage) -> None:
    served = stage.settings.serving.model
    other = {"model": {"id": served.id, "revision": OTHER_REVISION, "sizeGb": served.size_gb}}
    volumes = {volume["metadata"]["name"] for volume in stage.api.list_all(PERSISTENT_VOLUME)}
    with broken(stage, PRIVILEGED):
        failed = stage.up(other)
    assert [urn.rpartition("::")[2] for urn in failed.failed] == ["server-deployment"]
    back = stage.up()
    assert back.failed == {}
    assert not [urn for urn in (*back.created, *back.replaced) if "Weights$" in urn]
    assert {volume["metadata"]["name"] for volume in stage.api.list_all(PERSISTENT_VOLUME)} == volumes
    again = stage.up()
    assert not again.changed


def test_without_a_quota_a_server_too_many_is_caught(stage: Stage) -> None:
    with broken(stage, UNLIMITED), impatient():
        stage.up()
        result = played(stage, "over-quota")
    assert "the refusal" in result.gave_up


def test_a_budget_of_two_fails_the_drain(stage: Stage) -> None:
    two = """
if kind == "PodDisruptionBudget":
    props["spec"]["maxUnavailable"] = 2
    return True
"""
    with broken(stage, two):
        stage.up()
        result = played(stage, "drain")
    assert failure(result, "disruption budget") == "disruptionsAllowed was 2"
    assert failure(result, "second eviction")
    assert f"0 of {SERVERS}" in failure(result, "never more")


def test_a_quota_that_stays_behind_the_replicas_fails_the_stock_out(stage: Stage) -> None:
    pinned = """
if kind == "ResourceQuota":
    props["spec"]["hard"]["requests.nvidia.com/gpu"] = "16"
    return True
"""
    with broken(stage, pinned), impatient():
        result = played(stage, "stock-out")
    assert "a pending replica" in result.gave_up


def test_a_surge_pays_for_machines_too_many(stage: Stage) -> None:
    surge = """
if kind == "Deployment":
    props["spec"]["strategy"]["rollingUpdate"] = {"maxSurge": 1, "maxUnavailable": 0}
    return True
"""
    with broken(stage, UNLIMITED):
        stage.up()  # apart: Pulumi deletes at the end, and until then the quota would refuse the surge
    with broken(stage, UNLIMITED, surge):
        result = played(stage, "rolling-update")
    assert failure(result, "GPUs at the same time")


def test_a_program_that_holds_its_replicas_fails_pause(stage: Stage) -> None:
    held = """
if kind == "Deployment":
    props["spec"]["replicas"] = 2
    return True
"""
    with broken(stage, held), impatient():
        result = played(stage, "pause")
    assert "every replica to go" in result.gave_up


def test_a_program_that_writes_its_replicas_each_time_fails_to_zero(stage: Stage) -> None:
    written = """
if kind == "Deployment":
    metadata = props["metadata"]
    props["metadata"] = {**metadata, "annotations": {**(metadata.get("annotations") or {}), "at": str(time.time())}}
    props["spec"]["replicas"] = 2
    opts.ignore_changes = []
    return True
"""
    with broken(stage, written), impatient():
        result = played(stage, "to-zero")
    assert result.gave_up or failures(result)


def test_servers_that_outlive_the_stack_fail_destroy(running: Stage) -> None:
    running.restore()
    # With what holds them: the provider waits ten minutes for a claim that a pod uses.
    retain(running.updates.pulumi, running.stack, "Deployment", "PersistentVolumeClaim", "Namespace")
    with impatient():  # nobody uses this stage afterwards
        result = played(running, "destroy")
    assert failure(result, "replica remains")
    assert "every GPU node to go" in result.gave_up


# Stages of their own


@pytest.mark.parametrize("drill", ["killed-up", "restarted-api-server"])
def test_a_program_that_is_never_the_same_twice_never_recovers(empty: Stage, drill: str) -> None:
    with broken(empty, STAMPED):
        result = played(empty, drill)
    assert failure(result, "another pulumi up changes nothing")


@pytest.mark.parametrize("drill", ["killed-up", "late-compute-class"])
def test_what_an_empty_cluster_shows_holds(empty: Stage, drill: str) -> None:
    result = played(empty, drill)
    assert result.passed, (result.gave_up, failures(result))


def test_another_fault_than_the_late_kind_fails_the_drill(empty: Stage) -> None:
    wrong = """
if kind == "NetworkPolicy":
    props["spec"]["policyTypes"] = ["Sideways"]
    return True
"""
    with broken(empty, wrong):
        result = played(empty, "late-compute-class")
    assert "Sideways" in failure(result, "fails only at the ComputeClass")


def test_a_quota_below_the_replicas_leaves_a_preempted_fleet_incomplete(around: Surroundings) -> None:
    short = """
if kind == "ResourceQuota":
    props["spec"]["hard"]["requests.nvidia.com/gpu"] = "1"
    return True
"""
    opened = varied(open_stack(ROOT, "spot"), {"server": {"replicas": 4}})
    with without_policies(), started(opened, around) as stage:
        stage.bring_up()
        whole = played(stage, "preempt-four")
        assert whole.passed, (whole.gave_up, failures(whole))
        stage.restore()
        with broken(stage, short), impatient():
            stage.up()
            result = played(stage, "preempt-four")
    assert "Ready replicas" in result.gave_up


# Servers that share a machine


@pytest.fixture(scope="module")
def sharing(around: Surroundings) -> Iterator[Stage]:
    """Two servers with one GPU each on a machine with two, on demand, brought up."""
    engine = {"maxNumSeqs": 64, "speculative": None}
    server = {"profile": "serve-chat", "replicas": 2, "gpus": 1, "engine": engine}
    machine = {"machine": "g2-standard-24", "capacity": {"mode": "on-demand"}, "model": {"id": "Qwen/Qwen3.5-4B"}}
    opened = varied(open_stack(ROOT, "dev"), {**machine, "server": server})
    with without_policies(), started(opened, around) as stage:
        stage.bring_up()
        yield stage


@pytest.mark.parametrize("name", ["bring-up", "stock-out"])
def test_servers_that_share_a_machine_hold(sharing: Stage, name: str) -> None:
    sharing.restore()
    result = played(sharing, name)
    assert result.passed, (result.gave_up, failures(result))


def test_three_gpus_are_refused_as_autopilot_does(sharing: Stage) -> None:
    three = """
if kind == "Deployment":
    amounts = props["spec"]["template"]["spec"]["containers"][0]["resources"]
    for part in ("requests", "limits"):
        amounts[part]["nvidia.com/gpu"] = "3"
    return True
"""
    sharing.restore()
    with broken(sharing, three):
        result = played(sharing, "second-up")
    assert "3 GPUs of nvidia-l4 are not allowed: a pod may request 1, 2, 4, 8" in failure(result, "pulumi up succeeds")
