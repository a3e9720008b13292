"""The Inference Gateway without what it needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.preview.record.values import UNKNOWN
from fleet.rehearse.api import GATEWAY
from fleet.rehearse.drills.conditions import has_gateway
from fleet.rehearse.drills.drill import Drill, Proof
from fleet.rehearse.simulation.gateway_prerequisites import prerequisites_of
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
    endpoint = stage.preview(sections).outputs.get("endpoint")
    proof.check("a preview of what is there by now ends well", endpoint is UNKNOWN, "the endpoint is not known yet")
    stage.gateway.set_prerequisites(prerequisites_of(stage.base))
    stage.timeline.note("gateway", stage.settings.gateway.name, "the proxy-only subnet is there", mood="good")
    second = stage.up(stage.record(sections))
    proof.check(
        "with the subnet, the next pulumi up waits again and ends well",
        not second.failed and any("Gateway::" in urn for urn in second.updated),
        "; ".join(second.failed.values()) or f"{len(second.updated)} updated, {len(second.created)} created",
    )


DRILLS = (
    Drill(
        name="gateway-without-subnet",
        title="The gateway without its proxy-only subnet",
        proves="a Gateway that is not PROGRAMMED fails with a reason, and the next pulumi up goes on from it",
        play=_without_prerequisites,
        start="empty",
        skip=has_gateway,
    ),
)
