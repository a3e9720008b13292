"""The Inference Gateway without its prerequisites, and with a host name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lab.cloud.gateway_prerequisites import certificates_of, prerequisites_of
from lab.cloud.world import condition
from lab.control_plane.api import GATEWAY
from lab.drills.conditions import has_gateway
from lab.drills.drill import Drill, Proof

if TYPE_CHECKING:
    from lab.control_plane.api import Manifest
    from lab.stage.stage import Stage
    from lab.stage.update_report import UpReport


def _without_prerequisites(stage: Stage, proof: Proof) -> None:
    sections = {"server": {"replicas": 1}, "benchmark": {"enabled": False}}
    stage.gateway.take_away_proxy_only_subnet()
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
    second = stage.up(sections)
    proof.check(
        "with the subnet, the next pulumi up waits again and succeeds",
        not second.failed and any("Gateway::" in urn for urn in second.updated),
        "; ".join(second.failed.values()) or f"{len(second.updated)} updated, {len(second.created)} created",
    )


HOST: Final = "llm.rehearsal.dev"
OTHER: Final = "chat.rehearsal.dev"
_OPENING_SECONDS: Final = 900.0
"""Longest wait, simulated, until requests reach the servers by name."""


def _with_a_name(stage: Stage, proof: Proof) -> None:
    proof.succeeds("pulumi up with a host name succeeds", stage.up(_named(HOST)))
    said = stage.updates.state(stage.stack).outputs
    address, allowed = said["dns"]
    gateway = stage.api.get(GATEWAY, stage.settings.gateway.name, stage.namespace) or {}
    found = [one["value"] for one in gateway.get("status", {}).get("addresses", ())]
    proof.check("the load balancer has the static address", found == [address["data"]], f"{found}, {address['data']}")
    waiting = _states(stage, gateway)
    proof.check("without the owner's record the certificate is not issued", waiting == ["PROVISIONING"], str(waiting))
    proof.check("until then no client is served", not stage.backends(), f"{len(stage.backends())} backends")
    stage.domain.public_dns[allowed["name"]] = allowed["data"]
    served = stage.until("the gateway's name to serve", stage.backends, _OPENING_SECONDS)
    issued = _states(stage, gateway)
    proof.check("with the record of the output `dns` it is", issued == ["ACTIVE"], str(issued))
    proof.check("requests by HTTPS lead to the servers", bool(served), ", ".join(one.name for one in served))
    plain = stage.gateway.attached(stage.settings.gateway.name, stage.namespace, "http")
    leads = [rule for route in plain for rule in route["spec"]["rules"] if rule.get("backendRefs")]
    proof.check(
        "port 80 leads to no server",
        bool(plain) and not leads,
        f"{len(plain)} route, {len(leads)} of its rules with a server",
    )
    second = stage.up(_named(OTHER))
    proof.succeeds("another host name is an update", second)
    kept = (stage.api.get(GATEWAY, stage.settings.gateway.name, stage.namespace) or {}).get("status", {})
    proof.check("it keeps the address", [one["value"] for one in kept.get("addresses", ())] == found, str(found))
    old, new = (_finished(second, f"-certificate-{host}") for host in (HOST, OTHER))
    changed = _finished(second, "::gateway-gateway")
    proof.check(
        "the new certificate is there before, and the old one goes after, the listener changes",
        new < changed < old,
        f"made at {new:.0f} s, listener at {changed:.0f} s, deleted at {old:.0f} s",
    )


def _named(host: str) -> dict[str, Any]:
    return {"server": {"replicas": 1}, "benchmark": {"enabled": False}, "gateway": {"hostname": host}}


def _states(stage: Stage, gateway: Manifest) -> list[str]:
    """States of the certificates of a Gateway."""
    return [stage.domain.certificate(name) or "missing" for name in certificates_of(gateway)]


def _finished(report: UpReport, ending: str) -> float:
    """When the update was done with the resource whose URN ends so, in simulated seconds."""
    return next(seconds for urn, seconds in report.finished_seconds.items() if urn.endswith(ending))


DRILLS = (
    Drill(
        name="gateway-without-subnet",
        title="The gateway without its proxy-only subnet",
        proves="pulumi up fails with a reason while the Gateway is not PROGRAMMED, and the next one continues",
        play=_without_prerequisites,
        start="empty",
        skip=has_gateway,
    ),
    Drill(
        name="gateway-name",
        title="The gateway gets a host name",
        proves="clients are served by HTTPS once the owner's DNS record exists, and another name makes its certificate first",
        play=_with_a_name,
        start="empty",
        skip=has_gateway,
    ),
)
