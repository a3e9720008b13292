"""One object that breaks each rule, what is said about it, and the same object mended."""

from __future__ import annotations

from dataclasses import dataclass

from tests.lab.cloud.autopilot.objects import (
    CLASS_TAINT,
    FLEX,
    GKE,
    GPU_TAINT,
    H100,
    L4,
    LOCAL_SSD,
    OWN_CLASS,
    PERFORMANCE,
    RESERVED,
    SPOT,
    Manifest,
    amounts,
    container,
    gpu_pod,
    ladder,
    performance_pod,
    pod,
    service,
    storage_class,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """A rule, broken and kept."""

    policy: str
    rule: int
    """Its place among the policy's validations, from 0."""
    broken: Manifest
    says: str
    mended: Manifest


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
_RULES: dict[str, list[tuple[Manifest, str, Manifest]]] = {
    "autopilot-security": [
        (
            pod(containers=[container(), container("side", securityContext={"privileged": True})]),
            "privileged containers are not allowed: side. Remove securityContext.privileged",
            pod(containers=[container(), container("side", securityContext={"privileged": False})]),
        ),
        (
            pod(hostNetwork=True, hostPID=True),
            "host namespaces are not allowed: hostNetwork, hostPID. Remove them from the pod spec",
            pod(hostNetwork=False),
        ),
        (
            pod(
                initContainers=[container("tune", securityContext={"capabilities": {"add": ["SYS_NICE", "CHOWN"]}})],
                containers=[container(securityContext={"capabilities": {"add": ["IPC_LOCK"], "drop": ["ALL"]}})],
            ),
            "capabilities are not allowed: app adds IPC_LOCK, tune adds SYS_NICE. Allowed: SETPCAP MKNOD "
            "AUDIT_WRITE CHOWN DAC_OVERRIDE FOWNER FSETID KILL SETGID SETUID NET_BIND_SERVICE NET_RAW SYS_CHROOT "
            "SETFCAP SYS_PTRACE; NET_ADMIN only on a cluster created with allow_net_admin",
            pod(containers=[container(securityContext={"capabilities": {"add": ["NET_RAW", "SYS_PTRACE"]}})]),
        ),
        (
            pod(**_UNMASKED),
            "procMount Unmasked is not allowed: app. Remove procMount",
            pod(containers=[container(securityContext={"procMount": "Default"})]),
        ),
        (
            pod(securityContext={"sysctls": [{"name": "net.core.somaxconn", "value": "65535"}]}),
            "unsafe sysctls are not allowed: net.core.somaxconn. Remove them from securityContext.sysctls",
            pod(
                securityContext={
                    "sysctls": [{"name": "net.ipv4.tcp_syncookies", "value": "1"}],
                    "seccompProfile": {"type": "RuntimeDefault"},
                }
            ),
        ),
        (
            pod(containers=[container(ports=[{"containerPort": 8000, "hostPort": 8000}])]),
            "host ports are not allowed: app takes 8000. Remove hostPort and use a Service",
            pod(containers=[container(ports=[{"containerPort": 8000}])]),
        ),
    ],
    "autopilot-volumes": [
        (
            pod(volumes=[{"name": "lun", "iscsi": {"targetPortal": "10.0.0.1", "iqn": "iqn.2001-04.a.b:c", "lun": 0}}]),
            "volume types are not allowed: lun is iscsi. Use one of configMap, csi, downwardAPI, emptyDir, "
            "gcePersistentDisk, nfs, persistentVolumeClaim, projected, secret",
            pod(volumes=[{"name": "shm", "emptyDir": {"medium": "Memory"}}, {"name": "c", "configMap": {"name": "c"}}]),
        ),
        (
            _host_path("/home/kubernetes/bin/gib", read_only=True),
            "hostPath is not allowed outside /var/log/: logs is /home/kubernetes/bin/gib. Use an emptyDir or a "
            "PersistentVolumeClaim",
            _host_path("/var/log/pods", read_only=True),
        ),
        (
            _host_path("/var/log/pods", read_only=False),
            "hostPath must be mounted read-only: logs. Set readOnly: true in its volumeMounts",
            _host_path("/var/log/pods", read_only=True),
        ),
    ],
    "autopilot-services": [
        (
            service(externalIPs=["203.0.113.7"]),
            "externalIPs are not allowed: 203.0.113.7. Use a Gateway, or a Service of type LoadBalancer",
            service(type="LoadBalancer"),
        ),
    ],
    "autopilot-node-selection": [
        (
            gpu_pod({f"{GKE}/gke-spot": "true"}),
            "a pod with 8 GPUs requires a GPU type. Write nodeSelector cloud.google.com/gke-accelerator, e.g. "
            "nvidia-b200, or cloud.google.com/compute-class with a custom class",
            gpu_pod(OWN_CLASS),
        ),
        (
            pod(tolerations=[{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]),
            "a toleration of nvidia.com/gpu with operator Exists is not allowed in a pod without GPUs. Remove it",
            gpu_pod(tolerations=[{"operator": "Exists"}]),
        ),
        (
            pod(affinity=_affinity(machine_family="c4")),
            "machine-family c4 is not allowed with compute-class unset. Write nodeSelector "
            "cloud.google.com/compute-class: Performance as well",
            performance_pod({}, affinity=_affinity(machine_family="c4", compute_class="Performance")),
        ),
        (
            performance_pod(
                {**PERFORMANCE, "node.kubernetes.io/instance-type": "c4-standard-16"},
                affinity=_on_host("kubernetes.io/hostname"),
            ),
            "a selector on kubernetes.io/hostname, node.kubernetes.io/instance-type is not allowed: few labels "
            "may be selected. Select by compute-class, machine-family and requests, or by a custom compute-class",
            performance_pod(
                {**PERFORMANCE, "team": "inference"},
                affinity=_on_host("topology.kubernetes.io/zone"),
                tolerations=[CLASS_TAINT, {"key": "team", "operator": "Equal", "value": "inference"}],
            ),
        ),
        (
            gpu_pod(L4, amounts(cpu="8", memory="36Gi", gpu="3")),
            "3 GPUs of nvidia-l4 are not allowed: a pod may request 1, 2, 4, 8. Write one of these as nvidia.com/gpu",
            gpu_pod(L4, amounts(cpu="8", memory="36Gi", gpu="2")),
        ),
        (
            gpu_pod({**SPOT, LOCAL_SSD: "true"}),
            "gke-ephemeral-storage-local-ssd is not allowed with nvidia-b200: its machine types always have local"
            " SSDs. Remove the selector",
            gpu_pod({**L4, LOCAL_SSD: "true"}, amounts(cpu="8", memory="36Gi", gpu="1")),
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
            "30.5 vCPU exceed the limit of a general-purpose pod, 30. Request less, or select compute-class "
            "Performance",
            pod(containers=[container(resources=amounts(cpu="30", memory="60Gi", ephemeral_storage="1Gi"))]),
        ),
        (
            pod(containers=[container(resources=amounts(cpu="20", memory="111Gi", ephemeral_storage="1Gi"))]),
            "111.0 GiB of memory exceed the limit of a general-purpose pod, 110. Request less, or select "
            "compute-class Performance",
            performance_pod(
                containers=[container(resources=amounts(cpu="20", memory="111Gi", ephemeral_storage="1Gi"))]
            ),
        ),
        (
            pod(
                initContainers=[
                    container("fetch", {"limits": {"cpu": "1", "memory": "2Gi", "ephemeral-storage": "10752Mi"}})
                ],
            ),
            "10.5 GiB of ephemeral-storage exceed the limit of a general-purpose pod, 10. Request less, use a "
            "PersistentVolumeClaim, or select compute-class Performance",
            pod(containers=[container(resources=amounts(cpu="1", memory="2Gi", ephemeral_storage="10Gi"))]),
        ),
    ],
    "autopilot-no-node-comes": [
        (
            gpu_pod({f"{GKE}/gke-accelerator": "nvidia-b-200"}),
            "gke-accelerator nvidia-b-200 is unknown to the autoscaler. Write one of nvidia-b200, nvidia-gb200, "
            "nvidia-gb300, nvidia-h200-141gb, nvidia-h100-mega-80gb, nvidia-h100-80gb, nvidia-a100-80gb, "
            "nvidia-tesla-a100, nvidia-rtx-pro-6000, nvidia-l4, nvidia-tesla-t4, nvidia-tesla-v100, "
            "nvidia-tesla-p100, nvidia-tesla-p4, nvidia-tesla-k80",
            gpu_pod({f"{GKE}/gke-accelerator": "nvidia-h200-141gb"}),
        ),
        (
            gpu_pod({**H100, f"{GKE}/gke-accelerator-count": "1"}, amounts(cpu="40", memory="300Gi", gpu="2")),
            "gke-accelerator-count is 1, the pod requests 2 GPUs, and machine types with nvidia-h100-80gb have 1,"
            " 2, 4, 8. Remove the selector, or write one of these that is large enough",
            gpu_pod({**H100, f"{GKE}/gke-accelerator-count": "8"}, amounts(cpu="40", memory="300Gi", gpu="2")),
        ),
        (
            gpu_pod({**SPOT, f"{GKE}/gke-gpu-driver-version": "newest"}),
            "gke-gpu-driver-version newest is unknown. Write default or latest",
            gpu_pod({**SPOT, f"{GKE}/gke-gpu-driver-version": "latest"}),
        ),
        (
            gpu_pod({**SPOT, f"{GKE}/gke-spot": "yes"}),
            'gke-spot is "yes"; nodes only have the value "true". Write "true", or remove the selector',
            gpu_pod(),
        ),
        (
            gpu_pod({**FLEX, f"{GKE}/gke-flex-start": "false"}),
            'gke-flex-start is "false". Write "true", or remove the selector',
            gpu_pod(FLEX),
        ),
        (
            gpu_pod({f"{GKE}/gke-accelerator": "nvidia-b200", f"{GKE}/gke-provisioning": "cheap"}),
            "gke-provisioning cheap is unknown. Write spot, flex-start or standard",
            gpu_pod({f"{GKE}/gke-accelerator": "nvidia-b200", f"{GKE}/gke-provisioning": "spot"}),
        ),
        (
            gpu_pod({**FLEX, f"{GKE}/gke-provisioning": "standard"}),
            "gke-flex-start and gke-provisioning standard contradict each other. Keep one of them",
            gpu_pod({**FLEX, f"{GKE}/gke-provisioning": "flex-start"}),
        ),
        (
            gpu_pod({**SPOT, f"{GKE}/gke-provisioning": "standard"}),
            "gke-spot and gke-provisioning standard contradict each other. Keep one of them",
            gpu_pod({**SPOT, f"{GKE}/gke-provisioning": "spot"}),
        ),
        (
            gpu_pod({**SPOT, **FLEX}),
            "flex-start and gke-spot exclude each other. Keep one of them; to try one after the other, use a "
            "ComputeClass",
            gpu_pod(FLEX),
        ),
        (
            gpu_pod({**RESERVED, **FLEX}),
            "flex-start does not use reservations, and cloud.google.com/reservation-affinity=specific, "
            "cloud.google.com/reservation-name=block-7 is selected. Remove one of the two",
            gpu_pod({**FLEX, f"{GKE}/reservation-affinity": "none"}),
        ),
        (
            gpu_pod({**RESERVED, **SPOT}),
            "Spot does not use reservations, and reservation-name is block-7. Remove one of the two",
            gpu_pod(RESERVED),
        ),
        (
            gpu_pod({f"{GKE}/gke-accelerator": "nvidia-b200", f"{GKE}/reservation-affinity": "exact"}),
            "reservation-affinity exact is unknown. Write specific",
            gpu_pod({f"{GKE}/gke-accelerator": "nvidia-b200", f"{GKE}/reservation-affinity": "none"}),
        ),
        (
            gpu_pod({f"{GKE}/gke-accelerator": "nvidia-b200", f"{GKE}/reservation-affinity": "specific"}),
            "reservation-affinity specific requires a name. Write cloud.google.com/reservation-name as well",
            gpu_pod(RESERVED),
        ),
        (
            gpu_pod({f"{GKE}/gke-accelerator": "nvidia-b200", f"{GKE}/reservation-name": "block-7"}),
            "reservation-name block-7 with reservation-affinity unset. Write "
            "cloud.google.com/reservation-affinity: specific",
            gpu_pod(RESERVED),
        ),
        (
            gpu_pod({**FLEX, f"{GKE}/gke-max-run-duration-seconds": "604801"}),
            'gke-max-run-duration-seconds is "604801". Write "600" to "604800" (7 days) with flex-start',
            gpu_pod({**RESERVED, f"{GKE}/gke-max-run-duration-seconds": "604801"}),
        ),
        (
            gpu_pod({**FLEX, f"{GKE}/gke-node-recycle-lead-time-seconds": "1h"}),
            'cloud.google.com/gke-node-recycle-lead-time-seconds is "1h". Write whole seconds, e.g. "3600"',
            gpu_pod({**FLEX, f"{GKE}/gke-node-recycle-lead-time-seconds": "3600"}),
        ),
        (
            gpu_pod(RESERVED, tolerations=[GPU_TAINT, {"key": f"{GKE}/gke-flex-start", "operator": "Exists"}]),
            "a toleration of gke-flex-start requests nothing by itself. Write nodeSelector "
            'cloud.google.com/gke-flex-start: "true" as well, or remove the toleration',
            gpu_pod(FLEX, tolerations=[GPU_TAINT, {"key": f"{GKE}/gke-flex-start", "operator": "Exists"}]),
        ),
        (
            gpu_pod({f"{GKE}/compute-class": "autopilot-b200"}),
            "compute-class autopilot-b200 is unknown to GKE, and custom classes may not begin with gke or "
            "autopilot. Write one of Performance, Accelerator, Balanced, Scale-Out, autopilot, autopilot-spot, "
            "autopilot-arm, autopilot-arm-spot",
            gpu_pod(OWN_CLASS),
        ),
        (
            performance_pod({**PERFORMANCE, f"{GKE}/machine-family": "a4"}),
            "compute-class Performance has no machine-family a4. Write one of c4, c4a, c4d, c3, c3d, c2, c2d, h3,"
            " h4d, e2, m4, n1, n2, n2d, n4, n4a, n4d, t2d, t2a, z3, z4d",
            performance_pod(),
        ),
        (
            gpu_pod({**SPOT, f"{GKE}/compute-class": "Performance"}, tolerations=[GPU_TAINT, CLASS_TAINT]),
            "compute-class Performance has no GPUs, and the pod requests 8. Remove the class; gke-accelerator is "
            "enough",
            gpu_pod({**SPOT, f"{GKE}/compute-class": "Accelerator"}),
        ),
        (
            performance_pod({**PERFORMANCE, f"{GKE}/machine-family": "c4a", "kubernetes.io/arch": "amd64"}),
            "machine-family c4a is arm64, and kubernetes.io/arch is amd64. Write arm64, or another family",
            performance_pod({**PERFORMANCE, f"{GKE}/machine-family": "c4a", "kubernetes.io/arch": "arm64"}),
        ),
    ],
    "autopilot-resources": [
        (
            pod(containers=[container(resources=amounts(cpu="1", memory="2Gi")), container("side", {})]),
            "Autopilot sets missing requests to 0.5 vCPU, 2 GiB of memory and 1 GiB of ephemeral-storage: app "
            "ephemeral-storage, side cpu, side memory, side ephemeral-storage. Write the requests to keep the "
            "object unchanged",
            pod(),
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
            "Autopilot sets limits equal to requests where pods cannot burst: app cpu 1 against no limit, app "
            "memory 2Gi against 4Gi. Write equal values to keep the object unchanged",
            pod(),
        ),
        (
            pod(containers=[container(resources=amounts(cpu="1", memory="8Gi", ephemeral_storage="1Gi"))]),
            "Autopilot raises memory or CPU: 8.0 GiB of memory with 1.0 vCPU, but each vCPU requires 1 to 6.5 "
            "GiB. Request amounts in that range",
            pod(containers=[container(resources=amounts(cpu="2", memory="13Gi", ephemeral_storage="1Gi"))]),
        ),
    ],
    "autopilot-pod-defaults": [
        (
            pod(securityContext={"runAsUser": 1000}),
            "Autopilot sets seccompProfile RuntimeDefault: app. Set it in the pod securityContext to keep the "
            "object unchanged",
            pod(
                securityContext={},
                containers=[container(securityContext={"seccompProfile": {"type": "RuntimeDefault"}})],
            ),
        ),
        (
            gpu_pod(tolerations=[{**GPU_TAINT, "value": "absent"}]),
            "Autopilot adds tolerations for the selected nodes: nvidia.com/gpu=present:NoSchedule, "
            "cloud.google.com/gke-spot=true:NoSchedule. Add them: a Standard cluster does not",
            gpu_pod(tolerations=[{"operator": "Exists"}]),
        ),
    ],
    "autopilot-node-sized": [
        (
            gpu_pod(resources={"limits": {"nvidia.com/gpu": "8"}}),
            "Autopilot sets no defaults for a pod with GPUs: app cpu, app memory has no request, so the node may "
            "be too small, and the pod is the first to be evicted. Write requests close to the size of the "
            "machine type",
            gpu_pod(),
        ),
    ],
    "autopilot-reservations": [
        (
            gpu_pod({f"{GKE}/gke-accelerator": "nvidia-b200", f"{GKE}/reservation-affinity": "any"}),
            "reservation-affinity any: Autopilot only uses specific reservations. Write specific, and "
            "cloud.google.com/reservation-name",
            gpu_pod(RESERVED),
        ),
    ],
    "autopilot-shutdown": [
        (
            gpu_pod(terminationGracePeriodSeconds=601),
            "terminationGracePeriodSeconds 601 makes this an extended-duration pod: Autopilot does not evict pods"
            " above 600. Write at most 600",
            gpu_pod(terminationGracePeriodSeconds=600),
        ),
        (
            {
                **gpu_pod(),
                "metadata": {
                    **gpu_pod()["metadata"],
                    "annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"},
                },
            },
            'safe-to-evict "false" does not keep a Spot node, and Autopilot does not support both. Remove the '
            "annotation",
            gpu_pod(),
        ),
    ],
    "autopilot-compute-class-objects": [
        (
            ladder(name="gke-ladder"),
            "the class name gke-ladder is not allowed: names that begin with gke or autopilot are reserved. "
            "Choose another, e.g. b200-ladder",
            ladder(),
        ),
        (
            ladder(
                {"reservations": {"affinity": "Specific", "specific": [{"name": "block-7"}]}},
                priorityDefaults={"location": {"zones": ["europe-west4-b"]}},
            ),
            "location.zones is not allowed with reservations.affinity Specific, also not in priorityDefaults. "
            "Write the zones into reservations.specific[].zones",
            ladder(
                {
                    "reservations": {
                        "affinity": "Specific",
                        "specific": [{"name": "block-7", "zones": ["europe-west4-b"]}],
                    }
                },
                {"spot": True, "location": {"zones": ["europe-west4-b"]}},
            ),
        ),
        (
            ladder(
                {
                    "flexStart": {"enabled": True},
                    "reservations": {"affinity": "Specific", "specific": [{"name": "block-7"}]},
                }
            ),
            "a priority has both flexStart and reservations, but flex-start does not use reservations. Split it "
            "into two priorities",
            ladder(
                {"flexStart": {"enabled": True}},
                {"reservations": {"affinity": "Specific", "specific": [{"name": "block-7"}]}},
            ),
        ),
        (
            ladder(
                {"gpu": {"type": "nvidia-b200", "count": 4}},
                {"machineType": "g2-standard-12", "gpu": {"type": "nvidia-l4", "count": 2}},
            ),
            "priorities with GPUs that their machine type does not have: a4-highgpu-8g with 4 x nvidia-b200, "
            "g2-standard-12 with 2 x nvidia-l4. Write gpu: {type: nvidia-b200, count: 8}, {type: nvidia-l4, "
            "count: 1}",
            ladder({}, {"machineType": "g2-standard-12", "gpu": {"type": "nvidia-l4", "count": 1}}),
        ),
        (
            ladder({"storage": {"bootDiskType": "pd-ssd"}}),
            "these machine types boot only from hyperdisk-balanced: a4-highgpu-8g, and its priority has pd-ssd. "
            "Remove bootDiskType",
            ladder(
                {"storage": {"bootDiskType": "hyperdisk-balanced"}},
                {
                    "machineType": "g2-standard-12",
                    "gpu": {"type": "nvidia-l4", "count": 1},
                    "storage": {"bootDiskType": "pd-ssd"},
                },
            ),
        ),
    ],
    "hyperdisk-storage-classes": [
        (
            storage_class(use_allowed_disk_topologies="true"),
            "unknown parameter use-allowed-disk-topologies: the disk driver refuses every claim of this class. "
            "Allowed: type, replication-type, disk-encryption-kms-key, labels, resource-tags, "
            "provisioned-iops-on-create, provisioned-throughput-on-create, storage-pools, "
            "use-allowed-disk-topology, enable-multi-zone-provisioning, enable-confidential-storage, "
            "data-cache-size, data-cache-mode, access-mode, hyperdisk-type, pd-type, disk-type-preference",
            storage_class(use_allowed_disk_topology="true"),
        ),
        (
            storage_class(provisioned_iops_on_create="19200"),
            "provisioned-iops-on-create is not allowed for hyperdisk-ml, which has 16 for each MiB/s. Remove it",
            storage_class(type="hyperdisk-balanced", provisioned_iops_on_create="19200"),
        ),
        (
            storage_class(provisioned_throughput_on_create="1200"),
            'provisioned-throughput-on-create is "1200", without a unit. Write e.g. "1200Mi"',
            storage_class(provisioned_throughput_on_create="2Gi"),
        ),
    ],
}
"""By policy, in the order of its validations: the object that breaks one, what is said, the object mended."""
_NO_NODE = "autopilot-no-node-comes"

BROKEN: tuple[Broken, ...] = tuple(
    Broken(
        policy=policy,
        rule=rule,
        broken=broken,
        says=f"no node can be created: {says}" if policy == _NO_NODE else says,
        mended=mended,
    )
    for policy, rows in _RULES.items()
    for rule, (broken, says, mended) in enumerate(rows)
)
