"""Drills on a real control plane: each holds for the stack as it is, and fails for a stack that is broken where it looks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from fleet.preview.offline import open_stack
from lab.drills import runner
from lab.drills.catalogue import chosen
from lab.stage.stage import Stage, Surroundings
from lab.stage.start import started
from lab.stage.variants import varied
from tests.lab.drills.mutation import Inputs, both, changed, retain, unlimited
from tests.lab.drills.played import (
    REPORTS,
    broken,
    errors,
    failure,
    failures,
    patient,
    played,
    restore,
    without_policies,
)

if TYPE_CHECKING:
    from lab.cloud.chart import Charts

    from lab.control_plane.build import Binaries

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[3]
SERVERS = 2
"""The dev stack with a second server: with one, a budget of two and an update one by one mean nothing."""
SPEED = 240.0
LAG_SECONDS = 8.0


@pytest.fixture(scope="module")
def around(binaries: Binaries, charts: Charts) -> Surroundings:
    """Programs, definitions and speed of every stage here."""
    from lab.control_plane.custom_resources.definitions import definitions

    found = tuple(definitions(charts.modules))
    return Surroundings(binaries=binaries, definitions=found, charts=charts, speed=SPEED)


@pytest.fixture(scope="module")
def running(around: Surroundings) -> Iterator[Stage]:
    """One stage for the module, brought up."""
    opened = varied(open_stack(ROOT, "dev"), {"server": {"replicas": SERVERS}})
    with without_policies(LAG_SECONDS), started(opened, around) as stage:
        with patient():
            stage.bring_up()
        yield stage


@pytest.fixture
def stage(running: Stage) -> Stage:
    """The stage, set right as a runner does between two drills."""
    restore(running)
    return running


def holds(stage: Stage, name: str) -> None:
    with patient():
        result = played(stage, name)
    assert result.passed, (result.gave_up, failures(result), result.findings)
    assert result.checks


def edited(change: str) -> Any:
    """The server's Deployment with one thing changed in its spec."""

    def surge(inputs: Inputs) -> None:
        inputs["spec"]["strategy"]["rollingUpdate"] = {"maxSurge": 1, "maxUnavailable": 0}

    def grace(inputs: Inputs) -> None:
        inputs["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 900

    def privileged(inputs: Inputs) -> None:
        inputs["spec"]["template"]["spec"]["containers"][0]["securityContext"] = {"privileged": True}

    return changed("Deployment", {"surge": surge, "grace": grace, "privileged": privileged}[change])


# The stack as it is: what no rehearsal of CI plays, and what one server cannot show


@pytest.mark.parametrize(
    "name",
    [
        "over-quota",
        "drain",
        "rolling-update",
        "to-zero",
    ],
)
def test_the_sample_stack_holds(stage: Stage, name: str) -> None:
    holds(stage, name)


# Broken stacks


def test_a_program_that_is_never_the_same_twice_fails_second_up(stage: Stage) -> None:
    def stamped(inputs: Inputs) -> None:
        inputs["data"] = {**inputs["data"], "at": str(stage.clock.now_seconds())}

    with broken(changed("ConfigMap", stamped)):
        result = played(stage, "second-up")
    assert list(failures(result).values()) == ["ConfigMap/weights-download"]


def test_a_privileged_container_is_refused_as_autopilot_does_and_the_drill_says_so(stage: Stage) -> None:
    with broken(edited("privileged")):
        result = played(stage, "second-up")
    refused = failure(result, "pulumi up succeeds")
    assert refused.startswith("Deployment vllm-dev/qwen35-server: ")
    assert "privileged" in refused
    (finding,) = errors(REPORTS[-1].findings)
    assert "securityContext.privileged" in finding.write


def test_without_a_quota_a_server_too_many_is_caught(stage: Stage) -> None:
    with broken(changed("ResourceQuota", unlimited)):
        stage.up()
        result = played(stage, "over-quota")
    assert not result.passed
    assert "the refusal" in result.gave_up
    restore(stage)
    holds(stage, "over-quota")


def test_a_budget_of_two_fails_the_drain(stage: Stage) -> None:
    def two(inputs: Inputs) -> None:
        inputs["spec"]["maxUnavailable"] = 2

    with broken(changed("PodDisruptionBudget", two)):
        stage.up()
        result = played(stage, "drain")
    assert failure(result, "disruption budget") == "disruptionsAllowed was 2"
    assert failure(result, "second eviction")
    assert f"0 of {SERVERS}" in failure(result, "never more")


def test_a_quota_that_stays_behind_the_replicas_fails_the_stock_out(stage: Stage) -> None:
    def pinned(inputs: Inputs) -> None:
        hard = inputs["spec"]["hard"]
        hard["requests.nvidia.com/gpu"] = "16"
        hard["count/pods"] = "1000"

    with broken(changed("ResourceQuota", pinned)):
        result = played(stage, "stock-out")
    assert "a pending replica" in result.gave_up


def test_a_surge_pays_for_machines_too_many_and_an_extended_duration_is_warned_of(stage: Stage) -> None:
    with broken(changed("ResourceQuota", unlimited)):
        stage.up()  # apart: Pulumi deletes at the end, and until then the quota would refuse the surge
    with broken(both(changed("ResourceQuota", unlimited), edited("surge"), edited("grace"))):
        result = played(stage, "rolling-update")
    # The second surge pod starts while the first pod that it replaces still drains: two machines too many.
    assert failure(result, f"{8 * SERVERS} GPUs").endswith(str(8 * SERVERS + 16))
    (warned,) = REPORTS[-1].findings
    assert warned.severity == "warning"
    assert warned.found.startswith("terminationGracePeriodSeconds 900 ")
    assert "600" in warned.found


def test_servers_that_outlive_the_stack_fail_destroy(running: Stage) -> None:
    restore(running)
    retain(running.updates.pulumi, running.stack, "Deployment")
    # How long the drill waits for machines that never go; nobody uses this stage afterwards.
    timings = replace(running.timings, scale_down_seconds=60.0)
    result = played(replace(running, timings=timings), "destroy")
    assert failure(result, "replica remains")
    assert "every GPU node to go" in result.gave_up


def test_a_server_that_downloads_more_than_it_may_write_never_comes_up_and_each_drill_says_so(
    around: Surroundings,
) -> None:
    def small(inputs: Inputs) -> None:
        amounts = inputs["spec"]["template"]["spec"]["containers"][0]["resources"]
        for part in ("requests", "limits"):
            amounts[part]["ephemeral-storage"] = "20Gi"

    opened = varied(open_stack(ROOT, "dev"), {"weights": {"source": "huggingface"}})
    with without_policies(LAG_SECONDS), broken(changed("Deployment", small)):
        first, second = runner.Runner(opened, around).play(chosen(["bring-up", "over-quota"]))
    assert first.gave_up == second.gave_up != ""
    assert second.findings == ()
    assert not first.passed
    assert not second.passed
    (finding,) = errors(first.findings)
    assert finding.subject.endswith("::server-deployment")
    assert "storage usage exceeds the total limit of containers 20Gi" in finding.found


# Servers that share a machine


@pytest.fixture(scope="module")
def sharing(around: Surroundings) -> Iterator[Stage]:
    """Two servers with one GPU each on a machine with two, on demand, brought up."""
    engine = {"maxNumSeqs": 64, "speculative": None}
    server = {"profile": "serve-chat", "replicas": 2, "gpus": 1, "engine": engine}
    machine = {"machine": "g2-standard-24", "capacity": {"mode": "on-demand"}, "model": {"id": "Qwen/Qwen3.5-4B"}}
    opened = varied(open_stack(ROOT, "dev"), {**machine, "server": server})
    with without_policies(LAG_SECONDS), started(opened, around) as stage:
        with patient():
            stage.bring_up()
        yield stage


@pytest.mark.parametrize("name", ["bring-up", "drain", "stock-out"])
def test_servers_that_share_a_machine_hold(sharing: Stage, name: str) -> None:
    restore(sharing)
    holds(sharing, name)


def test_three_gpus_are_refused_as_autopilot_does(sharing: Stage) -> None:
    def three(inputs: Inputs) -> None:
        amounts = inputs["spec"]["template"]["spec"]["containers"][0]["resources"]
        for part in ("requests", "limits"):
            amounts[part]["nvidia.com/gpu"] = "3"

    restore(sharing)
    with broken(changed("Deployment", three)):
        result = played(sharing, "second-up")
    assert "3 GPUs of nvidia-l4 are not allowed: a pod may request 1, 2, 4, 8" in failure(result, "pulumi up succeeds")


def test_without_the_number_of_gpus_each_server_gets_a_machine_of_its_own_and_bring_up_says_so(
    sharing: Stage,
) -> None:
    def unshared(inputs: Inputs) -> None:
        del inputs["spec"]["template"]["spec"]["nodeSelector"]["cloud.google.com/gke-accelerator-count"]

    restore(sharing)
    with broken(changed("Deployment", unshared)):
        sharing.up({"server": {"replicas": 0}})
        sharing.until("every machine to go", lambda: sharing.meter.gpu_nodes.now == 0, 3600)
        sharing.up()
        sharing.until_ready(2)
        result = played(sharing, "bring-up")
    assert failure(result, "2 replicas on 1 node").startswith("2 replicas, 2 nodes")
    assert failure(result, "machine type, g2-standard-24") == "g2-standard-12"


def test_a_kind_that_comes_late_costs_a_second_pulumi_up_and_no_download(around: Surroundings) -> None:
    (result,) = runner.Runner(open_stack(ROOT, "dev"), around).play(chosen(["late-compute-class"]))
    assert failures(result) == {}
    assert result.passed
