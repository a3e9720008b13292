"""Section `gateway`: the Inference Gateway."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from settings.sections.section import Name, Section, ShortName


class Epp(Section):
    """The endpoint picker, which chooses a replica for each request."""

    cpu: Annotated[int, Field(ge=1, le=48)] = 10
    """vCPU of the endpoint picker. It crashed at 8,000 connections with the chart's old default of 0.5; the article uses 10."""
    memory_gib: Annotated[int, Field(ge=1, le=180)] = 16
    """Memory of the endpoint picker in GiB."""
    replicas: Annotated[int, Field(ge=1, le=3)] = 1
    """1, or 2 to 3 for standby. Only one picker is active at a time, so more replicas do not add throughput."""
    on_c4: bool = False
    """Prefer a C4 node, whose faster threads help the per-token gRPC work. Not tested by the article."""


class Gateway(Section):
    """The Inference Gateway. In the article it reduced throughput by 31 to 37 %."""

    enabled: bool = False
    """Put the Inference Gateway in front of the replicas."""
    name: Name = "inference-gateway"
    """Name of the Gateway."""
    pool: ShortName = "qwen35-pool"
    """Name of the InferencePool and of the Helm release. Default: the article's."""
    gateway_class: Literal["gke-l7-rilb", "gke-l7-regional-external-managed"] = "gke-l7-rilb"
    """GatewayClass: regional internal or regional external load balancer. InferencePool does not support global classes."""
    chart_version: Literal["v1.4.0"] = "v1.4.0"
    """Version of the inferencepool chart, whose values differ between releases."""
    timeout_seconds: Annotated[int, Field(ge=30, le=86_400)] = 3_600
    """Backend timeout in seconds. GKE's default of 30 s and the chart's of 300 s abort long generations."""
    epp: Epp = Epp()
    """The endpoint picker."""
