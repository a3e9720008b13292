"""Sizes of a fleet's surroundings: ranges, weights volume, NAT ports, quota, benchmark.

Pure arithmetic on documented limits (facts/disks.py, facts/ranges.py) and measurements of clients.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from facts.disks import (
    MAX_MIBPS_PER_GIB,
    MIN_SIZE_GIB,
    max_readers,
    throughput_floor_mibps,
    throughput_for_readers_mibps,
)
from facts.machines import DEFAULT_MACHINE, Machine
from facts.ranges import RangeSizes, nat_ports_per_vm, smallest_ranges

# Size of one vLLM image in the registry. Source: 9,578,701,871 bytes on disk, publicly reported for v0.18.1.
VLLM_IMAGE_GIB = 9.0
# The same on a node's disk. Assumed: unpacked, three times as large.
VLLM_IMAGE_UNPACKED_GIB = 27
# Disk request of the container that stores a pod's compile cache: it copies a file of 8 GiB at most, and an emptyDir counts against the
# pod's disk.
CACHE_SAVER_DISK_GIB = 10
# Disk request of the router's container in a pod with prefill apart: its logs.
POD_ROUTER_DISK_GIB = 1
# Disk of a benchmark client's pod; the image is not counted. Assumed: a client's detailed result is some 30 MB, logs and tokenizer less, a
# dataset and the clients' slices of it a few GB. The smallest boot disk has room for it.
BENCHMARK_CLIENT_DISK_GIB = 40
GIB_PER_GB = 1e9 / 2**30
# Source: weights_download.sh peaked at 1.0 times the model on ext4; the rest is margin.
VOLUME_SPACE_FACTOR = 1.1
# Steps of 16 GiB, so that small changes of the model do not change the volume.
VOLUME_STEP_GIB = 16
# Assumed: acceptable time to read the weights, in a start of about 17 minutes.
READ_SECONDS = 75.0
# Assumed: the maximum if many readers share one volume whose size limits its throughput; as in policy throughput-below-readers.
MOST_READ_SECONDS = 300.0
# Throughput in steps, so that one more replica does not update the disk, which allows one update in six hours.
THROUGHPUT_STEP_MIBPS = 400
# Measured: a stock benchmark client spends 30 to 35 microseconds on each chunk of a stream, vLLM 0.18.1 on one core.
CLIENT_SECONDS_PER_CHUNK = 35e-6
CLIENT_CORE_SHARE = 0.5
# Source: the article, "ClusterIP vs Inference Gateway": vCPU with which the endpoint picker no longer crashed, and the connections at which
# it crashed with its defaults.
EPP_CPU = 10
EPP_CONNECTIONS = 8_000
# Source: the article: clients of 1,000 connections; two thousand requests in flight on a node.
CONNECTIONS_PER_CLIENT = 1000
# vCPU and GiB. Source: Compute Engine docs, C4 machine series, standard types; the article runs one client per vCPU.
BENCHMARK_MACHINES = {"c4-standard-16": (16, 60), "c4-standard-32": (32, 120), "c4-standard-48": (48, 180)}
# Source: Linux, net.ipv4.ip_local_port_range 32768 to 60999, 28,232 ports of a pod to one address. Measured: 24,000 connections of 24
# clients on loopback (docs/decisions/14-benchmark.md); the rest is for connections that a run before it closed, and others.
BENCHMARK_CONNECTIONS = 25_000
# Assumed: Git LFS opens eight concurrent transfers and a few connections to its server.
DOWNLOAD_CONNECTIONS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizing:
    """Sizes of a fleet's surroundings."""

    ranges: RangeSizes
    volume_gib: int
    volume_mibps: int
    volume_copies: int
    """Volumes per zone; more than one if there are too many readers for one."""
    nat_ports_per_vm: int
    quota_gpus: int
    """GPUs to request, including spares."""
    benchmark_clients: int
    benchmark_connections: int
    benchmark_machine: str
    """Machine type of the one pod with these clients."""


def size(
    *,
    nodes: int,
    weights_gb: float,
    output_tokens_per_s: float,
    tokens_per_chunk: float,
    in_flight: float,
    gateway: bool,
    machine: Machine = DEFAULT_MACHINE,
) -> Sizing:
    """Sizes for a number of nodes, including spares. Raises ValueError for an invalid number.

    `tokens_per_chunk`: output tokens per chunk, above 1 with speculative decoding. `gateway`: whether it takes a proxy-only range.
    """
    if nodes < 1:
        raise ValueError(f"nodes must be 1 or more, got {nodes}")
    volume_gib = volume_size_gib(weights_gb, nodes)
    copies = ceil(nodes / max_readers(volume_gib))
    clients = benchmark_clients(output_tokens_per_s, tokens_per_chunk, in_flight)
    return Sizing(
        ranges=smallest_ranges(gpu_nodes=nodes, gateway=gateway),
        volume_gib=volume_gib,
        volume_mibps=volume_throughput_mibps(weights_gb, volume_gib, ceil(nodes / copies), machine),
        volume_copies=copies,
        nat_ports_per_vm=nat_ports_per_vm(concurrent_connections=DOWNLOAD_CONNECTIONS),
        quota_gpus=nodes * machine.gpus,
        benchmark_clients=clients,
        benchmark_connections=ceil(in_flight),
        benchmark_machine=benchmark_machine(clients),
    )


def volume_size_gib(weights_gb: float, readers: int = 1) -> int:
    """Size of the weights volume in GiB, in steps, so that all readers can read it in MOST_READ_SECONDS."""
    needed = max(float(MIN_SIZE_GIB), weights_gb * GIB_PER_GB * VOLUME_SPACE_FACTOR)
    most = max_readers(ceil(needed / VOLUME_STEP_GIB) * VOLUME_STEP_GIB)
    together = min(readers, most) * weights_gb * 1e9 / 2**20 / MOST_READ_SECONDS
    for_readers = max(together, throughput_for_readers_mibps(min(readers, most))) / MAX_MIBPS_PER_GIB
    return ceil(max(needed, for_readers) / VOLUME_STEP_GIB) * VOLUME_STEP_GIB


def volume_throughput_mibps(
    weights_gb: float, volume_gib: int, readers: int, machine: Machine = DEFAULT_MACHINE
) -> int:
    """Throughput for every reader to read the weights in about READ_SECONDS, within the volume's limits."""
    each = min(weights_gb * 1e9 / 2**20 / READ_SECONDS, machine.read_mibps)
    wanted = max(each * readers, throughput_floor_mibps(volume_gib), float(throughput_for_readers_mibps(readers)))
    stepped = ceil(wanted / THROUGHPUT_STEP_MIBPS) * THROUGHPUT_STEP_MIBPS
    return min(stepped, MAX_MIBPS_PER_GIB * volume_gib)


def benchmark_clients(
    output_tokens_per_s: float,
    tokens_per_chunk: float,
    in_flight: float,
    connections_per_client: int = CONNECTIONS_PER_CLIENT,
) -> int:
    """Client processes with less than half a core and at most `connections_per_client` connections each, and at least one. Raises
    ValueError for less than one token per chunk.
    """
    if tokens_per_chunk < 1:
        raise ValueError(f"tokens_per_chunk must be 1 or more, got {tokens_per_chunk}")
    chunks_per_s = output_tokens_per_s / tokens_per_chunk
    by_cpu = ceil(chunks_per_s * CLIENT_SECONDS_PER_CHUNK / CLIENT_CORE_SHARE)
    by_connections = ceil(in_flight / connections_per_client)
    return max(1, by_connections, min(by_cpu, ceil(in_flight)))


def benchmark_machine(clients: int) -> str:
    """The smallest machine type with a vCPU for every client; the largest where there is none."""
    return next(
        (name for name, (vcpus, _) in BENCHMARK_MACHINES.items() if clients <= vcpus), [*BENCHMARK_MACHINES][-1]
    )
