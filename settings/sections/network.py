"""Section `network`: the VPC of the fleet."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from settings.sections.section import Section, like

Cidr = Annotated[str, like(r"^([0-9]{1,3}\.){3}[0-9]{1,3}/[0-9]{1,2}$", "an IPv4 range, such as 10.0.0.0/20")]
"""An IPv4 range such as "10.0.0.0/20"."""


class ProxyOnly(Section):
    """The proxy-only subnet that regional load balancers take their proxies from."""

    enabled: bool | None = None
    """Create the subnet. Default: exactly when the Inference Gateway is enabled, which cannot program without it."""
    cidr: Cidr = "10.8.0.0/23"
    """Range of its own; /23 recommended, /26 the minimum. Source: Cloud Load Balancing, proxy-only subnets."""


class Nat(Section):
    """Cloud NAT: the only way out for private nodes, and what the weights download runs through."""

    min_ports_per_vm: Annotated[int, Field(ge=64, le=65_536)] = 1_024
    """Ports a node starts with; a power of two. Git LFS opens few connections, image pulls and DNS the rest."""
    max_ports_per_vm: Annotated[int, Field(ge=64, le=65_536)] = 16_384
    """Ports a node may grow to; a power of two, above `minPortsPerVm`."""


class Network(Section):
    """The VPC of the fleet: ranges must not overlap and must be large enough for the replicas."""

    node_cidr: Cidr = "10.0.0.0/20"
    """Primary range of the node subnet, one address a node."""
    pod_cidr: Cidr = "10.64.0.0/14"
    """Secondary range for pods; Autopilot takes a /26 or larger from it for every node."""
    service_cidr: Cidr = "10.32.0.0/20"
    """Secondary range for Services."""
    proxy_only: ProxyOnly = ProxyOnly()
    """The proxy-only subnet of the regional load balancer."""
    nat: Nat = Nat()
    """Cloud NAT's ports."""
