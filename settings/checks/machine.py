"""Checks of machine type, capacity mode, GPUs and requests of a pod: which node GKE would create, or why none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from facts import disks, gke_releases, node_room, prices
from facts.finding import Finding
from facts.machines import Machine, Way, of_accelerator
from facts.regions import nearest_region, zones
from facts.sizing import POD_ROUTER_DISK_GIB
from settings.sections.capacity import Ladder
from settings.sections.section import key
from settings.sections.shape import POD_ROUTER_CPU, POD_ROUTER_MEMORY_GIB

if TYPE_CHECKING:
    from settings.sections.server import PodResources
    from settings.stack import Settings

_WRITE: Final[dict[Way, str]] = {
    "on-demand": "{mode: on-demand}",
    "spot": "{mode: spot}",
    "flex-start": "{mode: flex-start, runDurationSeconds: 86400}",
    "reservation": "{mode: reservation, name: MY-RESERVATION}",
}
"""What to write for each provisioning mode, the simplest first."""


def machine_problems(settings: Settings) -> tuple[Finding, ...]:
    """Every problem with this machine type, provisioning mode and pod size."""
    whole = settings.gpus_per_replica in settings.machine.pod_gpus
    return (
        *_way(settings),
        *_zones(settings),
        *_gpus(settings),
        *((*_engine(settings), *_node(settings)) if whole else ()),
        *_version(settings),
        *_volume(settings),
    )


def _way(settings: Settings) -> Iterator[Finding]:
    machine, mode = settings.machine, settings.capacity.mode
    if mode in machine.ways:
        return
    why = f"Google does not offer {machine.type} as {mode}, so the pods would stay Pending"
    if mode == "on-demand":
        why += ' (the article, "A note on GPU provisioning")'
    yield Finding(
        id="capacity-mode",
        subject=key("capacity.mode"),
        found=mode,
        allowed=" | ".join(sorted(machine.ways)),
        why=why,
        write=", or ".join([text for way, text in _WRITE.items() if way in machine.ways][:2]),
    )


def zone_for(machine: Machine, region: str) -> str:
    """A zone of the region that has the machine by the price list's catalogue, else its first zone."""
    having = prices.zones(machine.type, region)
    return f"{region}-{having[0]}" if having else zones(region)[0]


def _zones(settings: Settings) -> Iterator[Finding]:
    machine, region = settings.machine.type, settings.region
    having = [f"{region}-{letter}" for letter in prices.zones(machine, region)]
    lacking = [zone for zone in settings.zones if zone not in having]
    others = {row.region for row in prices.rows() if row.what == machine and row.zones}
    if not having and (near := nearest_region(region, others)):
        yield Finding(
            id="region-without-machine",
            subject="gcp:region",
            found=region,
            allowed=", ".join(sorted(others)),
            why=f"the price list's catalogue has no {machine} there; where that is still so, pods stay Pending",
            write=f'gcp:region: {near} and zones: ["{zone_for(settings.machine, near)}"], or nothing if `gcloud compute '
            f"machine-types list` shows the machine in {region}",
            severity="warning",
        )
    if having and lacking:
        yield Finding(
            id="zone-without-machine",
            subject=key("zones"),
            found=lacking,
            allowed=", ".join(having),
            why=f"the price list's catalogue has no {machine} there; where that is still so, pods stay Pending",
            write=f'zones: ["{having[0]}"], or nothing if `gcloud compute machine-types list` shows the machine there',
            severity="warning",
        )


def _gpus(settings: Settings) -> Iterator[Finding]:
    machine, gpus = settings.machine, settings.gpus_per_replica
    if gpus in machine.pod_gpus:
        return
    nearest = max((count for count in machine.pod_gpus if count < gpus), default=machine.pod_gpus[0])
    shared = (
        "a pod uses a power of two of them" if machine.gpu.shares_nodes else "Autopilot does not share it between pods"
    )
    yield Finding(
        id="gpus-of-a-pod",
        subject=key("server.gpus"),
        found=gpus,
        allowed=", ".join(map(str, machine.pod_gpus)),
        why=f"{machine.type} has {machine.gpus} {machine.gpu.name}, and {shared}",
        write=f"gpus: {nearest}",
    )


def _engine(settings: Settings) -> Iterator[Finding]:
    engine, gpus, machine = settings.serving.engine, settings.gpus_per_replica, settings.machine
    if engine.gpus == gpus:
        return
    # As many GPUs as the engine asks for, or the next number that divides the pod's.
    split = next((count for count in range(engine.tensor_parallel_size, gpus) if gpus % count == 0), gpus)
    whole = f"Autopilot gives a pod all {machine.gpus} {machine.gpu.name} of {machine.type} or none, and bills all"
    part = f"a pod has {gpus} {machine.gpu.name} of {machine.type}, all billed"
    yield Finding(
        id="partial-node",
        subject=key("server.engine.dataParallelSize"),
        found=f"{engine.data_parallel_size} ranks x TP {engine.tensor_parallel_size}",
        allowed=f"ranks x TP = {gpus}",
        why=f"{part if machine.gpu.shares_nodes else whole}; with fewer engines GPUs stay idle, with more an engine finds no GPU",
        write=f"dataParallelSize: {gpus // split} with tensorParallelSize: {split}",
    )


def _node(settings: Settings) -> Iterator[Finding]:
    machine, asked = settings.machine, settings.resources
    each = f"{settings.gpus_per_replica} of {machine.gpus} GPUs"
    for field, given, most, unit in _amounts(settings, machine):
        if given > most:
            yield Finding(
                id="pod-exceeds-node",
                subject=key(f"server.resources.{field}"),
                found=given,
                allowed=f"up to {most}{unit} on {machine.type} for {each}",
                why=f"that is what GKE and its system pods leave of {machine.vcpu} vCPU, {machine.memory_gib:g} GiB and the disk; a "
                "larger pod fits no node and stays Pending",
                write=f"{field}: {most}, or leave it out",
            )
    if isinstance(settings.capacity, Ladder):
        return  # its ComputeClass names the machine type
    others = of_accelerator(machine.accelerator)
    smaller = others[: others.index(machine)]
    for other in smaller:
        if other.gpus == machine.gpus and all(given <= most for _, given, most, _ in _amounts(settings, other)):
            room = node_room.of_machine(other)
            yield Finding(
                id="fits-a-smaller-machine",
                subject=key("machine"),
                found=machine.type,
                allowed=f"{other.type}, or requests that do not fit it",
                why=f"pods select nodes by GPU, and GKE creates the smallest machine with {machine.gpus} {machine.gpu.name} that fits "
                f"{asked.cpu} vCPU and {asked.memory_gib} GiB; {other.type} has room for {room.cpu} and {room.memory_gib}",
                write=f"machine: {other.type}, or server: {{resources: {{cpu: {room.cpu + 1}}}}}",
            )
            return


def _version(settings: Settings) -> Iterator[Finding]:
    channel, needed, asked = settings.cluster.release_channel, settings.machine.min_gke, settings.cluster.min_version
    # A minor version is asked for without a patch, and gives its newest.
    lowest = gke_releases.numbers(gke_releases.LOWEST[channel] if asked is None else gke_releases.minor(asked))
    if settings.owns_platform and gke_releases.numbers(needed)[: len(lowest)] > lowest:
        yield Finding(
            id="gke-too-old-for-machine",
            subject=key("cluster.releaseChannel" if asked is None else "cluster.minVersion"),
            found=asked or channel,
            allowed=f"GKE {needed} or later",
            why=f"Autopilot creates {settings.machine.type} from that version on; a new cluster may have "
            f"{asked or gke_releases.LOWEST[channel]}",
            write="releaseChannel: REGULAR" if asked is None else f'minVersion: "{gke_releases.minor(needed)}"',
            severity="warning",
        )


def _volume(settings: Settings) -> Iterator[Finding]:
    machine, weights = settings.machine, settings.weights
    if not weights.has_volume:
        return
    if reason := disks.cannot_attach(disks.TYPE, machine.family):
        yield Finding(
            id="machine-cannot-attach-weights",
            subject=key("weights.source"),
            found=weights.source,
            allowed="huggingface",
            why=f"{reason}, so the server pods would stay Pending",
            write="source: huggingface",
        )
    elif since := disks.OF_NEW_VOLUMES.get(machine.family):
        yield Finding(
            id="weights-volume-of-a-new-kind",
            subject=key("weights.source"),
            found=weights.source,
            allowed=f"a volume created after {since}",
            why=f"{machine.family.upper()} machines cannot attach older Hyperdisk ML, and GKE's autoscaler does not list it for them",
            write="source: huggingface, if the pods stay Pending for their volume",
            severity="note",
        )


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
