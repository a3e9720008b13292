"""The Inference Gateway without its prerequisites."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.cloud.gateway_prerequisites import prerequisites_of
from lab.cloud.world import condition
from lab.control_plane.api import GATEWAY
from lab.drills.conditions import has_gateway
from lab.drills.drill import Drill, Proof

if TYPE_CHECKING:
    from lab.stage.stage import Stage


def _without_prerequisites(stage: Stage, proof: Proof) -> None:
    sections = {"server": {"replicas": 1}, "benchmark": {"enabled": False}}
    stage.gateway.take_away_proxy_only_subnet()
    stage.timeline.note("gateway", stage.settings.gateway.name, "the proxy-only subnet is missing", mood="bad")
    report = stage.up(sections)
    gateway = stage.api.get(GATEWAY, stage.settings.gateway.name, stage.namespace)
    programmed = condition(gateway, "Programmed") if gateway else ""
    proof.check("the Gateway is not PROGRAMMED", programmed != "True", f"Programmed is {programmed or 'unset'}")
    why = stage.gateway.why_not_programmed()
    proof.check("the reason is reported, which GKE does not do", "proxy-only" in why, why)
    failed = [text for urn, text in report.failed.items() if "Gateway::" in urn]
    proof.check(
        "pulumi up fails at the Gateway instead of waiting forever", bool(failed), "; ".join(failed) or "no failure"
    )
    proof.figure(
        "pulumi up gives up after",
        round((stage.clock.now_seconds() - report.began_seconds) / 60, 1),
        "min",
        "customTimeouts of the Gateway",
    )
    planned = stage.preview(sections)
    failures = "; ".join(planned.failures.values())
    proof.check("a preview of the partly created stack succeeds", planned.succeeded, failures or "no failure")
    stage.gateway.set_prerequisites(prerequisites_of(stage.base))
    stage.timeline.note("gateway", stage.settings.gateway.name, "the proxy-only subnet is added", mood="good")
    second = stage.up(sections)
    proof.check(
        "with the subnet, the next pulumi up waits again and succeeds",
        not second.failed and any("Gateway::" in urn for urn in second.updated),
        "; ".join(second.failed.values()) or f"{len(second.updated)} updated, {len(second.created)} created",
    )


DRILLS = (
    Drill(
        name="gateway-without-subnet",
        title="The gateway without its proxy-only subnet",
        proves="pulumi up fails with a reason while the Gateway is not PROGRAMMED, and the next one continues",
        play=_without_prerequisites,
        start="empty",
        skip=has_gateway,
    ),
)
