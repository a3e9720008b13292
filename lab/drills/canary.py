"""Canaries: started, aborted, started with a new revision and promoted; and one that crashes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from facts.names import CANARY_ENDING
from facts.texts import plural
from lab.cloud.spot import kill_containers
from lab.cloud.world import restarts_of
from lab.drills.conditions import (
    all_of,
    at_most_one_down,
    needs_servers,
    no_others,
    room_for_one_more,
    writes_weights,
)
from lab.drills.drill import Drill, Proof
from lab.drills.requests import requests_during

if TYPE_CHECKING:
    from lab.stage.stage import Stage

OTHER_REVISION: Final = "89abcdef0123456789abcdef0123456789abcdef"
"""Placeholder: the rehearsal downloads nothing."""
_ENGINE: Final = {"engine": {"extraEnv": {"VLLM_LOGGING_LEVEL": "INFO"}}}
_QUOTA: Final = "ResourceQuota/gpu"
_CRASHES_AFTER: Final = 600.0
"""Simulated seconds."""
_GONE_SECONDS: Final = 3_600.0


def _whole_rollout(stage: Stage, proof: Proof) -> None:
    servers, began = stage.settings.replicas, stage.clock.now_seconds()
    former, downloads = _claims(stage, stage.server), stage.writer.attempts_since(0)
    with requests_during(stage, proof, planned=True) as requests:
        _starts_beside(stage, proof, _ENGINE, "a canary")
        proof.succeeds("aborting it succeeds", stage.up())
        stage.until("the canary to go", lambda: not _canaries(stage), _GONE_SECONDS)
        proof.check("start and abort affect no replica", _lowest(stage, began) == servers, f"{servers} stayed Ready")

        revision = {**_ENGINE, "model": {"revision": OTHER_REVISION}}
        _starts_beside(stage, proof, revision, "a canary of another revision")
        own = _claims(stage, stage.server + CANARY_ENDING)
        there = {
            object_["metadata"]["name"]
            for object_ in stage.applied_objects()
            if object_["kind"] == "PersistentVolumeClaim"
        }
        proof.check("the weights of both revisions exist", former | own <= there, ", ".join(sorted(former | own)))

        served = stage.settings.serving.model
        model = {"id": served.id, "revision": OTHER_REVISION, "sizeGb": served.size_gb}
        new: dict[str, Any] = {"server": _ENGINE, "model": model, "weights": {"nameEnding": OTHER_REVISION[:7]}}
        report = stage.up({**new, "rollout": {"canary": revision, "promoted": "a drill"}})
        proof.succeeds("promoting it succeeds", report)
        done = stage.until_ready(servers)
        proof.check("the canary stays until the last replica is new", len(_canaries(stage)) == 1, "1 canary")
        at_most_one_down(stage, proof, servers, began)
        mounted = _claims(stage, stage.server)
        proof.check("the replicas mount the canary's volume", mounted == own, ", ".join(sorted(mounted)))
        more = stage.writer.attempts_since(0) - downloads
        proof.check("the new revision is downloaded once", more == 1, plural(more, "download"))
        stage.until("the old claim to go", lambda: not _claims_there(stage) & former, _GONE_SECONDS)
        proof.succeeds("removing it succeeds", stage.up(new))
        stage.until("the canary to go", lambda: not _canaries(stage), _GONE_SECONDS)
    lost = f"{requests.unserved} refused"
    proof.check("the Service always has an endpoint", requests.unserved == 0, lost, empty=no_others(servers))
    proof.figure("from promotion to the last replica", round((done - report.began_seconds) / 60, 1), "min")


def _crash(stage: Stage, proof: Proof) -> None:
    servers, began = stage.settings.replicas, stage.clock.now_seconds()
    with requests_during(stage, proof) as requests:
        _starts_beside(stage, proof, _ENGINE, "a canary")
        stage.clock.sleep(_CRASHES_AFTER)
        (canary,) = _canaries(stage)
        kill_containers(stage.world, canary, exit_code=1, reason="Error")
        stage.until("the canary's containers to restart", lambda: any(map(restarts_of, _canaries(stage))), 60)
    (after,) = _canaries(stage)
    restarts = after["status"]["containerStatuses"][0]["restartCount"]
    proof.check("its restart count is visible to the verdict", restarts == 1, plural(restarts, "restart"))
    proof.check(
        "no replica is affected", _lowest(stage, began) == servers, f"{_lowest(stage, began)} of {servers} Ready"
    )
    proof.check("the replicas lose no request", requests.report is not None and not requests.report.lost, "none lost")
    proof.succeeds("aborting it succeeds", stage.up())
    stage.until("the canary to go", lambda: not _canaries(stage), _GONE_SECONDS)


def _starts_beside(stage: Stage, proof: Proof, canary: dict[str, Any], what: str) -> None:
    """`fleet rollout start`, `pulumi up`."""
    before = stage.fingerprints()
    proof.succeeds(f"pulumi up with {what} succeeds", stage.up({"rollout": {"canary": canary}}))
    after = stage.fingerprints()
    changed = {name for name, known in before.items() if after.get(name) != known}
    seen = ", ".join(sorted(changed)) or "nothing"
    proof.check("of the existing objects only the GPU quota changes", changed <= {_QUOTA}, seen)


def _canaries(stage: Stage) -> list[Any]:
    return stage.pods(stage.server + CANARY_ENDING)


def _lowest(stage: Stage, began: float) -> int:
    return stage.meter.ready_servers.lowest(began)


def _claims(stage: Stage, app: str) -> set[str]:
    """Claims mounted by the Ready pods with this `app` label."""
    return {
        volume["persistentVolumeClaim"]["claimName"]
        for pod in stage.ready_pods(app)
        for volume in pod["spec"]["volumes"]
        if "persistentVolumeClaim" in volume
    }


def _claims_there(stage: Stage) -> set[str]:
    return {volume["spec"]["claimRef"]["name"] for volume in stage.world.volumes.all()}


DRILLS = (
    Drill(
        name="canary-crashes",
        title="A canary that crashes after ten minutes",
        proves="replicas and their requests are not affected, and the restart is visible",
        play=_crash,
        skip=all_of(needs_servers(), room_for_one_more),
    ),
    Drill(
        name="canary-start-promote-abort",
        title="An upgrade by canary, aborted, then promoted, under load",
        proves="no replica changes before promotion; then they change one at a time, without another download",
        play=_whole_rollout,
        skip=all_of(needs_servers(), writes_weights, room_for_one_more),
        fast=False,
    ),
)
