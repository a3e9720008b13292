"""Compile caches: the first server compiles and stores, later ones start with what it stored, and a broken archive costs a cold start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.rehearse.api import POD
from fleet.rehearse.drills.conditions import needs_servers
from fleet.rehearse.drills.drill import Drill, Proof
from fleet.rehearse.simulation.compile_caches import saver_of
from fleet.rehearse.simulation.world import COMPILED
from fleet.rehearse.story import STARTING

if TYPE_CHECKING:
    from fleet.rehearse.stage import Stage

SPEED = 60.0
"""The programs of the pods take their time on the wall: two tenths of a second are twelve here."""


def _compile_caches(stage: Stage, proof: Proof) -> None:
    kept = {"replicas": 1, "compileCache": {"enabled": True}}
    alone = {"benchmark": {"enabled": False}}
    stage.bring_up(stage.record({"server": kept, **alone}), servers=1)
    cold = _start(stage)
    if not proof.check(
        "the first server compiles and stores", cold[0] == "cold" and bool(stage.caches.archives), cold[0]
    ):
        return
    warm = _another(stage)
    proof.check("the next one starts with its caches", warm[0] == "warm", warm[0])
    saves = (stage.timings.engine_start_seconds - stage.timings.warm_engine_start_seconds) / 2
    proof.check("and is ready minutes sooner", warm[1] < cold[1] - saves, f"{warm[1]:.0f} s, not {cold[1]:.0f} s")

    ((bucket, name),) = stage.caches.archives
    whole = bucket.objects[name].content
    bucket.put(name, whole[: len(whole) // 2])
    broken = _another(stage)
    proof.check("half an archive is a cold start", broken[0] == "cold", broken[0])
    del bucket.objects[name]
    absent = _another(stage)
    proof.check("so is none", absent[0] == "cold", absent[0])

    former = stage.ready_pods()[0]["spec"]["serviceAccountName"]
    changed = {**kept, "engine": {"extraEnv": {"VLLM_LOGGING_LEVEL": "INFO"}}}
    report = stage.up(stage.record({"server": changed, **alone}))
    proof.check("another release comes up", not report.failed, "; ".join(report.failed.values()) or "no failure")
    stage.until_ready(1)
    other = _start(stage)
    proof.check("it uses nothing of the former's", other[0] == "cold", other[0])
    account = stage.ready_pods()[0]["spec"]["serviceAccountName"]
    accounts = {one["metadata"]["name"] for one in stage.applied_objects() if one["kind"] == "ServiceAccount"}
    proof.check(
        "its pods have an account of their own, and the former's is gone",
        account != former and account in accounts and former not in accounts,
        ", ".join(sorted(accounts)),
    )
    archives = len(stage.caches.archives)
    proof.check("its caches lie beside the former's", archives == 2, f"{archives} archives")
    proof.figure("from a machine to Ready, cold", round(cold[1]), "s")
    proof.figure("with caches", round(warm[1]), "s", "measured on H200; eight engines of a node are not measured")


def _another(stage: Stage) -> tuple[str, float]:
    """The server's pod is deleted; the start of the one that takes its place."""
    name = stage.ready_pods()[0]["metadata"]["name"]
    stage.api.delete(POD, name, stage.namespace)
    stage.until("the server to go", lambda: stage.world.pods.get(name, stage.namespace) is None, 900)
    stage.until_ready(1)
    return _start(stage)


def _start(stage: Stage) -> tuple[str, float]:
    """What the one server found, and the simulated seconds from its place on a machine to Ready; it has stored what it had to."""
    (pod,) = stage.ready_pods()
    if saver_of(pod) is not None:
        stage.until("its storing program to end", lambda: stage.caches.has_tried(pod), 600)
    took = sum(
        (one.until_seconds or one.at_seconds) - one.at_seconds
        for one in stage.story.moments()
        if (one.subject, one.text) == (pod["metadata"]["name"], STARTING.text)
    )
    return pod["metadata"]["annotations"].get(COMPILED, "no caches"), took


DRILLS = (
    Drill(
        name="compile-caches",
        title="Servers start with what the first one compiled",
        proves="later servers of a release start warm; a broken or absent archive is a cold start",
        play=_compile_caches,
        start="empty",
        speed=SPEED,
        skip=needs_servers(),
        fast=False,
    ),
)
