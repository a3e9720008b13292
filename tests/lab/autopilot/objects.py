"""Objects that Autopilot takes as they are, and ways to change one thing about them."""

from __future__ import annotations

import copy
from typing import Any

Manifest = dict[str, Any]

NAMESPACE = "autopilot-rules"
GKE = "cloud.google.com"
SPOT: Manifest = {f"{GKE}/gke-accelerator": "nvidia-b200", f"{GKE}/gke-spot": "true"}
L4: Manifest = {**SPOT, f"{GKE}/gke-accelerator": "nvidia-l4"}
H100: Manifest = {**SPOT, f"{GKE}/gke-accelerator": "nvidia-h100-80gb"}
LOCAL_SSD = f"{GKE}/gke-ephemeral-storage-local-ssd"
FLEX: Manifest = {f"{GKE}/gke-accelerator": "nvidia-b200", f"{GKE}/gke-flex-start": "true"}
RESERVED: Manifest = {
    f"{GKE}/gke-accelerator": "nvidia-b200",
    f"{GKE}/reservation-name": "block-7",
    f"{GKE}/reservation-affinity": "specific",
}
PERFORMANCE: Manifest = {f"{GKE}/compute-class": "Performance", f"{GKE}/machine-family": "c4"}
GPU_TAINT = {"key": "nvidia.com/gpu", "operator": "Equal", "value": "present", "effect": "NoSchedule"}
SPOT_TAINT = {"key": f"{GKE}/gke-spot", "operator": "Equal", "value": "true", "effect": "NoSchedule"}
CLASS_TAINT = {"key": f"{GKE}/compute-class", "operator": "Equal", "value": "Performance", "effect": "NoSchedule"}
ARM_TAINT = {"key": "kubernetes.io/arch", "operator": "Exists"}


def amounts(**wanted: str) -> Manifest:
    """Requests and limits, equal. Names of resources with underscores for `-`; `gpu` for nvidia.com/gpu."""
    named = {{"gpu": "nvidia.com/gpu"}.get(key, key.replace("_", "-")): value for key, value in wanted.items()}
    return {"requests": named, "limits": dict(named)}


SMALL = amounts(cpu="1", memory="2Gi", ephemeral_storage="1Gi")
WHOLE_NODE = amounts(cpu="160", memory="1000Gi", ephemeral_storage="500Gi", gpu="8")


def container(name: str = "app", resources: Manifest | None = None, **fields: Any) -> Manifest:
    """A container that asks for a little."""
    asked = copy.deepcopy(SMALL if resources is None else resources)
    return {"name": name, "image": "registry.example/app:1", "resources": asked, **fields}


def pod(**spec: Any) -> Manifest:
    """A general-purpose pod."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "app", "namespace": NAMESPACE, "labels": {"app": "app"}},
        "spec": {
            "containers": [container()],
            "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
            "terminationGracePeriodSeconds": 15,
            **copy.deepcopy(spec),
        },
    }


def gpu_pod(selector: Manifest = SPOT, resources: Manifest | None = None, **spec: Any) -> Manifest:
    """A pod on a whole A4 node."""
    asked = WHOLE_NODE if resources is None else resources
    return pod(
        **{
            "containers": [container(resources=asked)],
            "nodeSelector": selector,
            "tolerations": [GPU_TAINT, SPOT_TAINT],
            **spec,
        }
    )


def performance_pod(selector: Manifest = PERFORMANCE, **spec: Any) -> Manifest:
    """A pod on a machine of compute class Performance."""
    asked = amounts(cpu="14", memory="48Gi", ephemeral_storage="40Gi")
    return pod(
        **{
            "containers": [container(resources=asked)],
            "nodeSelector": selector,
            "tolerations": [CLASS_TAINT, ARM_TAINT],
            **spec,
        }
    )


def template(of: Manifest) -> Manifest:
    """Metadata and spec of a pod, as a controller's template."""
    labels = {"labels": {"app": "app"}}
    return {
        "metadata": {**labels, **{k: v for k, v in of["metadata"].items() if k == "annotations"}},
        "spec": of["spec"],
    }


def deployment(of: Manifest) -> Manifest:
    """A Deployment of that pod."""
    spec = {"replicas": 0, "selector": {"matchLabels": {"app": "app"}}, "template": template(of)}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "app", "namespace": NAMESPACE},
        "spec": spec,
    }


def cron_job(of: Manifest) -> Manifest:
    """A CronJob of that pod."""
    made = template(of)
    made["spec"] = {**made["spec"], "restartPolicy": "Never"}
    spec = {"schedule": "0 4 * * *", "jobTemplate": {"spec": {"template": made}}}
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "app", "namespace": NAMESPACE},
        "spec": spec,
    }


def service(**spec: Any) -> Manifest:
    """A Service inside the cluster."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "app", "namespace": NAMESPACE},
        "spec": {"selector": {"app": "app"}, "ports": [{"port": 80}], **spec},
    }


PRIORITY: Manifest = {
    "machineType": "a4-highgpu-8g",
    "gpu": {"type": "nvidia-b200", "count": 8, "driverVersion": "latest"},
}


def compute_class(*priorities: Manifest, name: str = "b200-class", **spec: Any) -> Manifest:
    """A ComputeClass with these priorities for A4 nodes."""
    return {
        "apiVersion": f"{GKE}/v1",
        "kind": "ComputeClass",
        "metadata": {"name": name},
        "spec": {
            "nodePoolAutoCreation": {"enabled": True},
            "whenUnsatisfiable": "DoNotScaleUp",
            "priorities": [{**PRIORITY, **priority} for priority in priorities] or [{**PRIORITY, "spot": True}],
            **spec,
        },
    }


def storage_class(**parameters: str) -> Manifest:
    """A class of Hyperdisk ML volumes. Names of parameters with underscores for `-`."""
    named = {key.replace("_", "-"): value for key, value in parameters.items()}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "autopilot-rules"},
        "provisioner": "pd.csi.storage.gke.io",
        "parameters": {"type": "hyperdisk-ml", "provisioned-throughput-on-create": "1200Mi", **named},
    }
