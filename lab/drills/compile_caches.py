"""Compile caches: stored by a release's first replica, used by later ones; a broken archive means a cold start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.cloud.compile_caches import saver_of
from lab.cloud.world import COMPILED
from lab.control_plane.api import POD
from lab.drills.conditions import needs_servers
from lab.drills.drill import Drill, Proof
from lab.stage.story import STARTING

if TYPE_CHECKING:
    from lab.stage.stage import Stage

SPEED = 60.0
"""The pods' programs run in wall time: 0.2 seconds are 12 simulated seconds at this speed."""


def _compile_caches(stage: Stage, proof: Proof) -> None:
    kept = {"replicas": 1, "compileCache": {"enabled": True}}
    alone = {"benchmark": {"enabled": False}}
    stage.bring_up({"server": kept, **alone}, servers=1)
    cold = _start(stage)
    if not proof.check(
        "the first replica compiles and stores", cold[0] == "cold" and bool(stage.caches.archives), cold[0]
    ):
        return
    warm = _another(stage)
    proof.check("the next one starts warm", warm[0] == "warm", warm[0])
    saves = (stage.timings.engine_start_seconds - stage.timings.warm_engine_start_seconds) / 2
    proof.check("a warm start is minutes faster", warm[1] < cold[1] - saves, f"{warm[1]:.0f} s, not {cold[1]:.0f} s")

    ((bucket, name),) = stage.caches.archives
    whole = bucket.objects[name].content
    bucket.put(name, whole[: len(whole) // 2])
    broken = _another(stage)
    proof.check("a truncated archive means a cold start", broken[0] == "cold", broken[0])
    del bucket.objects[name]
    absent = _another(stage)
    proof.check("a missing archive means a cold start", absent[0] == "cold", absent[0])

    former = stage.ready_pods()[0]["spec"]["serviceAccountName"]
    changed = {**kept, "engine": {"extraEnv": {"VLLM_LOGGING_LEVEL": "INFO"}}}
    report = stage.up({"server": changed, **alone})
    proof.succeeds("pulumi up of another release succeeds", report)
    stage.until_ready(1)
    other = _start(stage)
    proof.check("it does not use the former release's caches", other[0] == "cold", other[0])
    account = stage.ready_pods()[0]["spec"]["serviceAccountName"]
    accounts = {
        object_["metadata"]["name"] for object_ in stage.applied_objects() if object_["kind"] == "ServiceAccount"
    }
    proof.check(
        "its pods use a new service account, and the former's is deleted",
        account != former and account in accounts and former not in accounts,
        ", ".join(sorted(accounts)),
    )
    archives = len(stage.caches.archives)
    proof.check("its caches are stored beside the former's", archives == 2, f"{archives} archives")
    proof.figure("cold start", round(cold[1]), "s", "from scheduled to Ready")
    proof.figure("warm start", round(warm[1]), "s", "measured on H200 with one engine, not with a node's eight")


def _another(stage: Stage) -> tuple[str, float]:
    """Delete the replica's pod; returns the start of its replacement."""
    name = stage.ready_pods()[0]["metadata"]["name"]
    stage.api.delete(POD, name, stage.namespace)
    stage.until("the replica to go", lambda: stage.world.pods.get(name, stage.namespace) is None, 900)
    stage.until_ready(1)
    return _start(stage)


def _start(stage: Stage) -> tuple[str, float]:
    """Whether the replica started warm or cold, and its simulated seconds from scheduled to Ready; waits until it has stored its caches."""
    (pod,) = stage.ready_pods()
    if saver_of(pod) is not None:
        stage.until("its caches to be stored", lambda: stage.caches.has_tried(pod), 600)
    took = sum(
        (moment.until_seconds or moment.at_seconds) - moment.at_seconds
        for moment in stage.story.moments()
        if (moment.subject, moment.text) == (pod["metadata"]["name"], STARTING.text)
    )
    return pod["metadata"]["annotations"].get(COMPILED, "no caches"), took


DRILLS = (
    Drill(
        name="compile-caches",
        title="Replicas start with the first one's compile caches",
        proves="later replicas of a release start warm; a broken or missing archive only means a cold start",
        play=_compile_caches,
        start="empty",
        speed=SPEED,
        skip=needs_servers(),
        fast=False,
    ),
)
