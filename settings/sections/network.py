"""Section `network`: the VPC of the fleet."""

from __future__ import annotations

from ipaddress import IPv4Network
from typing import Annotated

from pydantic import AfterValidator

from settings.sections.section import Name, ProjectId, Section, like


def _is_a_range(text: str) -> str:
    """The text. Raises ValueError for a range that does not exist or whose host bits are set."""
    try:
        IPv4Network(text)
    except ValueError:
        raise ValueError("an IPv4 range whose host bits are zero, such as 10.0.0.0/20") from None
    return text


Cidr = Annotated[
    str,
    like(r"^([0-9]{1,3}\.){3}[0-9]{1,3}/[0-9]{1,2}$", "an IPv4 range, such as 10.0.0.0/20"),
    AfterValidator(_is_a_range),
]
"""An IPv4 range such as "10.0.0.0/20"."""


class ProxyOnly(Section):
    """The proxy-only subnet for the proxies of regional load balancers."""

    enabled: bool | None = None
    """Create the subnet. Default: only with the Inference Gateway, which needs it."""
    cidr: Cidr = "10.8.0.0/23"
    """Range of the subnet; /23 recommended, /26 minimum. Source: Cloud Load Balancing, proxy-only subnets."""


class ExistingVpc(Section):
    """A VPC that exists, by the names of its parts. Nothing of it is created, changed or deleted."""

    vpc: Name
    """Name of the VPC."""
    subnet: Name
    """Name of the node subnet, in the stack's region."""
    pod_range: Name
    """Name of the subnet's secondary range for pods, `network.podCidr`."""
    service_range: Name
    """Name of the subnet's secondary range for Services, `network.serviceCidr`."""
    project: ProjectId | None = None
    """Host project of a Shared VPC. Default: the stack's project."""
    proxy_only_subnet: Name | None = None
    """Name of the region's proxy-only subnet, `network.proxyOnly.cidr`. Default: none; with the gateway it is created, with its firewall
    rule."""


class Network(Section):
    """The VPC of the fleet. Its ranges must not overlap and must be large enough for the replicas. With `existing`, they say what the
    subnet has.
    """

    node_cidr: Cidr = "10.0.0.0/20"
    """Primary range of the node subnet, one address per node."""
    pod_cidr: Cidr = "10.64.0.0/14"
    """Secondary range for pods; Autopilot uses a /26 or larger for each node."""
    service_cidr: Cidr = "10.32.0.0/20"
    """Secondary range for Services."""
    existing: ExistingVpc | None = None
    """An existing VPC or Shared VPC. Default: none; the stack makes its own."""
    proxy_only: ProxyOnly = ProxyOnly()
    """The proxy-only subnet of the regional load balancer."""

    @property
    def has_proxy_only_subnet(self) -> bool:
        """Whether the existing VPC has a proxy-only subnet."""
        return self.existing is not None and self.existing.proxy_only_subnet is not None
