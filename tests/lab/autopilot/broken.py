"""One object that breaks each rule, and a value that its verdict names."""

from __future__ import annotations

from dataclasses import dataclass

from tests.lab.autopilot.objects import (
    CLASS_TAINT,
    FLEX,
    GKE,
    GPU_TAINT,
    H100,
    L4,
    LOCAL_SSD,
    PERFORMANCE,
    RESERVED,
    SPOT,
    Manifest,
    amounts,
    compute_class,
    container,
    gpu_pod,
    performance_pod,
    pod,
    service,
    storage_class,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """A rule, broken."""

    policy: str
    rule: int
    """Its place among the policy's validations, from 0."""
    broken: Manifest
    names: str
    """A value of the object, or what to write instead."""


def _host_path(path: str, read_only: bool) -> Manifest:
    mount = {"name": "logs", "mountPath": "/logs", "readOnly": read_only}
    volume = {"name": "logs", "hostPath": {"path": path}}
    return pod(containers=[container(volumeMounts=[mount])], volumes=[volume])


def _affinity(**labels: str) -> Manifest:
    terms = [
        {"key": f"{GKE}/{key.replace('_', '-')}", "operator": "In", "values": [value]} for key, value in labels.items()
    ]
    required = {"nodeSelectorTerms": [{"matchExpressions": terms}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def _on_host(name: str) -> Manifest:
    preferred = {"weight": 1, "preference": {"matchExpressions": [{"key": name, "operator": "Exists"}]}}
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [preferred]}}


_UNMASKED = {"hostUsers": False, "containers": [container(securityContext={"procMount": "Unmasked"})]}
_RULES: dict[str, list[tuple[Manifest, str]]] = {
    "autopilot-security": [
        (
            pod(containers=[container(), container("side", securityContext={"privileged": True})]),
            "side",
        ),
        (
            pod(hostNetwork=True, hostPID=True),
            "hostNetwork, hostPID",
        ),
        (
            pod(
                initContainers=[container("tune", securityContext={"capabilities": {"add": ["SYS_NICE", "CHOWN"]}})],
                containers=[container(securityContext={"capabilities": {"add": ["IPC_LOCK"], "drop": ["ALL"]}})],
            ),
            "SYS_NICE",
        ),
        (
            pod(**_UNMASKED),
            "procMount",
        ),
        (
            pod(securityContext={"sysctls": [{"name": "net.core.somaxconn", "value": "65535"}]}),
            "net.core.somaxconn",
        ),
        (
            pod(containers=[container(ports=[{"containerPort": 8000, "hostPort": 8000}])]),
            "8000",
        ),
    ],
    "autopilot-volumes": [
        (
            pod(volumes=[{"name": "lun", "iscsi": {"targetPortal": "10.0.0.1", "iqn": "iqn.2001-04.a.b:c", "lun": 0}}]),
            "iscsi",
        ),
        (
            _host_path("/home/kubernetes/bin/gib", read_only=True),
            "/home/kubernetes/bin/gib",
        ),
        (
            _host_path("/var/log/pods", read_only=False),
            "readOnly: true",
        ),
    ],
    "autopilot-services": [
        (
            service(externalIPs=["203.0.113.7"]),
            "203.0.113.7",
        ),
    ],
    "autopilot-node-selection": [
        (
            gpu_pod({f"{GKE}/gke-spot": "true"}),
            "gke-accelerator",
        ),
        (
            pod(tolerations=[{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]),
            "nvidia.com/gpu",
        ),
        (
            pod(affinity=_affinity(machine_family="c4")),
            "machine-family c4",
        ),
        (
            performance_pod(
                {**PERFORMANCE, "node.kubernetes.io/instance-type": "c4-standard-16"},
                affinity=_on_host("kubernetes.io/hostname"),
            ),
            "kubernetes.io/hostname, node.kubernetes.io/instance-type",
        ),
        (
            gpu_pod(L4, amounts(cpu="8", memory="36Gi", gpu="3")),
            "1, 2, 4, 8",
        ),
        (
            gpu_pod({**SPOT, LOCAL_SSD: "true"}),
            "gke-ephemeral-storage-local-ssd",
        ),
    ],
    "autopilot-general-purpose-limits": [
        (
            pod(
                containers=[
                    container(resources=amounts(cpu="16", memory="32Gi", ephemeral_storage="1Gi")),
                    container("side", amounts(cpu="14500m", memory="29Gi", ephemeral_storage="1Gi")),
                ]
            ),
            "30.5 vCPU",
        ),
        (
            pod(containers=[container(resources=amounts(cpu="20", memory="111Gi", ephemeral_storage="1Gi"))]),
            "111.0 GiB",
        ),
        (
            pod(
                initContainers=[
                    container("fetch", {"limits": {"cpu": "1", "memory": "2Gi", "ephemeral-storage": "10752Mi"}})
                ],
            ),
            "10.5 GiB",
        ),
    ],
    "autopilot-no-node-comes": [
        (
            gpu_pod({f"{GKE}/gke-accelerator": "nvidia-b-200"}),
            "nvidia-b-200",
        ),
        (
            gpu_pod({**H100, f"{GKE}/gke-accelerator-count": "1"}, amounts(cpu="40", memory="300Gi", gpu="2")),
            "1, 2, 4, 8",
        ),
        (
            gpu_pod({**SPOT, f"{GKE}/gke-gpu-driver-version": "newest"}),
            "newest",
        ),
        (
            gpu_pod({**SPOT, f"{GKE}/gke-spot": "yes"}),
            '"yes"',
        ),
        (
            gpu_pod({**FLEX, f"{GKE}/gke-flex-start": "false"}),
            '"false"',
        ),
        (
            gpu_pod({f"{GKE}/gke-accelerator": "nvidia-b200", f"{GKE}/gke-provisioning": "cheap"}),
            "cheap",
        ),
        (
            gpu_pod({**FLEX, f"{GKE}/gke-provisioning": "standard"}),
            "gke-flex-start and gke-provisioning standard",
        ),
        (
            gpu_pod({**SPOT, f"{GKE}/gke-provisioning": "standard"}),
            "gke-spot and gke-provisioning standard",
        ),
        (
            gpu_pod({**SPOT, **FLEX}),
            "flex-start and gke-spot",
        ),
        (
            gpu_pod({**RESERVED, **FLEX}),
            "cloud.google.com/reservation-affinity=specific, cloud.google.com/reservation-name=block-7",
        ),
        (
            gpu_pod({**RESERVED, **SPOT}),
            "block-7",
        ),
        (
            gpu_pod({f"{GKE}/gke-accelerator": "nvidia-b200", f"{GKE}/reservation-affinity": "exact"}),
            "exact",
        ),
        (
            gpu_pod({f"{GKE}/gke-accelerator": "nvidia-b200", f"{GKE}/reservation-affinity": "specific"}),
            "cloud.google.com/reservation-name",
        ),
        (
            gpu_pod({f"{GKE}/gke-accelerator": "nvidia-b200", f"{GKE}/reservation-name": "block-7"}),
            "cloud.google.com/reservation-affinity: specific",
        ),
        (
            gpu_pod({**FLEX, f"{GKE}/gke-max-run-duration-seconds": "604801"}),
            '"604801"',
        ),
        (
            gpu_pod({**FLEX, f"{GKE}/gke-node-recycle-lead-time-seconds": "1h"}),
            '"1h"',
        ),
        (
            gpu_pod(RESERVED, tolerations=[GPU_TAINT, {"key": f"{GKE}/gke-flex-start", "operator": "Exists"}]),
            'cloud.google.com/gke-flex-start: "true"',
        ),
        (
            gpu_pod({f"{GKE}/compute-class": "autopilot-b200"}),
            "autopilot-b200",
        ),
        (
            performance_pod({**PERFORMANCE, f"{GKE}/machine-family": "a4"}),
            "machine-family a4",
        ),
        (
            gpu_pod({**SPOT, f"{GKE}/compute-class": "Performance"}, tolerations=[GPU_TAINT, CLASS_TAINT]),
            "requests 8",
        ),
        (
            performance_pod({**PERFORMANCE, f"{GKE}/machine-family": "c4a", "kubernetes.io/arch": "amd64"}),
            "c4a",
        ),
    ],
    "autopilot-resources": [
        (
            pod(containers=[container(resources=amounts(cpu="1", memory="2Gi")), container("side", {})]),
            "app ephemeral-storage, side cpu, side memory, side ephemeral-storage",
        ),
        (
            pod(
                containers=[
                    container(
                        resources={
                            "requests": {"cpu": "1", "memory": "2Gi", "ephemeral-storage": "1Gi"},
                            "limits": {"memory": "4Gi", "ephemeral-storage": "1024Mi"},
                        }
                    )
                ]
            ),
            "app cpu 1 against no limit, app memory 2Gi",
        ),
        (
            pod(containers=[container(resources=amounts(cpu="1", memory="8Gi", ephemeral_storage="1Gi"))]),
            "8.0 GiB",
        ),
    ],
    "autopilot-pod-defaults": [
        (
            pod(securityContext={"runAsUser": 1000}),
            "RuntimeDefault",
        ),
        (
            gpu_pod(tolerations=[{**GPU_TAINT, "value": "absent"}]),
            "cloud.google.com/gke-spot=true:NoSchedule",
        ),
    ],
    "autopilot-node-sized": [
        (
            gpu_pod(resources={"limits": {"nvidia.com/gpu": "8"}}),
            "app cpu, app memory",
        ),
    ],
    "autopilot-reservations": [
        (
            gpu_pod({f"{GKE}/gke-accelerator": "nvidia-b200", f"{GKE}/reservation-affinity": "any"}),
            "reservation-affinity any",
        ),
    ],
    "autopilot-shutdown": [
        (
            gpu_pod(terminationGracePeriodSeconds=601),
            "601",
        ),
        (
            {
                **gpu_pod(),
                "metadata": {
                    **gpu_pod()["metadata"],
                    "annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"},
                },
            },
            'safe-to-evict "false"',
        ),
    ],
    "autopilot-compute-class-objects": [
        (
            compute_class(name="gke-class"),
            "gke-class",
        ),
        (
            compute_class(
                {"reservations": {"affinity": "Specific", "specific": [{"name": "block-7"}]}},
                priorityDefaults={"location": {"zones": ["europe-west4-b"]}},
            ),
            "location.zones",
        ),
        (
            compute_class(
                {
                    "flexStart": {"enabled": True},
                    "reservations": {"affinity": "Specific", "specific": [{"name": "block-7"}]},
                }
            ),
            "flexStart",
        ),
        (
            compute_class(
                {"gpu": {"type": "nvidia-b200", "count": 4}},
                {"machineType": "g2-standard-12", "gpu": {"type": "nvidia-l4", "count": 2}},
            ),
            "g2-standard-12 with 2 x nvidia-l4",
        ),
        (
            compute_class({"storage": {"bootDiskType": "pd-ssd"}}),
            "pd-ssd",
        ),
    ],
    "hyperdisk-storage-classes": [
        (
            storage_class(use_allowed_disk_topologies="true"),
            "use-allowed-disk-topologies",
        ),
        (
            storage_class(provisioned_iops_on_create="19200"),
            "provisioned-iops-on-create",
        ),
        (
            storage_class(provisioned_throughput_on_create="1200"),
            '"1200"',
        ),
    ],
}
"""By policy, in the order of its validations: the object that breaks one, a value in its verdict."""

BROKEN: tuple[Broken, ...] = tuple(
    Broken(policy=policy, rule=rule, broken=broken, names=names)
    for policy, rows in _RULES.items()
    for rule, (broken, names) in enumerate(rows)
)
