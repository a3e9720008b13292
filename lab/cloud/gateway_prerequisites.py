"""Prerequisites of a programmed Gateway, from the program's Google Cloud resources."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

from fleet.preview.record.recording import STACK_REFERENCE_TYPE, Recording
from fleet.preview.record.values import reveal

API: Final = "networkservices.googleapis.com"
"""Source: gateway-api-inference-extension v1.4.0, guides: GKE, Compute and Network Services APIs."""
PROXY_ONLY: Final = "REGIONAL_MANAGED_PROXY"
CHANNELS: Final = ("CHANNEL_STANDARD", "CHANNEL_EXPERIMENTAL")

REGIONAL: Final = ("gke-l7-rilb", "gke-l7-regional-external-managed")
GLOBAL: Final = ("gke-l7-global-external-managed", "gke-l7-gxlb")
CLASSES: Final = (*REGIONAL, *GLOBAL)
"""GatewayClasses of a single cluster. Source: GKE docs, GatewayClass capabilities."""


CERTIFICATES: Final = "networking.gke.io/cert-manager-certs"
"""Listener option with names of regional certificates, separated by commas. Source: GKE docs, "Secure a Gateway"."""
CertificateState = Literal["PROVISIONING", "ACTIVE"]


class Names(Protocol):
    """Static addresses and certificates of the project, by name."""

    def address(self, name: str) -> str | None:
        """The address; empty if only its existence is known, None if there is none."""

    def certificate(self, name: str) -> CertificateState | None:
        """State of the certificate; None if there is none."""


def named_address(gateway: dict[str, Any]) -> str | None:
    """Name of the static address that a Gateway asks for."""
    asked = gateway["spec"].get("addresses") or ()
    return next((str(one["value"]) for one in asked if one.get("type") == "NamedAddress"), None)


def certificates_of(gateway: dict[str, Any]) -> tuple[str, ...]:
    """Names of the certificates of a Gateway's listeners."""
    options = ((one.get("tls") or {}).get("options") or {} for one in gateway["spec"].get("listeners") or ())
    return tuple(name.strip() for one in options for name in one.get(CERTIFICATES, "").split(",") if name.strip())


def missing_names(gateway: dict[str, Any], names: Names) -> tuple[str, ...]:
    """What a Gateway names and does not exist. The state of a certificate is not asked: whether GKE programs a Gateway whose certificate
    is PROVISIONING is unknown; assumed, because a target proxy accepts one.

    Source: GoogleCloudPlatform/gke-managed-certs#55, where a listener whose certificate does not exist is invalid.
    """
    found = []
    if (address := named_address(gateway)) is not None and names.address(address) is None:
        found.append(f"there is no static address {address} in the region")
    found += [
        f"there is no certificate {name} in the region"
        for name in certificates_of(gateway)
        if not names.certificate(name)
    ]
    return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayPrerequisites:
    """Prerequisites that exist; by default all, as for another stack's platform."""

    network_services_api: bool = True
    proxy_only_subnet: bool = True
    gateway_channel: bool = True
    """Whether the cluster has GKE's Gateway controller."""

    def missing(self, gateway_class: str) -> tuple[str, ...]:
        """Missing prerequisites of a Gateway of this class."""
        if not self.gateway_channel:
            return (
                "the cluster has no Gateway controller and no GatewayClasses: gatewayApiConfig.channel is not CHANNEL_STANDARD",
            )
        if gateway_class not in CLASSES:
            return (
                f"the GatewayClass {gateway_class} does not exist; for an InferencePool use one of {', '.join(REGIONAL)}",
            )
        found = []
        if not self.network_services_api:
            found.append(f"the API {API} is not enabled in the project")
        if not self.proxy_only_subnet and gateway_class in REGIONAL:
            found.append(
                f"the network has no proxy-only subnet in the region (purpose {PROXY_ONLY}, role ACTIVE), which the load "
                "balancer's proxies require"
            )
        return tuple(found)


def prerequisites_of(recording: Recording) -> GatewayPrerequisites:
    """Prerequisites that this program creates; all, for a stack on another stack's platform."""
    inputs: dict[str, list[dict[str, Any]]] = {}
    for resource in recording.resources:
        inputs.setdefault(resource.type, []).append(reveal(dict(resource.inputs)))
    clusters = inputs.get("gcp:container/cluster:Cluster", [])
    if not clusters and any(one.type == STACK_REFERENCE_TYPE for one in recording.resources):
        return GatewayPrerequisites()
    regions = {str(cluster.get("location")) for cluster in clusters}
    networks = {cluster.get("network") for cluster in clusters}
    return GatewayPrerequisites(
        network_services_api=any(one.get("service") == API for one in inputs.get("gcp:projects/service:Service", [])),
        # What an existing network has is not in the program, which names it by its path; one that is made has a URL.
        proxy_only_subnet=any(str(network).startswith("projects/") for network in networks)
        or any(
            one.get("purpose") == PROXY_ONLY
            and one.get("role") == "ACTIVE"
            # Without a region it is in the provider's, where the cluster is.
            and (one.get("region") is None or one["region"] in regions)
            and one.get("network") in networks
            for one in inputs.get("gcp:compute/subnetwork:Subnetwork", [])
        ),
        # Autopilot's default; only another explicit channel disables it.
        gateway_channel=any(
            (cluster.get("gatewayApiConfig") or {"channel": CHANNELS[0]}).get("channel") in CHANNELS
            for cluster in clusters
        ),
    )
