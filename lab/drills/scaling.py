"""More and fewer replicas: pause and resume, external scaling to zero and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.control_plane.api import PERSISTENT_VOLUME, VOLUME_SNAPSHOT
from lab.drills.conditions import all_of, needs_servers, one_server_only
from lab.drills.drill import Drill, Proof
from workloads.names import WRITER_APP

if TYPE_CHECKING:
    from lab.stage.stage import Stage


def _pause(stage: Stage, proof: Proof) -> None:
    servers, downloads = stage.settings.replicas, _downloads(stage)
    volumes = _disks_and_images(stage)
    report = stage.up({"server": {"replicas": 0}, "benchmark": {"enabled": False}})
    proof.succeeds("pulumi up with zero replicas succeeds", report)
    stage.until("every replica to go", lambda: stage.meter.servers.now == 0)
    stage.until_empty()
    kept = _disks_and_images(stage)
    proof.check("the weights are kept", volumes <= kept, f"{len(kept)} disks and images")
    report = stage.up()
    stage.until_ready(servers)
    proof.succeeds("pulumi up with the former number succeeds", report)
    more = _downloads(stage) - downloads
    proof.check("the weights are not downloaded again", not more, f"{len(more)} downloads")


def _disks_and_images(stage: Stage) -> set[str]:
    kinds = (PERSISTENT_VOLUME, VOLUME_SNAPSHOT)
    return {one["metadata"]["uid"] for kind in kinds for one in stage.api.list_all(kind)}


def _downloads(stage: Stage) -> set[str]:
    """UIDs of the weights writer's pods."""
    return {pod["metadata"]["uid"] for pod in stage.pods(WRITER_APP)}


def _to_zero_and_back(stage: Stage, proof: Proof) -> None:
    servers = stage.settings.replicas
    external = {"server": {"replicas": "external"}, "benchmark": {"enabled": False}}
    report = stage.up(external)
    proof.succeeds("pulumi up to external replicas succeeds", report)
    stage.scale(0)
    stage.until_empty()
    proof.succeeds("pulumi up with zero replicas succeeds", stage.up(external))
    proof.check("pulumi up keeps zero replicas", stage.meter.servers.now == 0, f"{stage.meter.servers.now} replicas")
    stage.scale(1)
    stage.until_ready(1)
    proof.succeeds("pulumi up with one replica succeeds", stage.up(external))
    proof.check("pulumi up keeps one replica", stage.meter.servers.now == 1, f"{stage.meter.servers.now} replicas")
    # Scale first, then pulumi up: two field managers with different values conflict, with equal values they do not.
    stage.scale(servers)
    report = stage.up()
    stage.until_ready(servers)
    failed = "; ".join(report.failed.values())
    proof.check("scaled to the same number first, Pulumi manages replicas again", not failed, failed or "no conflict")


DRILLS = (
    Drill(
        name="pause",
        title="Pause and resume",
        proves="zero replicas use no GPU, the weights are kept, and pulumi up resumes",
        play=_pause,
        skip=needs_servers(),
    ),
    Drill(
        name="to-zero",
        title="External scaling to zero and back",
        proves="with external replicas, pulumi up does not change the number",
        play=_to_zero_and_back,
        skip=all_of(needs_servers(), one_server_only),
    ),
)
