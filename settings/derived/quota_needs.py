"""Compute Engine quotas that a stack needs at full size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

from facts.disks import throughput_floor_mibps
from facts.node_room import GIB, SMALLEST_BOOT_DISK_GIB, boot_disk_gib
from facts.quotas import (
    ALL_CPUS,
    ALL_GPUS,
    FAMILIES_WITH_CPU_QUOTA,
    HYPERDISK_BALANCED_CAPACITY,
    HYPERDISK_ML_CAPACITY,
    HYPERDISK_ML_THROUGHPUT,
    SSD_CAPACITY,
    SYSTEM_NODE,
    SYSTEM_NODES,
    Quota,
    family_cpus,
    gpus,
    machine_for_cpus,
)
from facts.sizing import BENCHMARK_CLIENT_DISK_GIB
from facts.texts import plural
from settings.derived.benchmark_load import load_of
from settings.derived.canary import has_own_weights
from settings.sections.capacity import ComputeClassMode, FlexStart, OnDemand, Spot
from settings.sections.weights import WRITER_CPU, WRITER_FAMILY

if TYPE_CHECKING:
    from settings.stack import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaNeed:
    """A stack's use of one quota."""

    quota: Quota
    amount: int
    because: str
    """The calculation, for reports."""


def quota_needs(settings: Settings) -> tuple[QuotaNeed, ...]:
    """Every quota that the stack uses, with its amount.

    Machines of a reservation are not among them: they counted against the quota when they were reserved (in calendar mode against none).
    Source: AI Hypercomputer docs, consumption options; whether a shared reservation counts where it is used is unverified.
    """
    return tuple(need for need in (*_gpus(settings), *_cpus(settings), *_disks(settings)) if need.amount > 0)


def _gpus(settings: Settings) -> Iterator[QuotaNeed]:
    machine = settings.machine
    if not _bought(settings):
        return
    because = f"{settings.nodes} {machine.type} of {plural(machine.gpus, 'GPU')}"
    if isinstance(settings.capacity, ComputeClassMode) and settings.capacity.reservation is not None:
        because += "; fewer where the reservation serves some"
    spot = not isinstance(settings.capacity, OnDemand)
    yield QuotaNeed(quota=gpus(machine.gpu, spot=spot), amount=settings.gpus, because=because)
    yield QuotaNeed(quota=ALL_GPUS, amount=settings.gpus, because=because)


def _bought(settings: Settings) -> bool:
    """Whether new nodes count against quotas."""
    return isinstance(settings.capacity, OnDemand | Spot | FlexStart | ComputeClassMode)


def _cpus(settings: Settings) -> Iterator[QuotaNeed]:
    machines = [*_clients(settings), *_writer(settings), *_system(settings)]
    if settings.machine.family in FAMILIES_WITH_CPU_QUOTA and settings.nodes and _bought(settings):
        machines.insert(0, (settings.machine.type, settings.nodes))
    quotas = {quota.metric: quota for quota in (family_cpus(_family(machine)) for machine, _ in machines)}
    for metric, quota in sorted(quotas.items()):
        yield _cpu_need(settings, quota, [one for one in machines if family_cpus(_family(one[0])).metric == metric])
    yield _cpu_need(settings, ALL_CPUS, machines)


def _cpu_need(settings: Settings, quota: Quota, machines: Sequence[tuple[str, int]]) -> QuotaNeed:
    return QuotaNeed(
        quota=quota,
        amount=sum(_vcpus(settings, machine) * count for machine, count in machines),
        because=" and ".join(
            f"{count} {machine}{' of Autopilot itself' if machine == SYSTEM_NODE else ''}"
            for machine, count in machines
        ),
    )


def _disks(settings: Settings) -> Iterator[QuotaNeed]:
    size, zones = settings.weights.size_gib, len(settings.zones)
    releases = 2 if has_own_weights(settings) else 1
    twice = "" if releases == 1 else "; as much for the canary's weights"
    if settings.weights.source == "hyperdisk":
        yield QuotaNeed(
            quota=HYPERDISK_ML_CAPACITY,
            amount=releases * size * (zones + 1),
            because=f"{size} GiB each for the writer, {', '.join(settings.zones)}{twice}",
        )
        slowest, read = ceil(throughput_floor_mibps(size)), settings.weights.throughput_mibps
        yield QuotaNeed(
            quota=HYPERDISK_ML_THROUGHPUT,
            amount=releases * (slowest + read * zones),
            because=f"{slowest} MiB/s for the writer, {read} each for {', '.join(settings.zones)}{twice}",
        )
    yield from _boot_disks(settings)


def _boot_disks(settings: Settings) -> Iterator[QuotaNeed]:
    servers = (settings.machine.type, settings.nodes, settings.boot_disk_gib)
    hyperdisks = [(machine, count, SMALLEST_BOOT_DISK_GIB) for machine, count in _writer(settings)]
    client_gib = boot_disk_gib(BENCHMARK_CLIENT_DISK_GIB * GIB)
    hyperdisks += [(machine, count, client_gib) for machine, count in _clients(settings)]
    ssds = [(f"{machine} of Autopilot itself", count, SMALLEST_BOOT_DISK_GIB) for machine, count in _system(settings)]
    if settings.nodes:
        (hyperdisks if settings.machine.boot_disk == "hyperdisk-balanced" else ssds).insert(0, servers)
    for quota, nodes in ((HYPERDISK_BALANCED_CAPACITY, hyperdisks), (SSD_CAPACITY, ssds)):
        yield QuotaNeed(
            quota=quota,
            amount=sum(count * gib for _, count, gib in nodes),
            because=f"boot disks: {' and '.join(f'{count} {name}, {gib} GiB each' for name, count, gib in nodes)}",
        )


def _clients(settings: Settings) -> Iterator[tuple[str, int]]:
    if settings.benchmark.enabled:
        yield load_of(settings).machine_type, 1


def _writer(settings: Settings) -> Iterator[tuple[str, int]]:
    if settings.weights.source == "hyperdisk":
        yield f"{WRITER_FAMILY}-standard-{machine_for_cpus(WRITER_CPU)}", 1


def _system(settings: Settings) -> Iterator[tuple[str, int]]:
    if settings.owns_platform:
        yield SYSTEM_NODE, SYSTEM_NODES


def _family(machine: str) -> str:
    return machine.partition("-")[0]


def _vcpus(settings: Settings, machine: str) -> int:
    return settings.machine.vcpu if machine == settings.machine.type else int(machine.rpartition("-")[2])
