"""Simulated durations of Google Cloud's operations and of vLLM's start, each with its source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from facts.capacity import FLEX_START_WAIT_SECONDS
from facts.disks import throughput_floor_mibps
from facts.time_to_serve import MB_PER_MIB, download_mb_per_s, image_seconds, step_seconds, weights_read_seconds
from settings.derived.benchmark_load import expected_seconds

if TYPE_CHECKING:
    from settings.stack import Settings

DOWNLOAD_MB_PER_S: Final = download_mb_per_s()
"""Download rate of one C4A pod through Cloud NAT. Source: facts/data/durations.yaml. workloads/weights/weights.py sizes its timeout
by a quarter of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timings:
    """Durations in simulated seconds. Defaults are those of one replica of the record."""

    # Machines
    autoscaler_scan_seconds: float = 10.0
    """From a pending pod to the scale-up decision. Source: cluster autoscaler FAQ, --scan-interval."""
    gpu_node_start_seconds: tuple[float, float] = (step_seconds("gpu-node", "low"), step_seconds("gpu-node", "high"))
    """Range from the decision to a Ready GPU node. Source: the article, for A4, "about 5-6 minutes on Autopilot"; assumed for other
    machine types."""
    cpu_node_start_seconds: tuple[float, float] = (80.0, 110.0)
    """The same for a node without GPUs. Assumed: no GPU driver and local SSDs to set up."""
    scale_up_retry_seconds: float = 300.0
    """From a failed scale-up to the next attempt. Source: cluster autoscaler, initial node group backoff of 5 minutes; the real one
    doubles it up to 30."""
    scale_down_seconds: float = 600.0
    """How long a node is empty before it is removed. Source: cluster autoscaler FAQ, --scale-down-unneeded-time."""
    least_idle_seconds: float = 0.0
    """The same for nodes of a class with a delay of its own, at least: time for the scheduler on a fast clock."""
    node_removal_seconds: float = 30.0
    """From that decision to the node's removal. Assumed."""
    flex_start_wait_seconds: float = FLEX_START_WAIT_SECONDS
    """Wait of a ComputeClass at flex-start."""

    # Containers
    large_image_pull_seconds: float = step_seconds("image-pull")
    """The vLLM image, some 10 GB, to a new node. Assumed: Artifact Registry in the same region."""
    image_pull_seconds: float = 5.0
    """Any other image. Assumed."""
    init_container_seconds: float = 15.0
    """One init container: here they fetch a tokenizer of a few MB. Assumed."""
    weights_read_seconds: float = 25.0
    """Reading the weights while all replicas read: see `weights_read_seconds()`."""
    download_gb: float = 0.0
    """Weights that a server downloads to its own disk, GB; 0 with a weights volume."""
    engine_start_seconds: float = step_seconds("engines")
    """Engine start, compilation and CUDA graphs after that. Source: the article's 10 minutes less its reading time. Measured on one
    H200 with vLLM 0.20.2: 3 to 4 minutes in total with cold caches; the slower published figure is kept, with compile caches, too."""
    probe_seconds: float = 10.0
    """From start to Ready of another container with a readiness probe: one probe period. Assumed."""
    exit_seconds: float = 10.0
    """From the stop signal to the end of an idle container, within its grace period. Source: workloads/server/pod.py, EXIT_SECONDS."""

    # Jobs
    writer_seconds: float = 29_000 / DOWNLOAD_MB_PER_S
    """The whole download of the weights, checksums included: size over DOWNLOAD_MB_PER_S."""
    benchmark_seconds: float = 180.0
    """One benchmark pod: all loads, repeats and pauses."""
    job_seconds: float = 60.0
    """Any other Job pod. Assumed."""

    # Storage and load balancer
    disk_create_seconds: float = 10.0
    """An empty disk. Assumed."""
    disk_restore_seconds: float = 60.0
    """A disk from an image, the first time the image is used in a zone. Assumed: half the image's own time."""
    image_create_seconds: float = 120.0
    """An image of the weights' disk. Source: accelerated-platforms saw about 3 minutes for 100 GB; in proportion, at least a
    minute."""
    gateway_program_seconds: float = step_seconds("gateway")
    """From a Gateway to a programmed load balancer. Assumed: GKE's docs say "several minutes"."""

    @property
    def server_load_seconds(self) -> float:
        """From a started vLLM container to Ready."""
        return self.weights_read_seconds + self.engine_start_seconds

    @property
    def server_start_seconds(self) -> float:
        """From a scheduled server pod to Ready."""
        return self.large_image_pull_seconds + self.server_load_seconds

    @property
    def whole_start_seconds(self) -> float:
        """From a pending server pod to Ready, at most."""
        return self.autoscaler_scan_seconds + self.gpu_node_start_seconds[1] + self.server_start_seconds

    def node_start(self, number: int, *, has_gpus: bool) -> float:
        """Start time of the number-th node: spread over the range, the same in every rehearsal."""
        least, most = self.gpu_node_start_seconds if has_gpus else self.cpu_node_start_seconds
        # Multiples of the golden ratio's fraction are spread evenly, without an order.
        return least + (most - least) * (number * 0.6180339887498949 % 1.0)


def timings_for(settings: Settings) -> Timings:
    """Durations for one stack: weights by size, throughput and readers; benchmark by its prompts."""
    size_gb, weights = settings.serving.model.size_gb, settings.weights
    readers, machine = max(1, -(-settings.nodes // len(settings.zones))), settings.machine
    local_ssd = machine.local_ssd == "always" or settings.local_ssd
    downloads = size_gb * 1000 / DOWNLOAD_MB_PER_S
    if weights.has_volume:
        read = weights_read_seconds(
            size_gb=size_gb,
            throughput_mibps=weights.throughput_mibps,
            readers=readers,
            node_mibps=machine.read_mibps,
        )
        # The writer's volume limits the download only if the network is faster than the lowest disk throughput.
        floor_mb_per_s = throughput_floor_mibps(weights.size_gib) * MB_PER_MIB
        downloads = max(downloads, size_gb * 1000 / floor_mb_per_s)
    else:
        read = downloads
    image = image_seconds(weights.size_gib)
    return Timings(
        # Assumed: unpacking to a boot disk, much slower than local SSDs, takes the longest time of the range.
        large_image_pull_seconds=step_seconds("image-pull", "likely" if local_ssd else "high"),
        weights_read_seconds=read,
        download_gb=0.0 if weights.has_volume else size_gb,
        writer_seconds=downloads,
        benchmark_seconds=expected_seconds(settings),
        image_create_seconds=image,
        disk_restore_seconds=image / 2,
    )
