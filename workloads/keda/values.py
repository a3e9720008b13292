"""Typed values of the `keda` Helm chart v2.20.2: the subset that this project sets.

Source of every key and default: kedacore/charts, keda/values.yaml and keda/templates of version 2.20.2. Its pods meet the Pod Security
level `restricted`.
"""

from __future__ import annotations

from typing import Any, Final

from facts.names import KEDA_ACCOUNT, KEDA_VCPUS
from workloads.gateway.values import Amounts, Resources, Values

CHART: Final = "keda"
REPOSITORY: Final = "https://kedacore.github.io/charts"
OPERATOR: Final = "keda-operator"
"""The operator's Deployment, and the label `app` of its pods. Source: values.yaml, operator.name."""
METRICS_SERVER: Final = f"{OPERATOR}-metrics-apiserver"
WEBHOOKS: Final = "keda-admission-webhooks"


class EachResources(Values):
    """Resources of the three Deployments."""

    operator: Resources
    metric_server: Resources
    webhooks: Resources


class ServiceAccounts(Values):
    """The operator's service account, its identity in IAM."""

    operator: dict[str, str]


class ChartValues(Values):
    """The whole values file."""

    resources: EachResources
    service_account: ServiceAccounts

    def rendered(self) -> dict[str, Any]:
        """The values as Helm reads them."""
        return self.model_dump(mode="json", by_alias=True)


def chart_values() -> ChartValues:
    """Values for every cluster: the operator reads a metric every 15 seconds per scaled object."""
    # The chart requests 100m and 100Mi and limits ten times as much. Assumed: a quarter of a core serves a few ScaledObjects.
    amounts = Amounts(cpu=f"{1000 * KEDA_VCPUS / 3:.0f}m", memory="512Mi")
    each = Resources(requests=amounts, limits=amounts)
    return ChartValues(
        resources=EachResources(operator=each, metric_server=each, webhooks=each),
        service_account=ServiceAccounts(operator={"name": KEDA_ACCOUNT}),
    )
