"""Section `network`: the VPC of the fleet."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from settings.sections.section import Section, like

Cidr = Annotated[str, like(r"^([0-9]{1,3}\.){3}[0-9]{1,3}/[0-9]{1,2}$", "an IPv4 range, such as 10.0.0.0/20")]
"""An IPv4 range such as "10.0.0.0/20"."""


class ProxyOnly(Section):
    """The proxy-only subnet for the proxies of regional load balancers."""

    enabled: bool | None = None
    """Create the subnet. Default: only with the Inference Gateway, which needs it."""
    cidr: Cidr = "10.8.0.0/23"
    """Range of the subnet; /23 recommended, /26 minimum. Source: Cloud Load Balancing, proxy-only subnets."""


class Nat(Section):
    """Cloud NAT: the only egress of the private nodes, also used by the weights download."""

    min_ports_per_vm: Annotated[int, Field(ge=64, le=65_536)] = 1_024
    """Minimum ports per node, a power of two."""
    max_ports_per_vm: Annotated[int, Field(ge=64, le=65_536)] = 16_384
    """Maximum ports per node, a power of two above `minPortsPerVm`."""


class Network(Section):
    """The VPC of the fleet. Its ranges must not overlap and must be large enough for the replicas."""

    node_cidr: Cidr = "10.0.0.0/20"
    """Primary range of the node subnet, one address per node."""
    pod_cidr: Cidr = "10.64.0.0/14"
    """Secondary range for pods; Autopilot uses a /26 or larger for each node."""
    service_cidr: Cidr = "10.32.0.0/20"
    """Secondary range for Services."""
    proxy_only: ProxyOnly = ProxyOnly()
    """The proxy-only subnet of the regional load balancer."""
    nat: Nat = Nat()
    """Ports of Cloud NAT."""
