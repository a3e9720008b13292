"""Weights: a failed download, a volume restored from the image, a new revision under load."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.control_plane.api import VOLUME_SNAPSHOT_CONTENT, Manifest
from lab.drills.conditions import all_of, at_most_one_down, needs_servers, no_others, writes_weights
from lab.drills.drill import Drill, Proof
from lab.drills.requests import requests_during

if TYPE_CHECKING:
    from lab.stage.stage import Stage

JOB_SPEED = 60.0
"""The Job controller retries after ten seconds of wall time: on a faster clock, Pulumi's timeout ends first."""
FAILS_AFTER = 0.6
"""Share of the download after which the first attempt fails."""
OTHER_REVISION = "0123456789abcdef0123456789abcdef01234567"
"""Placeholder: the rehearsal downloads nothing."""


def _writer_fails(stage: Stage, proof: Proof) -> None:
    sections = {"server": {"replicas": 1}, "benchmark": {"enabled": False}}
    stage.writer.fail_next(after_share=FAILS_AFTER, exit_code=1)
    report = stage.bring_up(sections, servers=1)
    ready = stage.clock.now_seconds() - stage.began_seconds
    attempts = stage.writer.attempts()
    proof.check("the Job retries by itself", len(attempts) == 2, f"{len(attempts)} attempts")
    proof.succeeds("pulumi up waits for it and succeeds", report)
    first, second = attempts[0], attempts[-1]
    rest = 1 - FAILS_AFTER
    proof.check(
        "the second attempt downloads only the rest",
        abs(second.share_written - rest) < 0.02,
        f"{second.share_written:.0%} of the download, after {first.share_written:.0%}",
    )
    proof.figure("first attempt", round(first.seconds / 60, 1), "min")
    proof.figure("second attempt", round(second.seconds / 60, 1), "min")
    proof.figure("Ready after", round(ready / 60, 1), "min")


def _from_image(stage: Stage, proof: Proof) -> None:
    servers, began = stage.settings.replicas, stage.clock.now_seconds()
    (snapshot,) = stage.world.snapshots.all()
    image = _image(stage, snapshot)
    before = _volumes(stage)
    report = stage.up({"weights": {"source": "image", "image": image}})
    proof.succeeds("pulumi up succeeds", report)
    done = stage.until_ready(servers)
    downloads = stage.writer.attempts_since(began)
    proof.check("nothing is downloaded", downloads == 0, f"{downloads} downloads")
    at_most_one_down(stage, proof, servers, began)
    stage.until("the writer's and the replicas' old volume to go", lambda: not _volumes(stage) & before, 3600)
    left = _volumes(stage)
    proof.check("one volume remains, restored from the image", len(left) == 1, ", ".join(sorted(left)))
    (snapshot,) = stage.world.snapshots.all()
    proof.check("the image is the same", _image(stage, snapshot) == image, _image(stage, snapshot))
    proof.figure("from pulumi up to the last replica", round((done - report.began_seconds) / 60, 1), "min")


def _image(stage: Stage, snapshot: Manifest) -> str:
    content = stage.api.get(VOLUME_SNAPSHOT_CONTENT, snapshot["status"]["boundVolumeSnapshotContentName"])
    return "" if content is None else str(content["status"]["snapshotHandle"])


def _volumes(stage: Stage) -> set[str]:
    return {volume["spec"]["claimRef"]["name"] for volume in stage.world.volumes.all()}


def _new_revision(stage: Stage, proof: Proof) -> None:
    servers, began = stage.settings.replicas, stage.clock.now_seconds()
    before = {volume["metadata"]["name"] for volume in stage.world.volumes.all()}
    served = stage.settings.serving.model
    model = {"id": served.id, "revision": OTHER_REVISION, "sizeGb": served.size_gb}
    changed = {"model": model}
    with requests_during(stage, proof, planned=True) as requests:
        report = stage.up(changed)
        done = stage.until_ready(servers)
    proof.succeeds("pulumi up succeeds", report)
    at_most_one_down(stage, proof, servers, began)
    proof.check(
        "the Service always has an endpoint",
        requests.unserved == 0,
        f"{requests.unserved} refused",
        empty=no_others(servers),
    )
    mounted = {
        volume["persistentVolumeClaim"]["claimName"]
        for pod in stage.ready_pods()
        for volume in pod["spec"]["volumes"]
        if "persistentVolumeClaim" in volume
    }
    new = [name for name in mounted if OTHER_REVISION[:7] in name]
    proof.check("every replica mounts the new revision", len(mounted) == len(new), ", ".join(sorted(mounted)))
    after = {volume["metadata"]["name"] for volume in stage.world.volumes.all()}
    proof.check("the new volume is created beside the old one", bool(after - before), f"{len(after - before)} new")
    proof.figure("from pulumi up to the last replica", round((done - report.began_seconds) / 60, 1), "min")


DRILLS = (
    Drill(
        name="writer-fails",
        title="The weights download fails halfway",
        proves="the writer resumes its download, and pulumi up waits for it",
        play=_writer_fails,
        start="empty",
        speed=JOB_SPEED,
        skip=all_of(needs_servers(), writes_weights),
    ),
    Drill(
        name="weights-from-image",
        title="Change to weights.source: image",
        proves="replicas move to a volume restored from the image, one at a time, without a download",
        play=_from_image,
        skip=all_of(needs_servers(), writes_weights),
        fast=False,
    ),
    Drill(
        name="new-revision",
        title="A new revision of the weights under load",
        proves="a new volume is created beside the old one, and replicas move one at a time",
        play=_new_revision,
        skip=all_of(needs_servers(), writes_weights),
        fast=False,
    ),
)
