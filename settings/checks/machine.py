"""Checks of machine type, capacity mode, GPUs and requests of a pod: which node GKE would create, or why none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from facts import disks, gke_releases, node_room, prices
from facts.finding import Finding
from facts.machines import Machine, of_accelerator
from facts.regions import nearest_region
from facts.sizing import POD_ROUTER_DISK_GIB
from settings.row import Row
from settings.sections.capacity import ComputeClassMode
from settings.sections.shape import POD_ROUTER_CPU, POD_ROUTER_MEMORY_GIB

if TYPE_CHECKING:
    from settings.sections.server import PodResources
    from settings.stack import Settings

_MODE = Row(
    "capacity-mode",
    "Google does not offer the machine type so, and the pods would stay Pending",
    "one of these modes",
)
_ABSENT: Final = "the price list's catalogue does not have the machine there; where that is still so, pods stay Pending"
_LISTS: Final = "or nothing if `gcloud compute machine-types list` shows the machine there"
_REGION = Row("region-without-machine", _ABSENT, f"a region of the list with its zones, {_LISTS}", "warning")
_ZONE = Row("zone-without-machine", _ABSENT, f"zones of the list, {_LISTS}", "warning")
_GPUS = Row(
    "gpus-of-a-pod",
    "pods share a machine by powers of two of its GPUs, and B200, GB200, H200 and H100 Mega machines not at all",
    "gpus: one of these",
)
_PARTIAL = Row(
    "partial-node",
    "all GPUs of a pod are billed; with fewer engines GPUs stay idle, with more an engine finds no GPU",
    "dataParallelSize and tensorParallelSize whose product is the pod's number of GPUs",
)
_LARGE_POD = Row(
    "pod-exceeds-node",
    "that is what GKE and its system pods leave of the machine; a larger pod fits no node and stays Pending",
    "leave it out, or a value in the range",
)
_SMALLER = Row(
    "fits-a-smaller-machine",
    "pods select nodes by GPU, and GKE creates the smallest machine with as many of these GPUs that fits the requests",
    "that machine, or a larger server.resources.cpu",
)
_OLD_GKE = Row(
    "gke-too-old-for-machine",
    "Autopilot creates this machine from that version on",
    "releaseChannel: REGULAR, or cluster.minVersion with that version's minor",
    "warning",
)
_NO_DISK = Row(
    "machine-cannot-attach-weights",
    "the machine cannot attach Hyperdisk ML, so the server pods would stay Pending",
    "source: huggingface",
)
_NEW_DISK = Row(
    "weights-volume-of-a-new-kind",
    "these machines cannot attach older Hyperdisk ML, and GKE's autoscaler does not list it for them",
    "source: huggingface, if the pods stay Pending for their volume",
    "note",
)


def machine_problems(settings: Settings) -> tuple[Finding, ...]:
    """Every problem with this machine type, provisioning mode and pod size."""
    whole = settings.gpus_per_replica in settings.machine.pod_gpus
    return (
        *_way(settings),
        *_zones(settings),
        *_gpus(settings),
        *(_node(settings) if whole else ()),
        *_version(settings),
        *_volume(settings),
    )


def _way(settings: Settings) -> Iterator[Finding]:
    if settings.capacity.mode not in settings.machine.ways:
        yield _MODE("capacity.mode", settings.capacity.mode, " | ".join(sorted(settings.machine.ways)))


def _zones(settings: Settings) -> Iterator[Finding]:
    machine, region = settings.machine.type, settings.region
    having = [f"{region}-{letter}" for letter in prices.zones(machine, region)]
    others = {row.region for row in prices.rows() if row.what == machine and row.zones}
    if not having and (near := nearest_region(region, others)):
        yield _REGION(
            "gcp:region", region, f"{near}, the nearest with {machine}, or another of {', '.join(sorted(others))}"
        )
    lacking = [zone for zone in settings.zones if zone not in having]
    if having and lacking:
        yield _ZONE("zones", lacking, f"{', '.join(having)} for {machine}")


def _gpus(settings: Settings) -> Iterator[Finding]:
    machine, gpus, engine = settings.machine, settings.gpus_per_replica, settings.serving.engine
    if gpus not in machine.pod_gpus:
        yield _GPUS("server.gpus", gpus, f"{', '.join(map(str, machine.pod_gpus))} of {machine.type}")
    elif engine.gpus != gpus:
        found = f"{engine.data_parallel_size} ranks x TP {engine.tensor_parallel_size}"
        yield _PARTIAL("server.engine.dataParallelSize", found, f"ranks x TP = {gpus}")


def _node(settings: Settings) -> Iterator[Finding]:
    machine = settings.machine
    for field, given, most, unit in _amounts(settings, machine):
        if given > most:
            allowed = f"up to {most}{unit} on {machine.type} for {settings.gpus_per_replica} of {machine.gpus} GPUs"
            yield _LARGE_POD(f"server.resources.{field}", given, allowed)
    if isinstance(settings.capacity, ComputeClassMode):
        return  # its ComputeClass names the machine type
    others = of_accelerator(machine.accelerator)
    for other in others[: others.index(machine)]:
        if other.gpus == machine.gpus and all(given <= most for _, given, most, _ in _amounts(settings, other)):
            room = node_room.of_machine(other)
            allowed = f"{other.type}, or requests above its {room.cpu} vCPU and {room.memory_gib} GiB"
            yield _SMALLER("machine", machine.type, allowed)
            return


def _version(settings: Settings) -> Iterator[Finding]:
    channel, needed, asked = settings.cluster.release_channel, settings.machine.min_gke, settings.cluster.min_version
    # A minor version is asked for without a patch, and gives its newest.
    lowest = gke_releases.numbers(gke_releases.LOWEST[channel] if asked is None else gke_releases.minor(asked))
    if settings.owns_platform and gke_releases.numbers(needed)[: len(lowest)] > lowest:
        path = "cluster.releaseChannel" if asked is None else "cluster.minVersion"
        yield _OLD_GKE(path, asked or channel, f"GKE {needed} or later for {settings.machine.type}")


def _volume(settings: Settings) -> Iterator[Finding]:
    family, source = settings.machine.family, settings.weights.source
    if not settings.weights.has_volume:
        return
    if disks.cannot_attach(disks.TYPE, family):
        yield _NO_DISK("weights.source", source, f"huggingface with {settings.machine.type}")
    elif since := disks.OF_NEW_VOLUMES.get(family):
        yield _NEW_DISK("weights.source", source, f"a volume created after {since} for {family.upper()}")


def _amounts(settings: Settings, machine: Machine) -> tuple[tuple[str, int, int, str], ...]:
    """The pods' requests: key, amount, maximum for a pod on that machine, unit."""
    share = node_room.of_machine(machine, local_ssd=settings.local_ssd).share(settings.gpus_per_replica, machine.gpus)
    asked: PodResources = settings.resources
    of_router = (POD_ROUTER_CPU, POD_ROUTER_MEMORY_GIB, POD_ROUTER_DISK_GIB)
    cpu, memory_gib, disk_gib = (0, 0, 0) if settings.server.shape is None else of_router
    return (
        ("cpu", asked.cpu, share.cpu - cpu, " vCPU"),
        ("memoryGib", asked.memory_gib, share.memory_gib - memory_gib, " GiB"),
        ("ephemeralStorageGib", asked.ephemeral_storage_gib, share.ephemeral_gib - disk_gib, " GiB"),
    )
