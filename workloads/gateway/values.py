"""Values of the `inferencepool` Helm chart v1.4.0.

The chart provides only the pool and the endpoint picker (`provider.name: none`). Its GKE policies are in
workloads/gateway/gateway.py instead; docs/decisions/09-gateway.md gives the reasons. Source of every key and default:
gateway-api-inference-extension v1.4.0, config/charts/inferencepool/values.yaml and config/charts/epplib/templates.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from settings.sections.gateway import EPP_MEMORY_GIB, Epp
from workloads import names

CHART_VERSION = "v1.4.0"
"""Values differ between releases."""
CHART = "oci://registry.k8s.io/gateway-api-inference-extension/charts/inferencepool"


def chart_values(server: str, epp: Epp, ports: Sequence[int] = (names.HTTP_PORT,)) -> dict[str, Any]:
    """The values for a pool of the pods of `server`: each of the ports is an endpoint of its own."""
    amounts = {"cpu": str(epp.cpu), "memory": f"{EPP_MEMORY_GIB}Gi"}
    picker: dict[str, Any] = {
        "replicas": epp.replicas,
        "resources": {"requests": amounts, "limits": dict(amounts)},
        # Without a picker, the proxies choose: worse balance is better than no response.
        "failureMode": "FailOpen",
        # Off: the chart would create a ServiceMonitor, which GKE does not support. No token on /metrics: network
        # policies admit only the collectors.
        "monitoring": {"prometheus": {"enabled": False, "auth": {"enabled": False}}},
    }
    return {
        "inferencePool": {
            "modelServers": {"matchLabels": names.selector(server)},
            "targetPorts": [{"number": port} for port in ports],
            # The older spelling, still read by parts of the chart; always the first of the newer.
            "targetPortNumber": ports[0],
            "modelServerType": "vllm",
            "apiVersion": "inference.networking.k8s.io/v1",
        },
        "inferenceExtension": picker,
        "provider": {"name": "none"},
    }
