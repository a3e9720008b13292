"""What machine, capacity mode, GPUs of a pod and its requests say against each other: which node GKE would make, or why none."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from facts import disks, node_room
from facts.machines import Machine, Way, of_accelerator
from settings.problems import Problem
from settings.sections.capacity import Ladder
from settings.sections.section import key

if TYPE_CHECKING:
    from settings.sections.server import PodResources
    from settings.stack import Settings

_WRITE: Final[dict[Way, str]] = {
    "on-demand": "{mode: on-demand}",
    "spot": "{mode: spot}",
    "flex-start": "{mode: flex-start, runDurationSeconds: 86400}",
    "reservation": "{mode: reservation, name: MY-RESERVATION}",
}
"""What to write for each way, the simplest first; the others are made of these."""
LOWEST_GKE: Final = {"RAPID": "1.35.0", "REGULAR": "1.35.0", "STABLE": "1.34.0"}
"""Least version that a release channel gives a new cluster. Source: GKE release notes of September 2026."""


def machine_problems(settings: Settings) -> tuple[Problem, ...]:
    """Everything that speaks against this machine bought this way for these pods."""
    whole = settings.gpus_per_replica in settings.machine.pod_gpus
    return (
        *_way(settings),
        *_gpus(settings),
        *((*_engine(settings), *_node(settings)) if whole else ()),
        *_version(settings),
        *_volume(settings),
    )


def _way(settings: Settings) -> Iterator[Problem]:
    machine, mode = settings.machine, settings.capacity.mode
    if mode in machine.ways:
        return
    why = f"Google does not sell {machine.type} that way, so the pods would stay Pending for ever"
    if mode == "on-demand":
        why = (
            f"{machine.type} is not sold on demand: a pod without another way to get a node stays Pending for ever (the article, "
            '"A note on GPU provisioning")'
        )
    yield Problem(
        id="capacity-mode",
        path=key("capacity.mode"),
        value=mode,
        allowed=" | ".join(sorted(machine.ways)),
        why=why,
        write=", or ".join([text for way, text in _WRITE.items() if way in machine.ways][:2]),
    )


def _gpus(settings: Settings) -> Iterator[Problem]:
    machine, gpus = settings.machine, settings.gpus_per_replica
    if gpus in machine.pod_gpus:
        return
    nearest = max((count for count in machine.pod_gpus if count < gpus), default=machine.pod_gpus[0])
    shared = (
        "a pod takes a power of two of its GPUs" if machine.gpu.shares_nodes else "pods do not share it on Autopilot"
    )
    yield Problem(
        id="gpus-of-a-pod",
        path=key("server.gpus"),
        value=gpus,
        allowed=", ".join(map(str, machine.pod_gpus)),
        why=f"{machine.type} has {machine.gpus} {machine.gpu.name}, and {shared}",
        write=f"gpus: {nearest}",
    )


def _engine(settings: Settings) -> Iterator[Problem]:
    engine, gpus, machine = settings.serving.engine, settings.gpus_per_replica, settings.machine
    if engine.gpus == gpus:
        return
    whole = f"Autopilot gives a pod all {machine.gpus} {machine.gpu.name} of {machine.type} or none, and bills them"
    part = f"a pod has {gpus} {machine.gpu.name} of {machine.type}, and they are billed"
    yield Problem(
        id="partial-node",
        path=key("server.engine.dataParallelSize"),
        value=f"{engine.data_parallel_size} ranks x TP {engine.tensor_parallel_size}",
        allowed=f"ranks x TP = {gpus}",
        why=f"{part if machine.gpu.shares_nodes else whole}; engines on fewer leave the rest idle, engines on more find no GPU",
        write=f"dataParallelSize: {gpus} with tensorParallelSize: 1",
    )


def _node(settings: Settings) -> Iterator[Problem]:
    machine, asked = settings.machine, settings.resources
    each = f"{settings.gpus_per_replica} of {machine.gpus} GPUs"
    for field, given, most, unit in _amounts(settings, machine):
        if given > most:
            yield Problem(
                id="pod-exceeds-node",
                path=key(f"server.resources.{field}"),
                value=given,
                allowed=f"up to {most}{unit} on {machine.type} for {each}",
                why=f"what GKE and its own pods leave of {machine.vcpu} vCPU, {machine.memory_gib:g} GiB and its disk; above it no node "
                "holds the pod, and it stays Pending",
                write=f"{field}: {most}, or leave it out",
            )
    if isinstance(settings.capacity, Ladder):
        return  # its class names the machine
    others = of_accelerator(machine.accelerator)
    smaller = others[: others.index(machine)]
    for other in smaller:
        if other.gpus == machine.gpus and all(given <= most for _, given, most, _ in _amounts(settings, other)):
            room = node_room.of_machine(other)
            yield Problem(
                id="fits-a-smaller-machine",
                path=key("machine"),
                value=machine.type,
                allowed=f"{other.type}, or requests that do not fit it",
                why=f"pods select nodes by their GPU, and of machines with {machine.gpus} {machine.gpu.name} GKE makes the smallest that "
                f"holds {asked.cpu} vCPU and {asked.memory_gib} GiB; {other.type} leaves {room.cpu} and {room.memory_gib}",
                write=f"machine: {other.type}, or server: {{resources: {{cpu: {room.cpu + 1}}}}}",
            )
            return


def _version(settings: Settings) -> Iterator[Problem]:
    channel, needed = settings.cluster.release_channel, settings.machine.min_gke
    if settings.owns_platform and _release(needed) > _release(LOWEST_GKE[channel]):
        yield Problem(
            id="gke-too-old-for-machine",
            path=key("cluster.releaseChannel"),
            value=channel,
            allowed=f"a channel with GKE {needed} or later",
            why=f"below it Autopilot makes no {settings.machine.type}, and what is known of {channel} is {LOWEST_GKE[channel]} or later",
            write="releaseChannel: REGULAR",
            level="finding",
        )


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"[0-9]+", version))


def _volume(settings: Settings) -> Iterator[Problem]:
    machine, weights = settings.machine, settings.weights
    if not weights.has_volume:
        return
    if reason := disks.cannot_attach(disks.TYPE, machine.family):
        yield Problem(
            id="machine-cannot-attach-weights",
            path=key("weights.source"),
            value=weights.source,
            allowed="huggingface",
            why=f"{reason}, so the server pods would wait for their volume for ever",
            write="source: huggingface",
        )
    elif since := disks.OF_NEW_VOLUMES.get(machine.family):
        yield Problem(
            id="weights-volume-of-a-new-kind",
            path=key("weights.source"),
            value=weights.source,
            allowed=f"a volume made after {since}",
            why=f"{machine.family.upper()} machines attach no older Hyperdisk ML, and GKE's autoscaler does not list it for them at all",
            write="source: huggingface, should the pods wait for their volume",
            level="notice",
        )


def _amounts(settings: Settings, machine: Machine) -> tuple[tuple[str, int, int, str], ...]:
    """What the pods ask for: key, amount, most that a pod of that machine may have, unit."""
    share = node_room.of_machine(machine, local_ssd=settings.local_ssd).share(settings.gpus_per_replica, machine.gpus)
    asked: PodResources = settings.resources
    return (
        ("cpu", asked.cpu, share.cpu, " vCPU"),
        ("memoryGib", asked.memory_gib, share.memory_gib, " GiB"),
        ("ephemeralStorageGib", asked.ephemeral_storage_gib, share.ephemeral_gib, " GiB"),
    )
