"""Node objects as in GKE Autopilot: name, labels, taints, capacity, addresses."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from facts.names import NODE_CLUSTER_CHARACTERS
from lab.cloud import offers as keys
from lab.cloud.offers import Offer
from lab.cloud.pod_needs import PodNeeds, Taint
from lab.cloud.world import SIMULATED_NODE
from lab.control_plane.api import Manifest

KUBELET_VERSION: Final = "v1.36.3"
"""The control plane's version, without GKE's suffix."""
MADE_HERE: Final = "rehearsal.vllm-fleet.dev/pool"
"""Annotation of nodes created by the provisioner: mode and name of their pool."""
SHUTDOWN: Final = "rehearsal.vllm-fleet.dev/shutdown-seconds"
CRITICAL: Final = "rehearsal.vllm-fleet.dev/shutdown-critical-seconds"
"""Annotations with the kubelet's configuration of a node's shutdown."""

SSD_GIB: Final = "rehearsal.vllm-fleet.dev/ssd-gib"
"""Annotation with `Machine.ssd_gib`."""


@dataclass(frozen=True, slots=True)
class Template:
    """Labels and taints shared by nodes of one kind."""

    labels: frozenset[tuple[str, str]]
    taints: tuple[Taint, ...]

    def unmet(self, needs: PodNeeds) -> str:
        """Why a pod with these needs cannot run on such a node, regardless of free resources; empty if it can."""
        missing = needs.unmet(dict(self.labels))
        if missing:
            return missing
        taint = needs.untolerated(self.taints)
        return f"a toleration of the taint {taint[0]}={taint[1]}:{taint[2]}" if taint else ""


def template(offer: Offer, needs: PodNeeds) -> Template:
    """Template of this offer's node for pods with these needs."""
    return Template(frozenset(_labels(offer).items()), _taints(offer, needs))


def node_manifest(offer: Offer, kind: Template, *, number: int, cluster: str, project: str) -> Manifest:
    """The Node as registered by its kubelet, before it is Ready."""
    name = node_name(offer, number, cluster)
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    pods_cidr = pod_range(number)
    labels = {**dict(kind.labels), "kubernetes.io/hostname": name}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": labels,
            "annotations": {
                SIMULATED_NODE: "fake",
                MADE_HERE: "/".join(offer.pool),
                SSD_GIB: str(offer.machine.ssd_gib),
                SHUTDOWN: str(offer.shutdown_seconds),
                CRITICAL: str(offer.critical_seconds),
            },
        },
        "spec": {
            "podCIDR": pods_cidr,
            "podCIDRs": [pods_cidr],
            "providerID": f"gce://{project}/{offer.zone}/{name}",
            "taints": [{"key": key, "value": value, "effect": effect} for key, value, effect in kind.taints],
        },
        "status": {
            "capacity": offer.machine.capacity.as_resources(),
            "allocatable": offer.machine.allocatable.as_resources(),
            # kwok makes the node Ready once it holds its lease; it would miss pods scheduled earlier.
            "conditions": [
                {
                    "type": "Ready",
                    "status": "False",
                    "reason": "KubeletNotReady",
                    "message": "container runtime network not ready",
                    "lastHeartbeatTime": now,
                    "lastTransitionTime": now,
                }
            ],
            "addresses": [
                {"type": "InternalIP", "address": node_address(number)},
                {"type": "Hostname", "address": name},
            ],
            "nodeInfo": {
                "architecture": offer.machine.arch,
                "bootID": "",
                "containerRuntimeVersion": "containerd://simulated",
                "kernelVersion": "simulated",
                "kubeProxyVersion": KUBELET_VERSION,
                "kubeletVersion": KUBELET_VERSION,
                "machineID": "",
                "operatingSystem": "linux",
                "osImage": "Container-Optimized OS from Google (simulated)",
                "systemUUID": "",
            },
        },
    }


def shutdown_seconds(node: Manifest | None) -> tuple[float, float]:
    """From the notice of a node's shutdown to the end of its non-critical pods, and to its own."""
    annotations = ((node or {}).get("metadata") or {}).get("annotations") or {}
    whole = float(annotations.get(SHUTDOWN, keys.SHUTDOWN_SECONDS))
    return whole - float(annotations.get(CRITICAL, keys.CRITICAL_SECONDS)), whole


def node_name(offer: Offer, number: int, cluster: str) -> str:
    """Name in Autopilot's format: gk3-CLUSTER-nap-POOL-GROUP-NODE."""
    pool = hashlib.sha256(repr((offer.pool, offer.machine.name, offer.compute_class)).encode()).hexdigest()
    own = hashlib.sha256(str(number).encode()).hexdigest()
    group = hashlib.sha256((pool + offer.zone).encode()).hexdigest()
    return f"gk3-{cluster[:NODE_CLUSTER_CHARACTERS].rstrip('-')}-nap-{pool[:8]}-{group[:8]}-{own[:2]}{number:04x}"[:63]


def node_address(number: int) -> str:
    """The node's internal address, of 10.32.0.0/16."""
    return f"10.32.{number // 250 % 250}.{number % 250 + 2}"


def pod_range(number: int) -> str:
    """The node's pod addresses: the number-th /26 of 10.64.0.0/11. Source: GKE docs, Autopilot, 32 pods a node."""
    offset = number % 2**15 * 64
    return f"10.{64 + offset // 2**16}.{offset // 256 % 256}.{offset % 256}/26"


def _labels(offer: Offer) -> dict[str, str]:
    machine, zone = offer.machine, offer.zone
    region = zone.rpartition("-")[0]
    found: dict[str, str | None] = {
        "kubernetes.io/arch": machine.arch,
        "kubernetes.io/os": "linux",
        "beta.kubernetes.io/arch": machine.arch,
        "beta.kubernetes.io/os": "linux",
        keys.INSTANCE_TYPE: machine.name,
        "beta.kubernetes.io/instance-type": machine.name,
        "topology.kubernetes.io/region": region,
        "failure-domain.beta.kubernetes.io/region": region,
        keys.ZONE: zone,
        "topology.gke.io/zone": zone,
        "failure-domain.beta.kubernetes.io/zone": zone,
        keys.MACHINE_FAMILY: machine.family,
        f"{keys.GKE}/gke-nodepool": f"nap-{hashlib.sha256(repr(offer.pool).encode()).hexdigest()[:8]}",
        f"{keys.GKE}/gke-os-distribution": "cos",
        f"{keys.GKE}/gke-container-runtime": "containerd",
        f"{keys.GKE}/gke-boot-disk": machine.boot_disk,
        f"{keys.GKE}/private-node": "true",
        keys.PROVISIONING: {"spot": "spot", "flex-start": "flex-start"}.get(offer.mode, "standard"),
        keys.SPOT: "true" if offer.mode == "spot" else None,
        keys.FLEX_START: "true" if offer.mode == "flex-start" else None,
        keys.MAX_RUN: offer.max_run_seconds,
        keys.RECYCLE_LEAD: None if offer.recycle_lead_seconds is None else str(offer.recycle_lead_seconds),
        keys.COMPUTE_CLASS: offer.compute_class,
        keys.CONSOLIDATION_DELAY: None if offer.idle_minutes is None else str(60 * offer.idle_minutes),
        keys.RESERVATION: offer.reservation,
        keys.RESERVATION_AFFINITY: "specific" if offer.reservation else None,
        keys.RESERVATION_PROJECT: offer.reservation_project,
        keys.RESERVATION_BLOCKS: offer.reservation_blocks,
    }
    if machine.gpus:
        found |= {
            keys.ACCELERATOR: machine.accelerator,
            keys.ACCELERATOR_COUNT: str(machine.gpus),
            f"{keys.GKE}/gke-gpu": "true",
            keys.DRIVER: offer.driver_version,
            keys.LOCAL_SSD: "true" if machine.local_ssd else None,
        }
    return {key: value for key, value in found.items() if value is not None}


def _taints(offer: Offer, needs: PodNeeds) -> tuple[Taint, ...]:
    """GKE's taints. Those for which Autopilot's admission adds tolerations, which is not simulated, are set only if the pod
    tolerates them.
    """
    taints: list[Taint] = []
    if offer.machine.gpus:
        taints.append(("nvidia.com/gpu", "present", "NoSchedule"))
    if offer.machine.arch == "arm64":
        taints.append((keys.ARCH, "arm64", "NoSchedule"))
    spot = (keys.SPOT, "true", "NoSchedule")
    if offer.mode == "spot" and (not offer.by_class or needs.tolerates(spot)):
        taints.append(spot)
    admitted: Mapping[str, str | None] = {
        keys.COMPUTE_CLASS: offer.compute_class,
        keys.FLEX_START: "true" if offer.mode == "flex-start" else None,
    }
    for key, value in admitted.items():
        if value is not None and needs.tolerates((key, value, "NoSchedule")):
            taints.append((key, value, "NoSchedule"))
    return tuple(taints)
