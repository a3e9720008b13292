"""The manifest checks find what an API server would refuse."""

from __future__ import annotations

from typing import Any

from tests.support.rows import each_row
from tests.support.schemas import problems


def test_a_misspelt_field_of_a_core_kind_is_found() -> None:
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "a"}, "spec": {"acessModes": []}}
    assert "acessModes" in problems(claim)[0]


def test_a_misspelt_field_of_a_policy_is_found() -> None:
    policy = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "a"},
        "spec": {"podSelector": {}, "policyType": ["Egress"]},
    }
    assert "policyType" in problems(policy)[0]


def custom(version: str, kind: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "a"}, "spec": spec}


PRIORITY = {"machineType": "a4-highgpu-8g", "gpu": {"type": "nvidia-b200", "count": 8}}
CLASS = {"priorities": [PRIORITY], "whenUnsatisfiable": "DoNotScaleUp"}
COMPUTE = ("cloud.google.com/v1", "ComputeClass")
TRIGGER = {"type": "cron", "metadata": {"start": "0 8 * * *"}}
SCALED = {"scaleTargetRef": {"name": "server"}, "minReplicaCount": 1, "triggers": [TRIGGER]}


@each_row(
    ("manifest", "said"),
    [
        (custom(*COMPUTE, **CLASS), ""),
        (custom(*COMPUTE, **CLASS, nodePoolAutoCreation={"enabled": True}), ""),
        (custom(*COMPUTE, **CLASS, nodePoolAutoCreation={"enabled": "yes"}), "'yes' is not of type 'boolean'"),
        (custom(*COMPUTE, **CLASS, nodePoolAutocreation={"enabled": True}), "nodePoolAutocreation"),
        (
            custom(
                *COMPUTE, priorities=[PRIORITY | {"gpu": {"type": "x", "count": "8"}}], whenUnsatisfiable="DoNotScaleUp"
            ),
            "'8'",
        ),
        (custom("cloud.google.com/v1", "ComputerClass"), "no schema for cloud.google.com/v1 ComputerClass"),
        (
            custom(
                "monitoring.googleapis.com/v1",
                "PodMonitoring",
                selector={},
                endpoints=[{"port": "http", "intervall": "9s"}],
            ),
            "intervall",
        ),
        (
            custom("monitoring.googleapis.com/v1", "PodMonitoring", selector={}, endpoints=[{"port": "http"}]),
            "'interval' is a required property",
        ),
        (custom("keda.sh/v1alpha1", "ScaledObject", **SCALED), ""),
        (custom("keda.sh/v1alpha1", "ScaledObject", **SCALED, minReplicas=1), "minReplicas"),
        (
            custom("keda.sh/v1alpha1", "ScaledObject", **(SCALED | {"minReplicaCount": "1"})),
            "'1' is not of type 'integer'",
        ),
        (custom("gateway.networking.k8s.io/v1", "Gateway", gatewayClassName="gke-l7-rilb", listeners=[]), "listeners"),
        (custom("gateway.networking.k8s.io/v1", "HTTPRoute", rules=[{"backendRef": []}]), "backendRef"),
        (custom("snapshot.storage.k8s.io/v1", "VolumeSnapshot", source={}), "source"),
        (custom("networking.gke.io/v1", "GCPBackendPolicy", defaults={}), "defaults"),
        (custom("example.org/v1", "Thing"), "no schema for example.org/v1 Thing"),
    ],
)
def test_wrong_fields_of_custom_resources_are_found_without_a_folder_beside_the_repository(
    manifest: dict[str, Any], said: str
) -> None:
    found = problems(manifest)
    assert (said in " ".join(found)) is True
    assert bool(found) is bool(said), found
