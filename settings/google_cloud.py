"""Sections of the stack file that become Google Cloud resources."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from settings.section import Section

Cidr = Annotated[str, Field(pattern=r"^(\d{1,3}\.){3}\d{1,3}/\d{1,2}$")]
"""An IPv4 range such as "10.0.0.0/20"."""


class Platform(Section):
    """Where the cluster comes from: this stack, or another one that already has it."""

    stack: Annotated[str, Field(pattern=r"^[^/\s]+/[^/\s]+/[^/\s]+$")] | None = None
    """`organization/project/stack` of the stack whose cluster this server joins. Default: this stack makes its own."""


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


class AuthorizedNetwork(Section):
    """A range that may reach the control plane's IP endpoint."""

    name: Annotated[str, Field(min_length=1, max_length=63)]
    """Who it is, e.g. "office"."""
    cidr: Cidr
    """The range."""


class IpEndpoint(Section):
    """The control plane's IP endpoint. The DNS endpoint, guarded by IAM, is always on."""

    enabled: bool = False
    """Keep the IP endpoint as well."""
    authorized_networks: tuple[AuthorizedNetwork, ...] = ()
    """The only ranges that reach it; required when it is enabled."""


class Maintenance(Section):
    """When GKE may upgrade: a node upgrade restarts the replicas on it."""

    start_time: Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")] = "2026-01-03T02:00:00Z"
    """First window's start, RFC 3339 in UTC."""
    end_time: Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")] = "2026-01-03T10:00:00Z"
    """First window's end; the length is kept by each recurrence."""
    recurrence: Annotated[str, Field(pattern=r"^FREQ=")] = "FREQ=WEEKLY;BYDAY=SA,SU"
    """RFC 5545 rule. GKE requires at least 48 hours of windows in any 32 days."""


class Cluster(Section):
    """The Autopilot cluster."""

    name: Annotated[str, Field(pattern=r"^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$")] = "vllm-inference-cluster"
    """Name of the cluster; the article's by default."""
    release_channel: Literal["RAPID", "REGULAR", "STABLE"] = "RAPID"
    """Release channel; the article uses RAPID, which has B200 and the Inference Gateway's CRDs first."""
    deletion_protection: bool = True
    """Refuse `pulumi destroy` while true. Set it to false, `pulumi up`, then destroy."""
    ip_endpoint: IpEndpoint = IpEndpoint()
    """The control plane's IP endpoint."""
    maintenance: Maintenance = Maintenance()
    """When GKE may upgrade nodes."""


class Budget(Section):
    """A billing budget that warns; it never stops spending."""

    billing_account: Annotated[str, Field(pattern=r"^[0-9A-F]{6}-[0-9A-F]{6}-[0-9A-F]{6}$")]
    """The billing account, e.g. "01ABCD-234567-89EFAB"."""
    usd_per_month: Annotated[int, Field(gt=0)]
    """The month's amount in whole USD; the account's currency must be USD."""
    thresholds: tuple[Annotated[float, Field(gt=0, le=2)], ...] = (0.5, 0.9, 1.0)
    """Shares of the amount that send a warning; 1.0 is 100 %."""


class Results(Section):
    """The bucket that keeps benchmark results."""

    retention_days: Annotated[int, Field(ge=1, le=3650)] = 90
    """Days after which a result is deleted."""
