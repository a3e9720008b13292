"""A new revision of the weights under load."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.drills.conditions import all_of, at_most_one_down, needs_servers, no_others, writes_weights
from lab.drills.drill import Drill, Proof
from lab.drills.requests import requests_during

if TYPE_CHECKING:
    from lab.stage.stage import Stage

OTHER_REVISION = "0123456789abcdef0123456789abcdef01234567"
"""Placeholder: the rehearsal downloads nothing."""


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
        name="new-revision",
        title="A new revision of the weights under load",
        proves="a new volume is created beside the old one, and replicas move one at a time",
        play=_new_revision,
        skip=all_of(needs_servers(), writes_weights),
        fast=False,
    ),
)
