"""Section `gateway`: the Inference Gateway."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from facts.pickers import ARTICLES, LLM_D, LLM_D_POOL_ENDING, PickerRelease
from settings.sections.section import Name, Section, ShortName, like

_LABEL = "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
Hostname = Annotated[
    str,
    like(
        rf"^({_LABEL}\.){{1,10}}[a-z]([-a-z0-9]{{0,61}}[a-z0-9])?$",
        "a full host name, such as llm.example.com, in lowercase, without wildcard, port or final dot",
    ),
    Field(max_length=253),
]
"""A DNS name with a domain. Source: Gateway API v1, Hostname; without a wildcard, because the DNS records name one host."""


GATEWAY_NAME: Final = "inference-gateway"
"""Name of the Gateway, as in the article."""
STREAM_SECONDS: Final = 3_600
"""Backend timeout. GKE's default of 30 s and the chart's of 300 s abort long generations."""
EPP_MEMORY_GIB: Final = 16
"""Memory of the endpoint picker, as in the article."""


class Epp(Section):
    """The endpoint picker, which chooses a replica for each request."""

    release: PickerRelease = ARTICLES
    """`inference-extension-v1.4.0`: the article's, by the chart inferencepool; its line ended. `llm-d-router-v0.10.0`: the line that
    continues it, by objects of this program, with a pool of its own: the route changes to it once it is ready."""
    cpu: Annotated[int, Field(ge=1, le=48)] = 10
    """vCPU of the endpoint picker. It crashed at 8,000 connections with the chart's old default of 0.5; the article uses 10."""
    replicas: Annotated[int, Field(ge=1, le=3)] = 1
    """1, or 2 to 3 for standby. Only one picker is active at a time, so more replicas do not add throughput."""


class Tls(Section):
    """The certificate of the gateway's HTTPS listener."""

    certificate: Name | None = None
    """Name of an existing Certificate Manager certificate in the stack's project and region. Default: Google issues and renews one,
    after you create the DNS record of the output `dns`. Regional Gateways do not support certificate maps."""


class Gateway(Section):
    """The Inference Gateway. In the article it reduced throughput by 31 to 37 %."""

    enabled: bool = False
    """Put the Inference Gateway in front of the replicas."""
    pool: ShortName = "qwen35-pool"
    """Name of the route, and of the InferencePool and the Helm release. With llm-d's picker the pool's name ends in -llm-d. Default: the
    article's."""
    gateway_class: Literal["gke-l7-rilb", "gke-l7-regional-external-managed"] = "gke-l7-rilb"
    """GatewayClass: regional internal or regional external load balancer. InferencePool does not support global classes."""
    hostname: Hostname | None = None
    """Name under which clients call the gateway, e.g. llm.example.com: HTTPS on port 443; port 80 serves nothing. Default: plain HTTP
    at the load balancer's address."""
    tls: Tls = Tls()
    """The certificate for `hostname`."""
    address: Name | None = None
    """Name of an existing static address of the stack's region, internal with purpose SHARED_LOADBALANCER_VIP, or external. Default: with
    `hostname` a new static address, otherwise one that GKE chooses."""
    epp: Epp = Epp()
    """The endpoint picker."""

    @property
    def has_llm_d(self) -> bool:
        """Whether llm-d's picker is installed, by objects of this program."""
        return self.epp.release == LLM_D

    @property
    def pool_name(self) -> str:
        """Name of the InferencePool."""
        return self.pool + LLM_D_POOL_ENDING if self.has_llm_d else self.pool

    @property
    def is_public(self) -> bool:
        """Whether the load balancer's address is on the internet."""
        return self.gateway_class != "gke-l7-rilb"

    @property
    def makes_address(self) -> bool:
        """Whether the stack creates the static address."""
        return self.enabled and self.hostname is not None and self.address is None

    @property
    def makes_certificate(self) -> bool:
        """Whether the stack creates the certificate."""
        return self.enabled and self.hostname is not None and self.tls.certificate is None
