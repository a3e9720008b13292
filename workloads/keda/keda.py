"""KEDA: operator, metrics server and webhooks, in a namespace with default-deny network policies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pulumi
import pulumi_kubernetes as k8s

from facts.names import KEDA_NAMESPACE, KEDA_VERSION
from settings.derived.traffic import Traffic, VpcRanges
from workloads import network_policies as net
from workloads.keda.values import CHART, METRICS_SERVER, OPERATOR, REPOSITORY, WEBHOOKS, chart_values
from workloads.names import once_created, stack_labels
from workloads.namespace import pod_security_labels

if TYPE_CHECKING:
    from pulumi_kubernetes.meta.v1 import ObjectMetaArgsDict

READY_SECONDS: Final = 900
"""Seconds Helm waits for KEDA's pods. Assumed: on a new cluster they are the first pods and wait for a node."""
GRPC_PORT: Final = 9666
METRICS_PORT: Final = 6443
WEBHOOK_PORT: Final = 9443
# Source: chart keda 2.20.2, manager/deployment.yaml, values.yaml service.portHttpsTarget and webhooks.port.
GOOGLES_PODS: Final = net.Namespaces(name="kube-system", label="kubernetes.io/metadata.name", values=("kube-system",))
"""Includes the agents through which a control plane without a VPC address reaches pods. Source: GKE docs, cluster
architecture (Konnectivity)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KedaArgs:
    """Arguments of `Keda`."""

    ranges: VpcRanges = field(default_factory=VpcRanges)
    """The VPC's ranges."""


class Keda(pulumi.ComponentResource):
    """KEDA's Helm release. `Autoscaling` uses it. One per cluster, because a cluster has one external metrics provider.

    It is ready once its pods are. A ScaledObject that depends on it finds its kind installed and its webhooks ready.
    """

    def __init__(self, name: str, args: KedaArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("vllm-fleet:workloads:Keda", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        labels = stack_labels()
        namespace = k8s.core.v1.Namespace(
            f"{name}-namespace",
            metadata={"name": KEDA_NAMESPACE, "labels": {**labels, **pod_security_labels()}},
            opts=child,
        )
        inside = once_created(namespace, KEDA_NAMESPACE)
        policies: list[pulumi.Resource] = []
        for policy, spec in net.policies(flows(args.ranges)).items():
            metadata: ObjectMetaArgsDict = {"name": policy, "namespace": inside, "labels": labels}
            policies.append(
                k8s.networking.v1.NetworkPolicy(f"{name}-{policy}", metadata=metadata, spec=spec, opts=child)
            )
        k8s.helm.v3.Release(
            f"{name}-release",
            name=CHART,
            namespace=inside,
            chart=CHART,
            version=KEDA_VERSION,
            repository_opts={"repo": REPOSITORY},
            values=chart_values(),
            timeout=READY_SECONDS,
            atomic=False,
            opts=pulumi.ResourceOptions(parent=self, depends_on=policies),
        )
        self.register_outputs({"version": KEDA_VERSION})


def flows(ranges: VpcRanges) -> Iterator[net.Flow]:
    """Connections that KEDA needs; all others are denied."""
    operator, metrics, webhooks = (
        net.Pods(name=app, labels=(("app", app),)) for app in (OPERATOR, METRICS_SERVER, WEBHOOKS)
    )
    around = Traffic(server=OPERATOR, ranges=ranges)
    yield from net.name_resolution(around)
    for pods in (operator, metrics, webhooks):
        yield net.Flow(pods, net.vpc(around), 443, "the Kubernetes API, at a private address that GKE chooses")
    for caller in (net.vpc(around), GOOGLES_PODS):
        yield net.Flow(caller, metrics, METRICS_PORT, "the autoscaler reads external metrics")
        yield net.Flow(caller, webhooks, WEBHOOK_PORT, "the API server validates ScaledObjects")
    yield net.Flow(metrics, operator, GRPC_PORT, "the metrics server reads values from the operator")
    yield net.Flow(operator, net.METADATA, 80, "the access token, by Workload Identity")
    yield net.Flow(operator, net.internet(around), 443, "PromQL from Cloud Monitoring")
