"""The A4 machine, and GPUs by the three numbers a roofline needs: memory, bandwidth, arithmetic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MACHINE_TYPE: Final = "a4-highgpu-8g"
"""Eight B200 GPUs, 224 vCPU, 3968 GiB, 32 local SSDs. Source: GKE cluster autoscaler, machine types."""
ACCELERATOR: Final = "nvidia-b200"
DRIVER_VERSION: Final = "latest"
"""GKE's choice of GPU driver: unset, it is the default one, the older of two. vLLM's image brings CUDA 12.9, and a driver older than an
image's CUDA runs it through a compatibility library or not at all. Source: GKE cluster autoscaler, gke-gpu-driver-version."""
GPUS_PER_NODE: Final = 8
"""Autopilot refuses any other GPU count on this machine ("incorrect count"). Source: GKE cluster autoscaler."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One GPU."""

    name: str
    memory_gib: float
    """What the driver reports to a process."""
    bandwidth_bytes_per_s: float
    fp8_flop_per_s: float
    """Dense, without structured sparsity."""
    idle_watts: float
    """With a model loaded and nothing running."""


B200 = Gpu(
    name="B200",
    # Source: pytorch/ao pull request 4002, 2026-03-05: total global memory that CUDA reports. The article says 180 GB, which is
    # 167.6 GiB; its own 959K tokens do not fit into 0.92 of that.
    memory_gib=178.35,
    # Source: the article. The pull request above measures clocks and bus width that give 7.67 TB/s.
    bandwidth_bytes_per_s=8e12,
    # Source: same pull request: 4.5 dense. The article's 9 counts structured sparsity, which no model here uses.
    fp8_flop_per_s=4.5e15,
    # Source: NVIDIA/TensorRT-LLM issue 10278, 2025-12-24: nvidia-smi of eight loaded, idle B200, 192 and 196 W.
    idle_watts=194,
)
H200 = Gpu(
    name="H200",
    # Measured: the trial's GPU, 2026-11-21.
    memory_gib=139,
    bandwidth_bytes_per_s=4.8e12,
    # Source: NVIDIA H200 datasheet, 3.96 with sparsity.
    fp8_flop_per_s=1.98e15,
    # Assumed: as a B200's share of its maximum of 1,000 W, of 700 W.
    idle_watts=136,
)
