"""The Inference Gateway without what it needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.rehearse.api import GATEWAY
from fleet.rehearse.drills.conditions import has_gateway
from fleet.rehearse.drills.drill import Drill, Proof
from fleet.rehearse.simulation.world import condition

if TYPE_CHECKING:
    from fleet.rehearse.stage import Stage


def _without_prerequisites(stage: Stage, proof: Proof) -> None:
    sections = {"server": {"replicas": 1}, "benchmark": {"enabled": False}}
    stage.gateway.take_away_proxy_only_subnet()
    stage.timeline.note("gateway", stage.settings.gateway.name, "there is no proxy-only subnet", mood="bad")
    began = stage.clock.now_seconds()
    report = stage.up(stage.record(sections))
    gateway = stage.api.get(GATEWAY, stage.settings.gateway.name, stage.namespace)
    programmed = condition(gateway, "Programmed") if gateway else ""
    proof.check("the Gateway is never PROGRAMMED", programmed != "True", f"Programmed is {programmed or 'not set'}")
    why = stage.gateway.why_not_programmed()
    proof.check("the reason is named, which GKE keeps to itself", "proxy-only" in why, why)
    failed = [text for urn, text in report.failed.items() if "Gateway::" in urn]
    proof.check(
        "pulumi up does not wait for ever: it fails at the Gateway", bool(failed), "; ".join(failed) or "no failure"
    )
    proof.figure(
        "pulumi up gives up after",
        round((stage.clock.now_seconds() - began) / 60, 1),
        "min",
        "customTimeouts of the Gateway",
    )


DRILLS = (
    Drill(
        name="gateway-without-subnet",
        title="The gateway without its proxy-only subnet",
        proves="a Gateway that never gets PROGRAMMED is an error with a reason, and not a silent wait",
        play=_without_prerequisites,
        start="empty",
        skip=has_gateway,
    ),
)
