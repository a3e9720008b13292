"""Section `cluster`: the Autopilot cluster."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from settings.sections.network import Cidr
from settings.sections.section import Section


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

    name: Annotated[str, Field(pattern=r"^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$")] | None = None
    """Name of the cluster. Default: the article's and the stack's, `vllm-inference-cluster-dev`."""
    release_channel: Literal["RAPID", "REGULAR", "STABLE"] = "RAPID"
    """Release channel; the article uses RAPID, which has B200 and the Inference Gateway's CRDs first."""
    deletion_protection: bool = True
    """Refuse `pulumi destroy` while true. Set it to false, `pulumi up`, then destroy."""
    ip_endpoint: IpEndpoint = IpEndpoint()
    """The control plane's IP endpoint."""
    maintenance: Maintenance = Maintenance()
    """When GKE may upgrade nodes."""
