"""The manifest checks find what an API server would refuse."""

from __future__ import annotations

from typing import Any

from tests.support.rows import each_row
from tests.support.schemas import problems


def made(version: str, kind: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "a"}, "spec": spec}


PRIORITY = {"machineType": "a4-highgpu-8g", "gpu": {"type": "nvidia-b200", "count": 8}}
CLASS = {"priorities": [PRIORITY], "whenUnsatisfiable": "DoNotScaleUp"}
COMPUTE = ("cloud.google.com/v1", "ComputeClass")
MONITORING = ("monitoring.googleapis.com/v1", "PodMonitoring")
TRIGGER = {"type": "cron", "metadata": {"start": "0 8 * * *"}}
SCALED = {"scaleTargetRef": {"name": "server"}, "minReplicaCount": 1, "triggers": [TRIGGER]}


@each_row(
    ("manifest", "said"),
    [
        (made("v1", "PersistentVolumeClaim", acessModes=[]), "acessModes"),
        (made("networking.k8s.io/v1", "NetworkPolicy", podSelector={}, policyType=["Egress"]), "policyType"),
        (made(*COMPUTE, **CLASS), ""),
        (made(*COMPUTE, **CLASS, nodePoolAutoCreation={"enabled": True}), ""),
        (made(*COMPUTE, **CLASS, nodePoolAutoCreation={"enabled": "yes"}), "'yes' is not of type 'boolean'"),
        (made(*COMPUTE, **CLASS, nodePoolAutocreation={"enabled": True}), "nodePoolAutocreation"),
        (made(*COMPUTE, **(CLASS | {"priorities": [PRIORITY | {"gpu": {"type": "x", "count": "8"}}]})), "'8'"),
        (made("cloud.google.com/v1", "ComputerClass"), "no schema for cloud.google.com/v1 ComputerClass"),
        (made(*MONITORING, selector={}, endpoints=[{"port": "http", "intervall": "9s"}]), "intervall"),
        (made(*MONITORING, selector={}, endpoints=[{"port": "http"}]), "'interval' is a required property"),
        (made("keda.sh/v1alpha1", "ScaledObject", **SCALED), ""),
        (made("keda.sh/v1alpha1", "ScaledObject", **SCALED, minReplicas=1), "minReplicas"),
        (
            made("keda.sh/v1alpha1", "ScaledObject", **(SCALED | {"minReplicaCount": "1"})),
            "'1' is not of type 'integer'",
        ),
        (made("gateway.networking.k8s.io/v1", "Gateway", gatewayClassName="gke-l7-rilb", listeners=[]), "listeners"),
        (made("gateway.networking.k8s.io/v1", "HTTPRoute", rules=[{"backendRef": []}]), "backendRef"),
        (made("snapshot.storage.k8s.io/v1", "VolumeSnapshot", source={}), "source"),
        (made("networking.gke.io/v1", "GCPBackendPolicy", defaults={}), "defaults"),
        (made("example.org/v1", "Thing"), "no schema for example.org/v1 Thing"),
    ],
)
def test_wrong_fields_are_found(manifest: dict[str, Any], said: str) -> None:
    found = problems(manifest)
    assert (said in " ".join(found)) is True
    assert bool(found) is bool(said), found
