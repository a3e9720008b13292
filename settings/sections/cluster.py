"""Section `cluster`: the Autopilot cluster."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from settings.sections.network import Cidr
from settings.sections.section import Moment, Section, ShortName, like


class AuthorizedNetwork(Section):
    """A range that may reach the control plane's IP endpoint."""

    name: Annotated[str, like(r"^\S(.{0,61}\S)?$", "1 to 63 characters, without spaces around them")]
    """Name of the network, e.g. "office"."""
    cidr: Cidr
    """IPv4 range of the network."""


MOST_AUTHORIZED_NETWORKS = 100
"""Source: GKE docs, "Customize your network isolation", authorized networks."""


class IpEndpoint(Section):
    """The control plane's IP endpoint. The DNS endpoint, protected by IAM, is always enabled."""

    enabled: bool = False
    """Enable the IP endpoint in addition to the DNS endpoint."""
    authorized_networks: Annotated[tuple[AuthorizedNetwork, ...], Field(max_length=MOST_AUTHORIZED_NETWORKS)] = ()
    """The only ranges that can reach the IP endpoint, up to 100; required if it is enabled."""


_DAY = "(?:MO|TU|WE|TH|FR|SA|SU)"


class Maintenance(Section):
    """Maintenance windows. A node upgrade restarts the replicas on the node."""

    start_time: Moment = "2026-01-03T02:00:00Z"
    """Start of the first window, RFC 3339 in UTC."""
    end_time: Moment = "2026-01-03T10:00:00Z"
    """End of the first window. Every window has the same length, 4 hours or more."""
    recurrence: Annotated[
        str,
        like(
            rf"^FREQ=(DAILY|WEEKLY(;BYDAY={_DAY}(,{_DAY})*)?)$",
            "FREQ=DAILY, or FREQ=WEEKLY, optionally with days, such as FREQ=WEEKLY;BYDAY=SA,SU",
        ),
    ] = "FREQ=WEEKLY;BYDAY=SA,SU"
    """Daily or weekly RFC 5545 rule. GKE requires at least 48 hours of windows in any 92 days."""


class Cluster(Section):
    """The Autopilot cluster."""

    name: ShortName | None = None
    """Name of the cluster. Default: the article's name and the stack's, e.g. `vllm-inference-cluster-dev`."""
    release_channel: Literal["RAPID", "REGULAR", "STABLE"] = "RAPID"
    """Release channel; the article uses RAPID, which has no SLA. Use REGULAR in production. The program needs
    1.34.0-gke.1626000 or later, which every channel has (September 2026)."""
    deletion_protection: bool = True
    """Prevent `pulumi destroy` of the stack, with `-f` too. To destroy it, set this to false and run `pulumi up` first."""
    min_version: (
        Annotated[
            str,
            like(
                r"^1\.[0-9]{2}(\.[0-9]{1,2}(-gke\.[0-9]{1,8})?)?$", "a GKE version, such as 1.37 or 1.37.0-gke.3100000"
            ),
        ]
        | None
    ) = None
    """Minimum version of the control plane. GKE is asked for the newest patch of its minor version, since it withdraws patches after weeks;
    the whole number says what the cluster is known to have. Default: the channel's version."""
    keda: bool | None = None
    """Install KEDA, the autoscaler, for this stack and stacks that join its cluster. Default: only if `server.scaling` needs it."""
    ip_endpoint: IpEndpoint = IpEndpoint()
    """The control plane's IP endpoint."""
    maintenance: Maintenance = Maintenance()
    """When GKE may upgrade the cluster."""
