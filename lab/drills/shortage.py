"""Shortages: the namespace's GPU quota, no capacity, a missing ComputeClass kind."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from facts.texts import plural
from lab.control_plane.api import CUSTOM_RESOURCE_DEFINITION, REPLICA_SET, ApiRefusedError, Manifest
from lab.control_plane.custom_resources.install import install
from lab.drills.conditions import (
    all_of,
    needs_servers,
    needs_ways,
    one_server_only,
    writes_weights,
)
from lab.drills.drill import Drill, Proof
from lab.nodes.pods import is_stuck

if TYPE_CHECKING:
    from lab.stage.stage import Stage
    from settings.stack import Settings

COMPUTE_CLASSES: Final = "computeclasses.cloud.google.com"
COMPUTE_CLASS_GROUP: Final = "/apis/cloud.google.com/v1"
HOLD_SECONDS: Final = 3.0
"""Time in which nothing must happen. The node maker looks five times a second."""
BOUGHT: Final = frozenset({"spot", "flex-start", "on-demand"})
"""Capacity modes whose machines Google may not have."""


def _from_stock(settings: Settings) -> str:
    return "" if settings.capacity.mode in BOUGHT else "reserved capacity does not run out"


def _over_quota(stage: Stage, proof: Proof) -> None:
    servers, began = stage.settings.replicas, time.monotonic()
    stage.scale(servers + 1)
    said = stage.until(
        "the refusal",
        lambda: _refused(stage),
        why=lambda: f"there are {stage.meter.servers.now} replicas, and none was refused",
    )
    time.sleep(HOLD_SECONDS)
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
    before = 0 if one_server_only(stage.settings) else stage.settings.replicas
    if not before:
        stage.up({"server": {"replicas": 0}, "benchmark": {"enabled": False}})
        stage.until_empty()
    began = time.monotonic()
    machines = stage.machines_for(before)
    servers = machines * stage.servers_a_machine
    stage.maker.gpu_nodes = machines
    more = {"server": {"replicas": servers + 1}, "benchmark": {"enabled": False}}
    with stage.up_in_background(more) as running:
        stage.until_applying(running)
        pending = stage.until(
            "a pending replica",
            lambda: next((pod for pod in stage.pods() if is_stuck(pod)), None),
            why=lambda: f"there are {stage.meter.servers.now} replicas",
        )
        name = pending["metadata"]["name"]
        time.sleep(HOLD_SECONDS)
        nodes, ready = stage.meter.gpu_nodes.highest(began), stage.meter.ready_servers.lowest(began)
        statement = (
            f"replica {servers + 1} is within the namespace's quota, and stays Pending with the scheduler's reason"
        )
        proof.check(statement, any(is_stuck(pod) for pod in stage.pods()), _why_stuck(pending))
        proof.check("no node is created", nodes <= machines, plural(nodes, "node"))
        proof.check(
            f"the other {before} stay Ready",
            ready == before,
            f"at least {ready} Ready",
            empty="" if before else "there is no other replica",
        )
        proof.check("pulumi up waits for it", not running.done(), "it has ended" if running.done() else "it waits")
        stage.maker.gpu_nodes = machines + 1
        stage.until_ready(servers + 1)
        report = running.result()
    proof.check("it starts by itself once there is capacity", True, f"{name} is Ready")
    proof.succeeds("the waiting pulumi up succeeds", report)


def _why_stuck(pod: Manifest) -> str:
    return next(str(one["message"]) for one in pod["status"]["conditions"] if one["type"] == "PodScheduled")


def _late_compute_class(stage: Stage, proof: Proof) -> None:
    definition = next(one for one in stage.around.definitions if one["metadata"]["name"] == COMPUTE_CLASSES)
    stage.api.delete(CUSTOM_RESOURCE_DEFINITION, COMPUTE_CLASSES)
    stage.until("ComputeClass to be unknown", lambda: not _serves_compute_classes(stage))
    sections = {"capacity": {"mode": "compute-class"}, "server": {"replicas": 1}, "benchmark": {"enabled": False}}
    first = stage.up(sections)
    said = "; ".join(first.failed.values())
    proof.check(
        "the first pulumi up fails only at the ComputeClass and reports the missing kind",
        len(first.failed) == 1 and all("ComputeClass" in urn for urn in first.failed),
        said or "no failure",
    )
    done = {urn.rpartition("::")[2] for urn in first.created}
    proof.check(
        "the weights are written by then",
        any(name.endswith("-image") for name in done),
        f"{len(done)} resources created",
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
        return bool(stage.api.raw("GET", COMPUTE_CLASS_GROUP).get("resources"))
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
    ),
)
