"""Section `cluster`: the Autopilot cluster."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from settings.sections.network import Cidr
from settings.sections.section import Moment, Name, Section, ShortName, like


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


_DAY = "(?:MO|TU|WE|TH|FR|SA|SU)"


class MaintenanceExclusion(Section):
    """A time in which GKE leaves the cluster as it is, e.g. a launch."""

    name: Name
    """What it is for, e.g. "launch"; unique."""
    start_time: Moment
    """Its start, RFC 3339 in UTC."""
    end_time: Moment | None = None
    """Its end. Default: when the support of the cluster's minor version ends, renewed with each; required for NO_UPGRADES."""
    scope: Literal["NO_UPGRADES", "NO_MINOR_UPGRADES", "NO_MINOR_OR_NODE_UPGRADES"]
    """What is left out: every upgrade (90 days at most), new minor versions, or those and every upgrade of nodes, which restarts
    replicas."""


class Maintenance(Section):
    """When GKE may upgrade: a node upgrade restarts the replicas on it."""

    start_time: Moment = "2026-01-03T02:00:00Z"
    """First window's start, RFC 3339 in UTC."""
    end_time: Moment = "2026-01-03T10:00:00Z"
    """First window's end; the length is kept by each recurrence, 4 hours or more."""
    recurrence: Annotated[
        str,
        like(
            rf"^FREQ=(DAILY|WEEKLY(;BYDAY={_DAY}(,{_DAY})*)?)$",
            "FREQ=DAILY, FREQ=WEEKLY, or the latter with days, such as FREQ=WEEKLY;BYDAY=SA,SU",
        ),
    ] = "FREQ=WEEKLY;BYDAY=SA,SU"
    """RFC 5545 rule, by the day or the week. GKE requires at least 48 hours of windows in any 92 days."""
    exclusions: Annotated[tuple[MaintenanceExclusion, ...], Field(max_length=20)] = ()
    """Times without upgrades, 20 at most, three of them with the scope NO_UPGRADES."""


class Cluster(Section):
    """The Autopilot cluster."""

    name: ShortName | None = None
    """Name of the cluster. Default: the article's and the stack's, `vllm-inference-cluster-dev`."""
    release_channel: Literal["RAPID", "REGULAR", "STABLE"] = "RAPID"
    """Release channel; the article uses RAPID. Production belongs on REGULAR: versions reach it after RAPID, which has no service level.
    Each is above 1.34.0-gke.1626000, which the program needs (September 2026)."""
    deletion_protection: bool = True
    """Refuse `pulumi destroy` while true. Set it to false, `pulumi up`, then destroy."""
    min_version: (
        Annotated[str, like(r"^1\.[0-9]{2}\.[0-9]{1,2}-gke\.[0-9]{1,8}$", "a GKE version, such as 1.37.0-gke.3100000")]
        | None
    ) = None
    """Lowest version of the control plane; GKE upgrades to it at once where the channel has it. Default: the channel's own choice."""
    keda: bool | None = None
    """Install KEDA, the autoscaler, for this stack and those that join. Default: where `server.scaling` needs it."""
    ip_endpoint: IpEndpoint = IpEndpoint()
    """The control plane's IP endpoint."""
    maintenance: Maintenance = Maintenance()
    """When GKE may upgrade nodes."""
