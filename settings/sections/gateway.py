"""Section `gateway`: the Inference Gateway."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from settings.sections.section import Name, Section, ShortName


class Epp(Section):
    """The endpoint picker in front of the replicas."""

    cpu: Annotated[int, Field(ge=1, le=48)] = 10
    """vCPU of the endpoint picker. 500m, an old default, crashed at 8,000 connections; the article settled on 10."""
    memory_gib: Annotated[int, Field(ge=1, le=180)] = 16
    """Memory of the endpoint picker in GiB."""
    replicas: Annotated[int, Field(ge=1, le=3)] = 1
    """1, or 2 to 3 for standby: one picker is active at a time whatever the number, so this is no way to scale."""
    on_c4: bool = False
    """Ask for a C4 node by affinity: faster single threads for the per-token gRPC work. Untested by the article."""


class Gateway(Section):
    """The Inference Gateway. It cost 31 to 37 % of the throughput in the article."""

    enabled: bool = False
    """Put the Inference Gateway in front of the replicas."""
    name: Name = "inference-gateway"
    """Name of the Gateway."""
    pool: ShortName = "qwen35-pool"
    """Name of the InferencePool and of the Helm release; the article's by default. Its picker's objects end in `-epp`, and the chart
    cuts what is before that after 40 characters."""
    gateway_class: Literal["gke-l7-rilb", "gke-l7-regional-external-managed"] = "gke-l7-rilb"
    """Regional internal load balancer, or regional external. InferencePool does not work with global classes."""
    chart_version: Literal["v1.4.0"] = "v1.4.0"
    """Version of the inferencepool chart; its values differ between releases."""
    timeout_seconds: Annotated[int, Field(ge=30, le=86_400)] = 3_600
    """Backend timeout. GKE's own 30 s and the chart's 300 s cut long generations."""
    epp: Epp = Epp()
    """The endpoint picker."""
