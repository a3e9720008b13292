"""More and fewer servers: paused and resumed, to zero and back by an autoscaler, 1000 of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from facts.disks import MAX_MIBPS_PER_GIB, throughput_for_readers_mibps
from fleet.rehearse.drills.conditions import all_of, needs_servers, one_server_only, owns_platform
from fleet.rehearse.drills.drill import Drill, Proof
from fleet.rehearse.report.model import Phase, Scale
from fleet.report.words import plural

if TYPE_CHECKING:
    from fleet.rehearse.stage import Stage

GOAL_SECONDS = {128: 30.0, 1000: 120.0}
"""Wall seconds on two cores, control plane included. Measured: scheduler and kwok alone take 12 s and 54 s of it."""
SCALE_SPEED = 1200.0
"""A clock for measuring Kubernetes and not Google: at this speed the simulated waits of a bring-up are a second or two."""


def _pause(stage: Stage, proof: Proof) -> None:
    servers, began = stage.settings.replicas, stage.clock.now_seconds()
    volumes = _disks_and_images(stage)
    report = stage.up(stage.record({"server": {"replicas": 0}, "benchmark": {"enabled": False}}))
    proof.check("pulumi up to zero ends well", not report.failed, "; ".join(report.failed.values()) or "no failure")
    stage.until("every server to go", lambda: stage.meter.servers.now == 0, 1800)
    empty = stage.until(
        "every GPU machine to go",
        lambda: stage.clock.now_seconds() if stage.meter.gpu_nodes.now == 0 else None,
        4 * stage.timings.scale_down_seconds,
    )
    kept = _disks_and_images(stage)
    proof.check("the weights stay", volumes <= kept, f"{len(kept)} disks and images")
    resumed_at = stage.clock.now_seconds()
    report = stage.up()
    stage.until_ready(servers)
    back = stage.meter.ready_servers.first_at(servers, resumed_at) or stage.clock.now_seconds()
    proof.check("pulumi up resumes", not report.failed, "; ".join(report.failed.values()) or "no failure")
    proof.check(
        "no weights are downloaded again",
        stage.writer.attempts_since(began) == 0,
        f"{stage.writer.attempts_since(began)} downloads",
    )
    proof.figure(
        "GPUs paid for after the pause", round((empty - began) / 60, 1), "min", "until the last machine is gone"
    )
    proof.figure("Ready again after", round((back - resumed_at) / 60, 1), "min")


def _disks_and_images(stage: Stage) -> set[str]:
    return {one["metadata"]["uid"] for mirror in (stage.world.volumes, stage.world.snapshots) for one in mirror.all()}


def _to_zero_and_back(stage: Stage, proof: Proof) -> None:
    servers = stage.settings.replicas
    external = stage.record({"server": {"replicas": "external"}, "benchmark": {"enabled": False}})
    report = stage.up(external)
    proof.check("the number is handed over", not report.failed, "; ".join(report.failed.values()) or "no failure")
    stage.scale(0)
    stage.until("every GPU machine to go", lambda: stage.meter.gpu_nodes.now == 0, 4 * stage.timings.scale_down_seconds)
    stage.up(external)
    proof.check("pulumi up leaves zero at zero", stage.meter.servers.now == 0, f"{stage.meter.servers.now} servers")
    began = stage.clock.now_seconds()
    stage.scale(1)
    first = stage.until_ready(1)
    proof.figure(
        "first server from zero", round((first - began) / 60, 1), "min", "what a request waits that finds nobody"
    )
    stage.up(external)
    proof.check("pulumi up leaves one at one", stage.meter.servers.now == 1, f"{stage.meter.servers.now} servers")
    # First the number, then Pulumi: a field that two managers want at different values is a conflict, equal values are not.
    stage.scale(servers)
    report = stage.up()
    stage.until_ready(servers)
    failed = "; ".join(report.failed.values())
    proof.check("scaled first, the number can be handed back", not failed, failed or "no conflict")
    proof.check(f"handed back, there are {servers} again", True, f"{stage.meter.ready_servers.now} Ready")


def _scale(servers: int, stage: Stage, proof: Proof) -> None:
    readers = max(throughput_for_readers_mibps(servers), stage.settings.weights.throughput_mibps)
    sections = {
        "server": {"replicas": servers},
        "benchmark": {"enabled": False},
        "weights": {
            "throughputMibps": readers,
            "sizeGib": max(stage.settings.weights.size_gib, -(-readers // MAX_MIBPS_PER_GIB)),
        },
    }
    stage.bring_up(stage.record(sections), servers)
    nodes = stage.meter.gpu_nodes.highest()
    machines = stage.machines_for(servers)
    proof.check(f"{servers} servers on {plural(machines, 'machine')}", nodes == machines, f"{nodes} machines at most")
    phases = tuple(Phase(name=name, wall_seconds=seconds) for name, seconds in stage.phase_seconds.items())
    scale = Scale(nodes=servers, phases=phases, goal_seconds=GOAL_SECONDS.get(servers))
    proof.scales.append(scale)
    proof.figure("from nothing to the last Ready server", round(scale.wall_seconds, 1), "s of wall time")


def _scale_drill(servers: int, *, fast: bool) -> Drill:
    return Drill(
        name=f"scale-{servers}",
        title=f"{servers} machines",
        proves=f"{servers} servers become Ready, and how long Kubernetes itself takes for that",
        play=lambda stage, proof: _scale(servers, stage, proof),
        start="empty",
        speed=SCALE_SPEED,
        fast=fast,
        skip=all_of(needs_servers(), owns_platform, one_server_only),
    )


DRILLS = (
    Drill(
        name="pause",
        title="Paused to zero and resumed",
        proves="zero servers cost no GPU, the weights stay, and the fleet comes back",
        play=_pause,
        alerts=(),
        skip=needs_servers(),
    ),
    Drill(
        name="to-zero",
        title="An autoscaler goes to zero and back",
        proves="with external replicas pulumi up does not fight whoever scales",
        play=_to_zero_and_back,
        skip=all_of(needs_servers(), one_server_only),
        fast=False,
    ),
    _scale_drill(12, fast=True),
    _scale_drill(128, fast=False),
    _scale_drill(1000, fast=False),
)
