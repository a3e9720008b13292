"""Values of the `keda` Helm chart v2.20.2.

Source of every key and default: kedacore/charts, keda/values.yaml and keda/templates of version 2.20.2. Its pods meet the Pod Security
level `restricted`.
"""

from __future__ import annotations

from typing import Any, Final

from facts.names import KEDA_ACCOUNT, KEDA_VCPUS

CHART: Final = "keda"
REPOSITORY: Final = "https://kedacore.github.io/charts"
OPERATOR: Final = "keda-operator"
"""The operator's Deployment, and the label `app` of its pods. Source: values.yaml, operator.name."""
METRICS_SERVER: Final = f"{OPERATOR}-metrics-apiserver"
WEBHOOKS: Final = "keda-admission-webhooks"


def chart_values() -> dict[str, Any]:
    """Values for every cluster: the operator reads a metric every 15 seconds per scaled object."""
    # The chart requests 100m and 100Mi and limits ten times as much. Assumed: a quarter of a core serves a few ScaledObjects.
    amounts = {"cpu": f"{1000 * KEDA_VCPUS / 3:.0f}m", "memory": "512Mi"}
    deployments = ("operator", "metricServer", "webhooks")
    return {
        "resources": {name: {"requests": amounts, "limits": dict(amounts)} for name in deployments},
        "serviceAccount": {"operator": {"name": KEDA_ACCOUNT}},
    }
