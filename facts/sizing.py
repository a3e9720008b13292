"""Everything around the servers, sized for a fleet: ranges, weights volume, NAT ports, quota, gateway, benchmark.

Pure arithmetic over limits that are documented (facts/disks.py, facts/ranges.py) and over what was
measured of clients and of the endpoint picker.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from facts import ledger
from facts.disks import (
    MAX_MIBPS_PER_GIB,
    MIN_SIZE_GIB,
    max_readers,
    throughput_floor_mibps,
    throughput_for_readers_mibps,
)
from facts.machines import DEFAULT_MACHINE, Machine
from facts.ranges import RangeSizes, nat_ports_per_vm, smallest_ranges

# Source: 9,578,701,871 bytes on disk reported publicly for v0.18.1: what the registry keeps for one vLLM image.
VLLM_IMAGE_GIB = 9.0
GIB_PER_GB = 1e9 / 2**30
# Source: weights_download.sh peaked at 1.0 times the model on ext4; the rest is margin.
VOLUME_SPACE_FACTOR = 1.1
# Volumes are sold by the GiB; steps of 16 keep one size over small changes of the model, and so one volume.
VOLUME_STEP_GIB = 16
# Assumed: what reading the weights may add to a start of about 17 minutes before nobody minds.
READ_SECONDS = 75.0
# Assumed: the most it may take where so many readers share one volume that its size limits them; what policy throughput-below-readers
# allows.
MOST_READ_SECONDS = 300.0
# Throughput in round steps, so that one more replica is not one more update of a disk that allows one in six hours.
THROUGHPUT_STEP_MIBPS = 400
# Measured: a stock benchmark client spends 30 to 35 microseconds on each chunk of a stream, vLLM 0.18.1 on one core.
CLIENT_SECONDS_PER_CHUNK = 35e-6
CLIENT_CORE_SHARE = 0.5
# Source: the article, "ClusterIP vs Inference Gateway": vCPU at which the endpoint picker stopped crashing, and the connections
# under which it had crashed at its defaults.
EPP_CPU = 10
EPP_CONNECTIONS = 8_000
# Source: the article: clients of 1,000 connections; two thousand requests in flight on a node.
CONNECTIONS_PER_CLIENT = 1000
BENCHMARK_MACHINE = "c4-standard-16"
# Source: Compute Engine docs, C4 machine series, standard types; the article runs sixteen clients on 16 vCPU, so a vCPU each.
BENCHMARK_MACHINES = {"c4-standard-16": 16, "c4-standard-32": 32, "c4-standard-48": 48}
# Source: Linux, net.ipv4.ip_local_port_range 32768 to 60999, which one pod has towards one address; less what the run before
# still holds and what everything else in the pod opens. Assumed: the share kept back.
CONNECTIONS_PER_POD = 20_000
# Assumed: Git LFS opens eight transfers at once and a handful of connections to the server that names the files.
DOWNLOAD_CONNECTIONS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayAdvice:
    """Whether an endpoint picker can carry a rate, by what the article measured of one."""

    use: bool
    in_words: str
    pickers: int
    """Pickers that work at once: one, whatever the number of replicas; the others stand by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizing:
    """What a fleet needs around its servers."""

    ranges: RangeSizes
    volume_gib: int
    volume_mibps: int
    volume_copies: int
    """Volumes per zone: more than one where one volume may not have so many readers."""
    nat_ports_per_vm: int
    quota_gpus: int
    """GPUs to ask for, spares included."""
    benchmark_clients: int
    benchmark_connections: int
    benchmark_nodes: int
    """Machines of `benchmark_machine` that run those clients, one pod on each."""
    benchmark_machine: str
    gateway: GatewayAdvice


def size(
    *,
    nodes: int,
    weights_gb: float,
    requests_per_s: float,
    output_tokens_per_s: float,
    tokens_per_chunk: float,
    in_flight: float,
    gateway: bool,
    loss_per_token_with_gateway: float | None = None,
    machine: Machine = DEFAULT_MACHINE,
) -> Sizing:
    """Sizes for that many nodes, spares included. Raises ValueError on a number that cannot be.

    `tokens_per_chunk`: output tokens that arrive together, above 1 with speculative decoding. `loss_per_token_with_gateway`
    is the share of throughput that the gateway costs, where the caller has estimated it.
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
        benchmark_nodes=benchmark_pods(clients, ceil(in_flight), BENCHMARK_MACHINE),
        benchmark_machine=BENCHMARK_MACHINE,
        gateway=gateway_advice(nodes, requests_per_s, loss_per_token_with_gateway),
    )


def volume_size_gib(weights_gb: float, readers: int = 1) -> int:
    """Size of the volume that takes the download, GiB, in steps; large enough that all its readers have it in MOST_READ_SECONDS."""
    needed = max(float(MIN_SIZE_GIB), weights_gb * GIB_PER_GB * VOLUME_SPACE_FACTOR)
    most = max_readers(ceil(needed / VOLUME_STEP_GIB) * VOLUME_STEP_GIB)
    together = min(readers, most) * weights_gb * 1e9 / 2**20 / MOST_READ_SECONDS
    for_readers = max(together, throughput_for_readers_mibps(min(readers, most))) / MAX_MIBPS_PER_GIB
    return ceil(max(needed, for_readers) / VOLUME_STEP_GIB) * VOLUME_STEP_GIB


def volume_throughput_mibps(
    weights_gb: float, volume_gib: int, readers: int, machine: Machine = DEFAULT_MACHINE
) -> int:
    """Throughput at which every reader has the weights in about READ_SECONDS, within what the volume may have."""
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
    """Client processes that stay below half a core each and at most at `connections_per_client` each; a client has at least
    one connection. Raises ValueError on less than one token a chunk.
    """
    if tokens_per_chunk < 1:
        raise ValueError(f"tokens_per_chunk must be 1 or more, got {tokens_per_chunk}")
    chunks_per_s = output_tokens_per_s / tokens_per_chunk
    by_cpu = ceil(chunks_per_s * CLIENT_SECONDS_PER_CHUNK / CLIENT_CORE_SHARE)
    by_connections = ceil(in_flight / connections_per_client)
    return max(1, by_connections, min(by_cpu, ceil(in_flight)))


def benchmark_pods(clients: int, connections: int, machine_type: str) -> int:
    """Pods, one to a machine of that type, that give every client a vCPU and every connection a port of its own."""
    by_cores = ceil(clients / BENCHMARK_MACHINES[machine_type])
    return max(1, by_cores, ceil(connections / CONNECTIONS_PER_POD))


def gateway_advice(nodes: int, requests_per_s: float, loss: float | None = None) -> GatewayAdvice:
    """Whether to put the Inference Gateway in front, from the article's comparison on 2, 4 and 8 nodes."""
    rows = ledger.section("gateway", "figures")
    most = max(int(row["replicas"]) for row in rows.values())
    lost = [int(row["overhead_percent"]) for row in rows.values()]
    cost = f"about {100 * loss:.0f} %" if loss is not None else f"{min(lost)} to {max(lost)} %"
    if nodes == 1:
        text = "One node has nothing to pick from: leave the gateway off."
        return GatewayAdvice(use=False, in_words=text, pickers=0)
    if nodes > most:
        text = (
            f"Do not use the gateway at this rate: one endpoint picker carried {most} nodes at most in the article, at "
            f"{max(lost)} % less throughput, and {requests_per_s:,.0f} requests a second on {nodes} nodes were never tried. More "
            "pickers stand by, they do not share the load."
        )
        return GatewayAdvice(use=False, in_words=text, pickers=0)
    text = (
        f"The gateway costs {cost} of the throughput with unique prompts. Use it where prompts share prefixes or differ much "
        "in length; a plain Service is faster otherwise."
    )
    return GatewayAdvice(use=True, in_words=text, pickers=1)
