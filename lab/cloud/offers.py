"""Nodes that a pod may get, in order of preference, by its selectors or its ComputeClass."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from facts import machines as gpu_machines
from facts.node_room import LARGEST_BOOT_DISK_GIB
from lab.cloud.autoscaler_events import Trouble, no_machine
from lab.cloud.machines import (
    FAMILIES,
    Machine,
    first_that_holds,
    general_purpose,
    smallest,
    with_gpus,
)
from lab.cloud.pod_needs import PodNeeds
from lab.cloud.stock import Mode, Pool, Stock
from lab.control_plane.api import Kind, Manifest

SHUTDOWN_SECONDS: Final = 30
CRITICAL_SECONDS: Final = 15
"""Shutdown of a Spot node, and its last part, for critical pods. Source: GKE docs, Spot VMs."""
COMPUTE_CLASS_KIND: Final = Kind("cloud.google.com/v1", "ComputeClass")
GKE: Final = "cloud.google.com"
COMPUTE_CLASS: Final = f"{GKE}/compute-class"
MACHINE_FAMILY: Final = f"{GKE}/machine-family"
ACCELERATOR: Final = f"{GKE}/gke-accelerator"
ACCELERATOR_COUNT: Final = f"{GKE}/gke-accelerator-count"
LOCAL_SSD: Final = f"{GKE}/gke-ephemeral-storage-local-ssd"
DRIVER: Final = f"{GKE}/gke-gpu-driver-version"
SPOT: Final = f"{GKE}/gke-spot"
PROVISIONING: Final = f"{GKE}/gke-provisioning"
FLEX_START: Final = f"{GKE}/gke-flex-start"
MAX_RUN: Final = f"{GKE}/gke-max-run-duration-seconds"
RECYCLE_LEAD: Final = f"{GKE}/gke-node-recycle-lead-time-seconds"
WAIT: Final = f"{GKE}/gke-capacity-check-wait-time-seconds"
RESERVATION: Final = f"{GKE}/reservation-name"
RESERVATION_AFFINITY: Final = f"{GKE}/reservation-affinity"
RESERVATION_PROJECT: Final = f"{GKE}/reservation-project"
RESERVATION_BLOCKS: Final = f"{GKE}/reservation-blocks"
INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"
ARCH: Final = "kubernetes.io/arch"
ZONE: Final = "topology.kubernetes.io/zone"
CONSOLIDATION_DELAY: Final = f"{GKE}/gke-consolidation-delay-seconds"
# Source of every key: GKE cluster autoscaler, system labels.

BUILT_IN_FAMILIES: Final[dict[str, str | None]] = {
    "Performance": None,
    "Balanced": "n2",
    "autopilot": "e2",
    "autopilot-spot": "e2",
    "autopilot-arm": "n4a",
    "autopilot-arm-spot": "n4a",
}
"""Built-in compute classes and their machine family; with None the pod must select one. `Accelerator` adds nothing to the GPU
selector. Source: GKE docs, compute classes in Autopilot. Assumed: `autopilot-arm` is N4A."""

GPU_FAMILIES: Final = frozenset(one.family for one in gpu_machines.MACHINES.values())

ClassReader = Callable[[str], Manifest | None]
"""The ComputeClass of this name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """One way to provision a node for a pod."""

    machine: Machine
    mode: Mode
    zone: str
    compute_class: str | None = None
    by_class: bool = False
    """Whether it comes from a custom ComputeClass instead of the pod's selectors."""
    reservation: str | None = None
    reservation_project: str | None = None
    reservation_blocks: str | None = None
    max_run_seconds: str | None = None
    recycle_lead_seconds: int | None = None
    """How long before its end its pods move to another node. None: they stay."""
    driver_version: str = "default"
    wait_seconds: float = 0.0
    """Wait before the next offer is tried."""
    priority: int = 0
    """Index of its priority in the ComputeClass."""
    idle_minutes: int | None = None
    """Minutes until its class removes it when it is empty. None: the autoscaler's own."""
    shutdown_seconds: int = SHUTDOWN_SECONDS
    """How long its kubelet delays a shutdown."""
    critical_seconds: int = CRITICAL_SECONDS
    """The last part of that, for critical pods."""

    @property
    def is_sold(self) -> bool:
        """Whether Google sells this machine type in this mode."""
        return not self.machine.gpus or self.mode in gpu_machines.find(self.machine.name).ways

    @property
    def pool(self) -> Pool:
        """Key under which its nodes count against the stock."""
        if self.reservation is not None:
            return ("reservation", self.reservation)
        return (self.mode, "" if self.machine.gpus else self.machine.family)


def offers(
    needs: PodNeeds, pods: int, stock: Stock, read_class: ClassReader, *, flex_wait_seconds: float
) -> tuple[Offer, ...] | Trouble:
    """Offers for up to `pods` pods with these needs, in order of preference; or why there is none."""
    name = needs.wanted(COMPUTE_CLASS)
    if name is None or name in BUILT_IN_FAMILIES or name == "Accelerator":
        if needs.amounts.gpus:
            return _gpu_offers(needs, stock, name)
        return _cpu_offers(needs, pods, stock, name)
    found = read_class(name)
    if found is None:
        return no_machine(
            "nap.ccc.not.found",
            f"ComputeClass {name} not found",
            f"The pod selects the ComputeClass {name}, which does not exist in the cluster.",
            "Create the class before the Deployment; this program does so with capacity.mode: compute-class.",
        )
    return _class_offers(needs, pods, stock, name, found["spec"], flex_wait_seconds)


# By the pod's selectors


def _gpu_offers(needs: PodNeeds, stock: Stock, class_name: str | None) -> tuple[Offer, ...] | Trouble:
    accelerator = needs.wanted(ACCELERATOR) or ""
    same = gpu_machines.of_accelerator(accelerator)
    if not same:
        known = sorted({one.accelerator for one in gpu_machines.MACHINES.values()})
        return no_machine(
            "nap.pod.gpu.type.not.supported",
            f"GPU type {accelerator or 'not named'} not supported",
            f"The pod requests GPUs of type {accelerator or '(none selected)'}; the rehearsal supports {', '.join(known)}.",
            f"Set the selector {ACCELERATOR} to one of these.",
        )
    largest = same[-1]
    if _node_gpus(needs) not in {one.gpus for one in same} or needs.amounts.gpus not in largest.pod_gpus:
        counts = " or ".join(map(str, largest.pod_gpus))
        return no_machine(
            "nap.pod.gpu.request.invalid",
            "incorrect GPU count",
            f"The pod requests {needs.amounts.gpus} GPUs on a node with {_node_gpus(needs)}; on {largest.type} a pod may "
            f"request {counts}.",
            f"Request nvidia.com/gpu: {counts}.",
        )
    alike = [one for one in same if one.gpus == _node_gpus(needs)]
    machine = _gpu_machine(needs, alike, local_ssd=needs.wanted(LOCAL_SSD) == "true")
    if machine is None:
        return _too_large(needs, with_gpus(alike[-1].type))
    mode = _mode(needs)
    if isinstance(mode, Trouble):
        return mode
    if mode == "reservation":
        return _reserved(needs, stock, machine, class_name)
    zones = _zones(needs, stock.gpu_zones) or tuple(sorted(_pinned(needs) or stock.gpu_zones))
    return tuple(
        Offer(
            machine=machine,
            mode=mode,
            zone=zone,
            compute_class=class_name,
            max_run_seconds=needs.wanted(MAX_RUN),
            driver_version=needs.wanted(DRIVER) or "default",
        )
        for zone in zones
    )


def _node_gpus(needs: PodNeeds) -> int:
    """GPUs of the node: the selected number, else as many as the pod requests.

    Without a selector Autopilot adds one for the pod's number of GPUs, so that none is left unused. Source: GKE cluster
    autoscaler, injection.go; GKE docs, "Deploy GPU workloads in Autopilot".
    """
    named = needs.wanted(ACCELERATOR_COUNT) or ""
    return int(named) if named.isdigit() else needs.amounts.gpus


def _gpu_machine(
    needs: PodNeeds,
    candidates: Iterable[gpu_machines.Machine],
    *,
    local_ssd: bool = False,
    boot_disk_gib: int = LARGEST_BOOT_DISK_GIB,
) -> Machine | None:
    """The first candidate that fits the pod, with a boot disk for as many as its GPUs allow."""
    wanted = needs.wanted(INSTANCE_TYPE)
    machine = first_that_holds(
        needs.amounts,
        (
            with_gpus(candidate.type, local_ssd=local_ssd, boot_disk_gib=boot_disk_gib)
            for candidate in candidates
            if wanted in (None, candidate.type)
        ),
    )
    return machine and machine.trimmed(machine.gpus // needs.amounts.gpus * needs.amounts.ephemeral_bytes)


def _mode(needs: PodNeeds) -> Mode | Trouble:
    spot = needs.wanted(SPOT) == "true" or needs.wanted(PROVISIONING) == "spot"
    flex = needs.wanted(FLEX_START) == "true" or needs.wanted(PROVISIONING) == "flex-start"
    name, affinity = needs.wanted(RESERVATION), needs.wanted(RESERVATION_AFFINITY)
    if flex and (spot or name is not None or affinity not in (None, "none")):
        return no_machine(
            "flex.start.misconfigured.error",
            "flex-start misconfigured",
            f"The pod selects both flex-start and {'Spot' if spot else 'a reservation'}, which GKE refuses.",
            "Keep one of the selectors.",
        )
    if (name is None) != (affinity != "specific"):
        return no_machine(
            "nap.pod.unusable.reservation",
            "1 unusable reservation",
            f"Reservation {name or '(no name)'} with affinity {affinity or '(none)'}: GKE requires both a name and the "
            "affinity `specific`.",
            f"Select {RESERVATION} and {RESERVATION_AFFINITY}: specific.",
        )
    if name is not None:
        return "reservation"
    return "spot" if spot else "flex-start" if flex else "on-demand"


def _reserved(needs: PodNeeds, stock: Stock, machine: Machine, class_name: str | None) -> tuple[Offer, ...]:
    name = needs.wanted(RESERVATION) or ""
    return (
        Offer(
            machine=machine,
            mode="reservation",
            zone=_reservation_zone(needs, stock, name, ()),
            compute_class=class_name,
            reservation=name,
            reservation_project=needs.wanted(RESERVATION_PROJECT),
            reservation_blocks=needs.wanted(RESERVATION_BLOCKS),
            driver_version=needs.wanted(DRIVER) or "default",
        ),
    )


def _cpu_offers(needs: PodNeeds, pods: int, stock: Stock, class_name: str | None) -> tuple[Offer, ...] | Trouble:
    family = needs.wanted(MACHINE_FAMILY)
    if class_name is not None and family is None:
        family = BUILT_IN_FAMILIES.get(class_name)
        if family is None:
            return no_machine(
                "nap.pod.compute.class.without.machine.family",
                f"compute class {class_name} without machine family",
                f"The pod selects the compute class {class_name}, but no machine family.",
                f"Select {MACHINE_FAMILY} as well, for example c4.",
            )
    elif class_name is None and family is not None:
        return no_machine(
            "nap.pod.machine.family.not.supported",
            f"machine family {family} without a compute class",
            f"The pod selects the machine family {family} without a compute class, which Autopilot does not support.",
            f"Select {COMPUTE_CLASS}: Performance as well.",
        )
    machine_type = needs.wanted(INSTANCE_TYPE)
    if family is None and needs.wanted(ARCH) == "arm64":
        family = BUILT_IN_FAMILIES["autopilot-arm"]
    machine = _cpu_machine(needs, pods, family, machine_type)
    if isinstance(machine, Trouble):
        return machine
    spot = needs.wanted(SPOT) == "true" or (class_name or "").endswith("-spot")
    return tuple(
        Offer(machine=machine, mode="spot" if spot else "on-demand", zone=zone, compute_class=class_name)
        for zone in _zones(needs, stock.zones) or stock.zones[:1]
    )


def _cpu_machine(needs: PodNeeds, pods: int, family: str | None, machine_type: str | None) -> Machine | Trouble:
    if family is not None and family not in FAMILIES:
        return no_machine(
            "nap.pod.machine.family.unknown",
            f"machine family {family} unknown",
            f"The rehearsal does not support the machine family {family}, only {', '.join(sorted(FAMILIES))}.",
            "Select one of these, or leave this pod out of the rehearsal.",
        )
    if family is None or family == "e2":
        machine = general_purpose(needs.amounts, pods)
    else:
        machine = smallest(family, needs.amounts, machine_type=machine_type)
    return machine or _too_large(needs, machine_type or family or "general-purpose machine")


def _too_large(needs: PodNeeds, machine: Machine | str) -> Trouble:
    if isinstance(machine, Machine):
        have = machine.allocatable
        room = f"{have.cpu_milli / 1000:.0f} vCPU and {have.memory_bytes / 2**30:.0f} GiB of a {machine.name}"
        machine = machine.name
    else:
        room = f"the largest {machine}"
    asks = needs.amounts
    return no_machine(
        "nap.pod.zonal.resources.exceeded",
        "Insufficient cpu, memory or ephemeral storage on any new node",
        f"The pod requests {asks.cpu_milli / 1000:g} vCPU, {asks.memory_bytes / 2**30:.0f} GiB of memory and "
        f"{asks.ephemeral_bytes / 2**30:.0f} GiB of disk, more than is allocatable: {room}.",
        f"Request less than the whole {machine}: GKE reserves several vCPU and a few percent of the memory.",
    )


# By a ComputeClass


def _class_offers(
    needs: PodNeeds, pods: int, stock: Stock, name: str, spec: Manifest, flex_wait_seconds: float
) -> tuple[Offer, ...] | Trouble:
    if not (spec.get("nodePoolAutoCreation") or {}).get("enabled"):
        return no_machine(
            "nap.ccc.autoprovisioning.disabled",
            f"ComputeClass {name} creates no nodes",
            f"The ComputeClass {name} does not let GKE create nodes.",
            "Set spec.nodePoolAutoCreation.enabled: true.",
        )
    found: list[Offer] = []
    for index, stated in enumerate(spec.get("priorities") or ()):
        priority = {**(spec.get("priorityDefaults") or {}), **stated}
        kubelet = (priority.get("nodeSystemConfig") or {}).get("kubeletConfig") or {}
        of_class: dict[str, Any] = {
            "priority": index,
            "idle_minutes": (spec.get("autoscalingPolicy") or {}).get("consolidationDelayMinutes"),
            "shutdown_seconds": kubelet.get("shutdownGracePeriodSeconds", SHUTDOWN_SECONDS),
            "critical_seconds": kubelet.get("shutdownGracePeriodCriticalPodsSeconds", CRITICAL_SECONDS),
        }
        found += [
            replace(offer, **of_class)
            for offer in _priority_offers(needs, pods, stock, name, priority, flex_wait_seconds)
        ]
    if found:
        return tuple(found)
    return no_machine(
        "nap.ccc.pod.incompatible",
        f"pod incompatible with ComputeClass {name}",
        f"No priority of the ComputeClass {name} has a node for this pod in the zone of its volume.",
        "Compare the pod's requests and zones with the class's priorities.",
    )


def _priority_offers(
    needs: PodNeeds, pods: int, stock: Stock, name: str, priority: Manifest, flex_wait_seconds: float
) -> Iterator[Offer]:
    flex_start = priority.get("flexStart") or {}
    flex = bool(flex_start.get("enabled"))
    machine = _priority_machine(needs, pods, priority)
    if machine is None:
        return
    # A shorter wait is ignored, and any without flex-start.
    stated = float(priority.get("capacityCheckWaitTimeSeconds") or needs.wanted(WAIT) or 0.0)
    wait = max(flex_wait_seconds, stated) if flex else 0.0
    run = priority.get("maxRunDurationSeconds")
    driver = str((priority.get("gpu") or {}).get("driverVersion") or "default")

    def offer(mode: Mode, zone: str, reservation: str | None = None, project: str | None = None) -> Offer:
        return Offer(
            machine=machine,
            mode=mode,
            zone=zone,
            compute_class=name,
            by_class=True,
            reservation=reservation,
            reservation_project=project,
            max_run_seconds=None if run is None else str(run),
            recycle_lead_seconds=(flex_start.get("nodeRecycling") or {}).get("leadTimeSeconds") if flex else None,
            driver_version=driver,
            wait_seconds=wait,
        )

    reserved = priority.get("reservations") or {}
    if reserved.get("affinity") == "Specific":
        for one in reserved.get("specific") or ():
            zone = _reservation_zone(needs, stock, one["name"], tuple(one.get("zones") or ()))
            yield offer("reservation", zone, one["name"], one.get("project"))
        return
    mode: Mode = "spot" if priority.get("spot") else "flex-start" if flex else "on-demand"
    allowed = tuple((priority.get("location") or {}).get("zones") or (stock.gpu_zones if machine.gpus else stock.zones))
    for zone in _zones(needs, allowed):
        yield offer(mode, zone)


def _priority_machine(needs: PodNeeds, pods: int, priority: Manifest) -> Machine | None:
    gpu, storage = priority.get("gpu") or {}, priority.get("storage") or {}
    machine_type = priority.get("machineType")
    family = machine_type.partition("-")[0] if machine_type else priority.get("machineFamily")
    if needs.amounts.gpus:
        candidates = (
            one
            for one in gpu_machines.MACHINES.values()
            if machine_type in (None, one.type)
            and family in (None, one.family)
            and gpu.get("type") in (None, one.accelerator)
            and int(gpu.get("count") or one.gpus) == one.gpus
            and needs.wanted(ACCELERATOR_COUNT) in (None, str(one.gpus))
            and needs.amounts.gpus in one.pod_gpus
        )
        return _gpu_machine(
            needs,
            candidates,
            local_ssd=bool(storage.get("localSSDCount")) or needs.wanted(LOCAL_SSD) == "true",
            boot_disk_gib=int(storage.get("bootDiskSize") or LARGEST_BOOT_DISK_GIB),
        )
    if gpu or family in GPU_FAMILIES:
        return None
    machine = _cpu_machine(needs, pods, family, machine_type)
    return None if isinstance(machine, Trouble) else machine


# Zones


def _pinned(needs: PodNeeds) -> frozenset[str] | None:
    """Zones required by the pod or its volumes."""
    wanted = needs.wanted(ZONE)
    if wanted is None:
        return needs.volume_zones
    return frozenset({wanted}) if needs.volume_zones is None else needs.volume_zones & {wanted}


def _zones(needs: PodNeeds, allowed: tuple[str, ...]) -> tuple[str, ...]:
    pinned = _pinned(needs)
    return tuple(zone for zone in allowed if pinned is None or zone in pinned)


def _reservation_zone(needs: PodNeeds, stock: Stock, name: str, named: tuple[str, ...]) -> str:
    """Zone of the request: the pod's, else the class's, else the reservation's."""
    pinned = _pinned(needs)
    if pinned:
        return min(pinned)
    there = stock.reservations.get(name)
    if there is not None and (not named or there.zone in named):
        return there.zone
    return named[0] if named else stock.gpu_zones[0]
