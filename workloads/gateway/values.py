"""Typed values of the `inferencepool` Helm chart v1.4.0: the subset that this project sets.

The chart provides only the pool and the endpoint picker (`provider.name: none`). Its GKE policies are in
workloads/gateway/gateway.py instead; docs/decisions/09-gateway.md gives the reasons. Source of every key and default:
gateway-api-inference-extension v1.4.0, config/charts/inferencepool/values.yaml and config/charts/epplib/templates.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from settings.sections.gateway import Epp as EppSettings
from workloads import c4_nodes, names

CHART_VERSION = "v1.4.0"
"""Values differ between releases."""
CHART = "oci://registry.k8s.io/gateway-api-inference-extension/charts/inferencepool"


class Values(BaseModel):
    """Part of a values file; unknown keys are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True)


class Port(Values):
    """One port of the model servers."""

    number: Annotated[int, Field(ge=1, le=65_535)]


class ModelServers(Values):
    """Label selector of the pool's pods."""

    match_labels: dict[str, str]


class Pool(Values):
    """The InferencePool."""

    model_servers: ModelServers
    target_ports: tuple[Port, ...]
    target_port_number: int
    """The older spelling, still read by parts of the chart; always the first of the newer."""
    model_server_type: Literal["vllm"] = "vllm"
    api_version: Literal["inference.networking.k8s.io/v1"] = "inference.networking.k8s.io/v1"


class Amounts(Values):
    """CPU and memory as Kubernetes quantities."""

    cpu: str
    memory: str


class Resources(Values):
    """Requests and limits of a pod, equal as Autopilot requires."""

    requests: Amounts
    limits: Amounts


class Switch(Values):
    """Switch for a part of the chart."""

    enabled: bool


class Prometheus(Values):
    """The chart's scrape objects, and whether /metrics requires a token."""

    enabled: bool
    auth: Switch


class EppMonitoring(Values):
    """Monitoring of the endpoint picker."""

    prometheus: Prometheus


class Epp(Values):
    """The endpoint picker."""

    replicas: int
    resources: Resources
    failure_mode: Literal["FailOpen", "FailClose"]
    monitoring: EppMonitoring
    affinity: dict[str, Any] | None = None
    tolerations: tuple[dict[str, str], ...] | None = None


class Provider(Values):
    """The chart's provider-specific objects."""

    name: Literal["none"]


class ChartValues(Values):
    """The whole values file."""

    inference_pool: Pool
    inference_extension: Epp
    provider: Provider

    def rendered(self) -> dict[str, Any]:
        """The values as Helm reads them."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


def chart_values(server: str, epp: EppSettings, ports: Sequence[int] = (names.HTTP_PORT,)) -> ChartValues:
    """The values for a pool of the pods of `server`: each of the ports is an endpoint of its own."""
    amounts = Amounts(cpu=str(epp.cpu), memory=f"{epp.memory_gib}Gi")
    return ChartValues(
        inference_pool=Pool(
            model_servers=ModelServers(match_labels=names.selector(server)),
            target_ports=tuple(Port(number=port) for port in ports),
            target_port_number=ports[0],
        ),
        inference_extension=Epp(
            replicas=epp.replicas,
            resources=Resources(requests=amounts, limits=amounts),
            # Without a picker, the proxies choose: worse balance is better than no response.
            failure_mode="FailOpen",
            # Off: the chart would create a ServiceMonitor, which GKE does not support. No token on /metrics: network
            # policies admit only the collectors.
            monitoring=EppMonitoring(prometheus=Prometheus(enabled=False, auth=Switch(enabled=False))),
            affinity=c4_nodes.node_affinity() if epp.on_c4 else None,
            tolerations=(c4_nodes.toleration(),) if epp.on_c4 else None,
        ),
        provider=Provider(name="none"),
    )
