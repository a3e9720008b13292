"""How long Google's part and vLLM's start take, in simulated seconds: one table, each row with where it comes from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from facts.disks import throughput_floor_mibps
from facts.time_to_serve import MB_PER_MIB, download_mb_per_s, image_seconds, step_seconds, weights_read_seconds
from settings.derived.benchmark_load import expected_seconds

if TYPE_CHECKING:
    from settings.stack import Settings

DOWNLOAD_MB_PER_S: Final = download_mb_per_s()
"""What one C4A pod gets through Cloud NAT. Source: facts/data/durations.yaml, as of everything read from the planner
here. workloads/weights/weights.py sizes its time-out by a quarter of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timings:
    """Durations in simulated seconds unless the name says otherwise. The defaults are those of one replica of the record."""

    # Machines
    autoscaler_scan_seconds: float = 10.0
    """From a pod that cannot be placed to the decision. Source: cluster autoscaler FAQ, --scan-interval."""
    gpu_node_start_seconds: tuple[float, float] = (step_seconds("gpu-node", "low"), step_seconds("gpu-node", "high"))
    """Least and most from the decision to a Ready node with GPUs. Source: the article of A4, "about 5-6 minutes on Autopilot"; assumed
    of every other."""
    cpu_node_start_seconds: tuple[float, float] = (80.0, 110.0)
    """The same for a node without GPUs. Assumed: no GPU driver and no 32 local SSDs to set up."""
    scale_up_retry_seconds: float = 300.0
    """From a refused machine to the next attempt. Source: cluster autoscaler, initial node group back-off of 5 minutes; the
    real one doubles it up to 30."""
    scale_down_seconds: float = 600.0
    """How long a node stands empty before it is given back. Source: cluster autoscaler FAQ, --scale-down-unneeded-time."""
    node_removal_seconds: float = 30.0
    """From that decision to a machine that is no longer there. Assumed."""
    flex_start_wait_seconds: float = 900.0
    """How long a ComputeClass waits on its flex-start rung when it does not say. Source: GKE docs, 15 minutes."""

    # Containers
    large_image_pull_seconds: float = step_seconds("image-pull")
    """The vLLM image, some 10 GB, to a new node. Assumed: Artifact Registry in the same region."""
    image_pull_seconds: float = 5.0
    """Any other image. Assumed."""
    init_container_seconds: float = 15.0
    """One init container: here they fetch a tokenizer of a few MB. Assumed."""
    weights_read_seconds: float = 25.0
    """Reading the weights while every replica reads at once: `weights_read_seconds()` says how it is worked out."""
    download_gb: float = 0.0
    """What a server writes to its own disk meanwhile, GB: the weights, where it mounts no volume of them."""
    engine_start_seconds: float = step_seconds("engines")
    """Engines, compilation and CUDA graphs after that. Source: the article's 10 minutes less what its reading takes. Measured
    since, on one H200 with vLLM 0.20.2: 3 to 4 minutes in all with cold caches; the slower, published figure is kept."""
    warm_engine_start_seconds: float = step_seconds("engines-warm")
    """The same with the compile caches of a pod before. Source: facts/data/durations.yaml, measured on H200."""
    probe_seconds: float = 10.0
    """From a started container with a readiness probe, other than vLLM, to Ready: one period of the probe. Assumed."""
    exit_seconds: float = 10.0
    """From the stop signal to the end of a container that has nothing more to do. Source: workloads/server/pod.py,
    EXIT_SECONDS; within the grace, whatever happens."""

    lease_seconds: float = 15.0
    """How long a standby endpoint picker waits for a leader that is gone. Source: client-go, leader election's default."""

    # Jobs
    writer_seconds: float = 29_000 / DOWNLOAD_MB_PER_S
    """The whole download of the weights, checksums included: size over DOWNLOAD_MB_PER_S."""
    benchmark_seconds: float = 180.0
    """One benchmark pod, every load and every repeat: rounds of requests, and what stands around each run."""
    job_seconds: float = 60.0
    """Any other Job pod. Assumed."""

    # Storage and load balancer
    disk_create_seconds: float = 10.0
    """An empty disk. Assumed."""
    disk_restore_seconds: float = 60.0
    """A disk from an image, the first time the image is used in a zone. Assumed: half the image's own time."""
    disk_attach_seconds: float = 15.0
    disk_detach_seconds: float = 10.0
    # Assumed: seconds, as persistent disks take.
    image_create_seconds: float = 120.0
    """An image of the weights' disk. Source: accelerated-platforms saw about 3 minutes for 100 GB; in proportion, and a
    minute at least."""
    gateway_program_seconds: float = step_seconds("gateway")
    """From a Gateway to a programmed load balancer. Assumed: GKE's docs say "several minutes"."""

    @property
    def server_load_seconds(self) -> float:
        """From a started vLLM container to Ready."""
        return self.weights_read_seconds + self.engine_start_seconds

    @property
    def warm_load_seconds(self) -> float:
        """The same with compile caches that were found."""
        return self.weights_read_seconds + self.warm_engine_start_seconds

    @property
    def server_start_seconds(self) -> float:
        """From a server pod on a node to Ready."""
        return self.large_image_pull_seconds + self.disk_attach_seconds + self.server_load_seconds

    @property
    def whole_start_seconds(self) -> float:
        """From a server pod that has no node to Ready, at most."""
        return self.autoscaler_scan_seconds + self.gpu_node_start_seconds[1] + self.server_start_seconds

    def node_start(self, number: int, *, has_gpus: bool) -> float:
        """How long the number-th machine takes: spread over the range, the same in every rehearsal."""
        least, most = self.gpu_node_start_seconds if has_gpus else self.cpu_node_start_seconds
        # Multiples of the golden section's fraction fall evenly over the range, in no order.
        return least + (most - least) * (number * 0.6180339887498949 % 1.0)


def timings_for(settings: Settings) -> Timings:
    """The durations of one stack: weights by size, throughput and readers; benchmark by its prompts."""
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
        # The writer's own volume takes what comes, unless the line is faster than the least throughput there is.
        floor_mb_per_s = throughput_floor_mibps(weights.size_gib) * MB_PER_MIB
        downloads = max(downloads, size_gb * 1000 / floor_mb_per_s)
    else:
        read = downloads
    image = image_seconds(weights.size_gib)
    return Timings(
        # Assumed: unpacked to a boot disk, whose throughput is a small part of local SSDs', the image takes the longest of its range.
        large_image_pull_seconds=step_seconds("image-pull", "likely" if local_ssd else "high"),
        weights_read_seconds=read,
        download_gb=0.0 if weights.has_volume else size_gb,
        writer_seconds=downloads,
        benchmark_seconds=expected_seconds(settings),
        image_create_seconds=image,
        disk_restore_seconds=image / 2,
    )
