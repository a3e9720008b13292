"""Shortages: the namespace's GPU quota, no capacity, a missing ComputeClass kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from facts.texts import plural
from lab.cloud.offers import COMPUTE_CLASS_KIND
from lab.control_plane.api import CUSTOM_RESOURCE_DEFINITION, NO_SUCH_KIND, REPLICA_SET, ApiRefusedError, Manifest
from lab.control_plane.custom_resources.install import install
from lab.drills.conditions import (
    all_of,
    needs_servers,
    needs_ways,
    one_server_only,
    writes_weights,
)
from lab.drills.drill import Drill, Proof

if TYPE_CHECKING:
    from lab.cloud.autoscaler_events import Trouble
    from lab.stage.stage import Stage
    from settings.stack import Settings

COMPUTE_CLASSES = "computeclasses.cloud.google.com"
HOLD_SECONDS = 120.0
"""Simulated time in which nothing must happen."""

Scarcity = Literal["spot_nodes", "flex_start_nodes", "on_demand_nodes"]
_OF_MODE: Mapping[str, Scarcity] = {
    "spot": "spot_nodes",
    "flex-start": "flex_start_nodes",
    "on-demand": "on_demand_nodes",
}
"""The stock that limits each capacity mode."""


def _from_stock(settings: Settings) -> str:
    return "" if settings.capacity.mode in _OF_MODE else "reserved capacity does not run out"


def _over_quota(stage: Stage, proof: Proof) -> None:
    servers, began = stage.settings.replicas, stage.clock.now_seconds()
    stage.scale(servers + 1)
    said = stage.until(
        "the refusal",
        lambda: _refused(stage),
        5 * HOLD_SECONDS,  # Kubernetes' controllers run in wall time, and are late on a busy machine.
        lambda: f"there are {stage.meter.servers.now} replicas, and none was refused",
    )
    stage.clock.sleep(HOLD_SECONDS)
    nodes, ready = stage.meter.gpu_nodes.highest(began), stage.meter.ready_servers.lowest(began)
    pods = stage.meter.servers.highest(began)
    proof.check(f"the GPU quota refuses replica {servers + 1}", pods <= servers, said)
    proof.check("no node is requested for it", nodes <= stage.machines_for(servers), f"{nodes} nodes")
    proof.check(f"the other {servers} stay Ready", ready == servers, f"at least {ready} Ready")
    stage.scale(servers)
    stage.until_ready(servers)


def _stock_out(stage: Stage, proof: Proof) -> None:
    """Scale to one replica more than the existing nodes hold, without capacity for another node; then add a node's capacity.

    A stack that allows only one replica is paused first, and that replica is the one without a node.
    """
    scarce = _OF_MODE[stage.settings.capacity.mode]
    before = 0 if one_server_only(stage.settings) else stage.settings.replicas
    if not before:
        stage.up({"server": {"replicas": 0}, "benchmark": {"enabled": False}})
        stage.until_empty()
    began = stage.clock.now_seconds()
    machines = stage.machines_for(before)
    servers = machines * stage.servers_a_machine
    setattr(stage.stock, scarce, machines)
    more = {"server": {"replicas": servers + 1}, "benchmark": {"enabled": False}}
    with stage.up_in_background(more) as running:
        stage.until_applying(running)
        pending = stage.until(
            "a pending replica",
            lambda: next((pod for pod in stage.pods() if stage.provisioner.why_pending(pod)), None),
            1500,
        )
        name = pending["metadata"]["name"]
        trouble = stage.until("the reason it is pending", lambda: _out_of_stock(stage, pending), 900)
        waited = stage.clock.now_seconds() - stage.updates.observed.began_seconds
        nodes, ready = stage.meter.gpu_nodes.highest(began), stage.meter.ready_servers.lowest(began)
        statement = f"replica {servers + 1} is within the namespace's quota, stays Pending and reports why"
        proof.check(statement, True, f"{trouble.message} {trouble.fix}")
        proof.check("no node is created", nodes <= machines, plural(nodes, "node"))
        proof.check(
            f"the other {before} stay Ready",
            ready == before,
            f"at least {ready} Ready",
            empty="" if before else "there is no other replica",
        )
        proof.figure("reason reported after", round(waited), "s")
        freed = stage.clock.now_seconds()
        setattr(stage.stock, scarce, machines + 1)
        done = stage.until_ready(servers + 1)
        report = running.result()
    after = round((done - freed) / 60)
    proof.check("it starts by itself once there is capacity", True, f"{name} Ready {after} min later")
    proof.succeeds("the waiting pulumi up succeeds", report)


def _out_of_stock(stage: Stage, pod: Manifest) -> Trouble | None:
    """Why the pod waits, if Google has no machine for it."""
    trouble = stage.provisioner.why_pending(pod)
    return trouble if trouble is not None and trouble.code == "scale.up.error.out.of.resources" else None


def _late_compute_class(stage: Stage, proof: Proof) -> None:
    definition = next(one for one in stage.around.definitions if one["metadata"]["name"] == COMPUTE_CLASSES)
    stage.api.delete(CUSTOM_RESOURCE_DEFINITION, COMPUTE_CLASSES)
    stage.until("ComputeClass to be unknown", lambda: not _serves_compute_classes(stage), 60)
    sections = {"capacity": {"mode": "compute-class"}, "server": {"replicas": 1}, "benchmark": {"enabled": False}}
    first = stage.up(sections)
    said = "; ".join(first.failed.values())
    proof.check(
        "the first pulumi up fails only at the ComputeClass and reports the missing kind",
        len(first.failed) == 1 and NO_SUCH_KIND in said,
        said or "no failure",
    )
    done = {urn.rpartition("::")[2] for urn in first.created}
    proof.check(
        "the weights are written by then",
        any(name.endswith("-image") for name in done),
        f"{len(done)} resources created",
    )
    proof.figure(
        "pulumi up gives up on the kind after", round((stage.clock.now_seconds() - first.began_seconds) / 60, 1), "min"
    )
    install(stage.api, [definition])
    second = stage.up(sections)
    proof.succeeds("a second pulumi up succeeds", second)
    if second.failed:
        return
    again = [urn for urn in (*second.created, *second.replaced) if "Weights$" in urn]
    proof.check("no weights resource is created again", not again, ", ".join(again) or "unchanged")
    stage.until_ready(1)


def _serves_compute_classes(stage: Stage) -> bool:
    try:
        return bool(stage.api.raw("GET", f"/apis/{COMPUTE_CLASS_KIND.api_version}").get("resources"))
    except ApiRefusedError:
        return False


def _refused(stage: Stage) -> str:
    """Message of a ReplicaSet that exceeds a quota; empty if none does.

    Read from its condition: Kubernetes drops events of one object after 25 (client-go, tools/record, EventSourceObjectSpamFilter).
    """
    for one in stage.api.list_all(REPLICA_SET, stage.namespace):
        for condition in one.get("status", {}).get("conditions", ()):
            if condition["type"] == "ReplicaFailure" and "exceeded quota" in condition["message"]:
                return str(condition["message"])
    return ""


DRILLS = (
    Drill(
        name="over-quota",
        title="One replica above the GPU quota",
        proves="the namespace's GPU quota refuses a replica too many before it costs anything",
        play=_over_quota,
        skip=needs_servers(),
    ),
    Drill(
        name="stock-out",
        title="Capacity runs out",
        proves="a replica without a node waits, reports why, and starts when there is capacity",
        play=_stock_out,
        skip=all_of(needs_servers(), _from_stock),
    ),
    Drill(
        name="late-compute-class",
        title="GKE installs the ComputeClass kind late",
        proves="pulumi up applies everything else, and the next one completes the stack",
        play=_late_compute_class,
        start="empty",
        skip=all_of(needs_servers(), writes_weights, needs_ways("flex-start", "compute-class")),
        fast=False,
    ),
)
