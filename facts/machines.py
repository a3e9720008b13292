"""GPU machine types of GKE Autopilot, and their GPUs.

Sources, unless stated otherwise: GKE cluster autoscaler, machine types and disks; Compute Engine docs, "GPU machine types"; GKE docs,
"Deploy GPU workloads in Autopilot" (lowest versions, GPUs of a pod). FLOPS are dense: AIConfigurator's system files of 2026-08.
Prices and zones are in prices.csv.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from facts.finding import Finding, raise_refused
from facts.texts import hint, nearest

DRIVER_VERSION: Final = "latest"
"""GPU driver version on GKE; the default is the older of two. vLLM's image has CUDA 12.9, which an older driver supports only with a
compatibility library, or not at all. Source: GKE cluster autoscaler, gke-gpu-driver-version."""

LOCAL_SSD_GB: Final = 375
"""Size of one local SSD."""

Way = Literal["on-demand", "spot", "flex-start", "calendar", "reservation", "compute-class"]
"""A provisioning mode: the capacity modes of a stack file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One GPU."""

    name: str
    accelerator: str
    """Value of the node label cloud.google.com/gke-accelerator."""
    memory_gib: float
    """Memory that CUDA reports."""
    bandwidth_bytes_per_s: float
    bf16_flop_per_s: float
    """Dense, without structured sparsity, like the other two."""
    fp8_flop_per_s: float | None = None
    """None if the GPU does not support FP8."""
    fp4_flop_per_s: float | None = None
    compute_capability: int
    """CUDA's, without its point: 90 for Hopper."""
    quota: str
    """The GPU's name in Compute Engine's quotas, e.g. "B200" in PREEMPTIBLE_NVIDIA_B200_GPUS."""
    quota_by_family: bool = True
    """Whether on-demand machines count against GPUS-PER-GPU-FAMILY; older GPUs have the quota NVIDIA_<quota>_GPUS."""
    shares_nodes: bool = True
    """Whether several pods can share a machine on Autopilot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """One machine type."""

    type: str
    gpu: Gpu
    gpus: int
    vcpu: int
    memory_gib: float
    local_ssd_gb: int
    """Total size of local SSDs, used for the pods' ephemeral storage."""
    local_ssd: Literal["always", "optional"]
    """`optional`: only if a pod selects cloud.google.com/gke-ephemeral-storage-local-ssd."""
    boot_disk: Literal["pd-balanced", "hyperdisk-balanced"]
    ways: frozenset[Way]
    """Available provisioning modes."""
    min_gke: str = ""
    """Lowest GKE version of an Autopilot cluster that supports it; empty if every version does."""
    read_mibps: int = 2_400
    """Maximum read throughput of a volume."""
    arch: Literal["amd64", "arm64"] = "amd64"

    @property
    def family(self) -> str:
        """E.g. "a4"."""
        return self.type.partition("-")[0]

    @property
    def accelerator(self) -> str:
        """Value of the node label cloud.google.com/gke-accelerator."""
        return self.gpu.accelerator

    @property
    def pod_gpus(self) -> tuple[int, ...]:
        """Allowed GPUs per pod: all, or smaller powers of two on shared nodes."""
        if not self.gpu.shares_nodes:
            return (self.gpus,)
        return tuple(count for count in (1, 2, 4, 8) if count <= self.gpus)


# Memory: the lowest total in PyTorch's out-of-memory messages of public reports (L4 22.03 to 22.09, A100 39.38 to 39.56 and 79.1 to 79.3,
# RTX PRO 6000 94.97, H100 79.10 to 79.18), unless stated otherwise.
L4: Final = Gpu(
    name="L4",
    accelerator="nvidia-l4",
    memory_gib=22.03,
    bandwidth_bytes_per_s=0.30e12,
    bf16_flop_per_s=121e12,
    fp8_flop_per_s=242e12,
    compute_capability=89,
    quota="L4",
    quota_by_family=False,
)
RTX_PRO_6000: Final = Gpu(
    name="RTX PRO 6000",
    accelerator="nvidia-rtx-pro-6000",
    memory_gib=94.97,
    bandwidth_bytes_per_s=1.79e12,
    bf16_flop_per_s=468e12,
    fp8_flop_per_s=936e12,
    fp4_flop_per_s=1_871e12,
    compute_capability=120,
    # Source: public scripts that print a project's quotas: PREEMPTIBLE-NVIDIA-RTX-PRO-6000-GPUS-per-project-region, 2026.
    quota="RTX_PRO_6000",
)
A100_40GB: Final = Gpu(
    name="A100 40GB",
    accelerator="nvidia-tesla-a100",
    memory_gib=39.38,
    bandwidth_bytes_per_s=1.56e12,
    bf16_flop_per_s=312e12,
    compute_capability=80,
    quota="A100",
    quota_by_family=False,
)
A100_80GB: Final = Gpu(
    name="A100 80GB",
    accelerator="nvidia-a100-80gb",
    memory_gib=79.1,
    bandwidth_bytes_per_s=2.04e12,
    bf16_flop_per_s=312e12,
    compute_capability=80,
    quota="A100_80GB",
    quota_by_family=False,
)
H100: Final = Gpu(
    name="H100",
    accelerator="nvidia-h100-80gb",
    memory_gib=79.1,
    bandwidth_bytes_per_s=3.35e12,
    bf16_flop_per_s=989e12,
    fp8_flop_per_s=1_978e12,
    compute_capability=90,
    quota="H100",
)
H100_MEGA: Final = Gpu(
    name="H100 Mega",
    accelerator="nvidia-h100-mega-80gb",
    memory_gib=79.1,
    bandwidth_bytes_per_s=3.35e12,
    bf16_flop_per_s=989e12,
    fp8_flop_per_s=1_978e12,
    compute_capability=90,
    quota="H100_MEGA",
    shares_nodes=False,
)
H200: Final = Gpu(
    name="H200",
    accelerator="nvidia-h200-141gb",
    # Measured: the trial's GPU, 2026-11-21.
    memory_gib=139,
    bandwidth_bytes_per_s=4.8e12,
    bf16_flop_per_s=989e12,
    # Source: NVIDIA H200 datasheet, 3.96 with sparsity.
    fp8_flop_per_s=1.98e15,
    compute_capability=90,
    quota="H200",
    shares_nodes=False,
)
B200: Final = Gpu(
    name="B200",
    accelerator="nvidia-b200",
    # Source: pytorch/ao pull request 4002, 2026-03-05: total global memory that CUDA reports. The article states 180 GB, which is
    # 167.6 GiB; its 959K tokens do not fit 0.92 of that.
    memory_gib=178.35,
    # Source: the article. Clocks and bus width in the pull request above give 7.67 TB/s.
    bandwidth_bytes_per_s=8e12,
    bf16_flop_per_s=2.25e15,
    # Source: same pull request: 4.5 dense. The article's 9 includes structured sparsity, which no model here uses.
    fp8_flop_per_s=4.5e15,
    fp4_flop_per_s=9e15,
    compute_capability=100,
    quota="B200",
    shares_nodes=False,
)
GB200: Final = Gpu(
    name="GB200",
    accelerator="nvidia-gb200",
    # Source: AIConfigurator, nvidia-smi: 189,471 MiB.
    memory_gib=185.0,
    bandwidth_bytes_per_s=8e12,
    bf16_flop_per_s=2.5e15,
    fp8_flop_per_s=5e15,
    fp4_flop_per_s=10e15,
    compute_capability=100,
    quota="GB200",
    shares_nodes=False,
)

_EVERY: Final = frozenset[Way](("on-demand", "spot", "flex-start", "reservation", "compute-class"))
"""Calendar mode supports A4, A3 Ultra, A3 Mega and A3 High with eight GPUs; for others no documentation was found."""
_SCARCE: Final = frozenset[Way](("spot", "flex-start", "calendar", "reservation", "compute-class"))


def _g2(vcpu: int, gpus: int) -> Machine:
    return Machine(
        type=f"g2-standard-{vcpu}",
        gpu=L4,
        gpus=gpus,
        vcpu=vcpu,
        memory_gib=4 * vcpu,
        local_ssd_gb=LOCAL_SSD_GB * gpus,
        local_ssd="optional",
        boot_disk="pd-balanced",
        ways=_EVERY,
    )


def _g4(vcpu: int, gpus: int) -> Machine:
    return Machine(
        type=f"g4-standard-{vcpu}",
        gpu=RTX_PRO_6000,
        gpus=gpus,
        vcpu=vcpu,
        memory_gib=3.75 * vcpu,
        local_ssd_gb=1_500 * gpus,
        local_ssd="optional",
        boot_disk="hyperdisk-balanced",
        ways=_EVERY,
        min_gke="1.34.1-gke.1829001",
    )


def _a2(gpu: Gpu, kind: str, gpus: int, gib_per_gpu: int) -> Machine:
    return Machine(
        type=f"a2-{kind}-{gpus}g",
        gpu=gpu,
        gpus=gpus,
        vcpu=12 * gpus,
        memory_gib=gib_per_gpu * gpus,
        local_ssd_gb=LOCAL_SSD_GB * gpus,
        local_ssd="always" if gpu is A100_80GB else "optional",
        boot_disk="pd-balanced",
        ways=_EVERY,
    )


def _a3_high(gpus: int) -> Machine:
    return Machine(
        type=f"a3-highgpu-{gpus}g",
        gpu=H100,
        gpus=gpus,
        vcpu=26 * gpus,
        memory_gib=234 * gpus,
        local_ssd_gb=750 * gpus,
        local_ssd="always",
        boot_disk="pd-balanced",
        # Fewer than eight H100 are sold as Spot and flex-start only.
        ways=_EVERY | {"calendar"} if gpus == 8 else frozenset({"spot", "flex-start", "compute-class"}),
        min_gke="1.28.6" if gpus == 8 else "1.31.4-gke.1072000",
    )


MACHINES: Final[Mapping[str, Machine]] = {
    machine.type: machine
    for machine in (
        *(_g2(vcpu, 1) for vcpu in (4, 8, 12, 16, 32)),
        *(_g2(vcpu, gpus) for vcpu, gpus in ((24, 2), (48, 4), (96, 8))),
        *(_g4(48 * gpus, gpus) for gpus in (1, 2, 4, 8)),
        *(_a2(A100_40GB, "highgpu", gpus, 85) for gpus in (1, 2, 4, 8)),
        *(_a2(A100_80GB, "ultragpu", gpus, 170) for gpus in (1, 2, 4, 8)),
        *(_a3_high(gpus) for gpus in (1, 2, 4, 8)),
        Machine(
            type="a3-megagpu-8g",
            gpu=H100_MEGA,
            gpus=8,
            vcpu=208,
            memory_gib=1_872,
            local_ssd_gb=6_000,
            local_ssd="always",
            boot_disk="pd-balanced",
            ways=_EVERY | {"calendar"},
            min_gke="1.28.9",
        ),
        Machine(
            type="a3-ultragpu-8g",
            gpu=H200,
            gpus=8,
            vcpu=224,
            memory_gib=2_952,
            local_ssd_gb=12_000,
            local_ssd="always",
            boot_disk="hyperdisk-balanced",
            ways=_SCARCE,
            min_gke="1.31.4-gke.1183000",
            # Source: GKE docs, Hyperdisk ML, a3-ultragpu-8g.
            read_mibps=4_000,
        ),
        Machine(
            type="a4-highgpu-8g",
            gpu=B200,
            gpus=8,
            vcpu=224,
            memory_gib=3_968,
            local_ssd_gb=12_000,
            local_ssd="always",
            boot_disk="hyperdisk-balanced",
            ways=_SCARCE,
            min_gke="1.32.2-gke.1422000",
            # Assumed: as a3-ultragpu-8g.
            read_mibps=4_000,
        ),
        Machine(
            type="a4x-highgpu-4g",
            gpu=GB200,
            gpus=4,
            vcpu=140,
            memory_gib=884,
            local_ssd_gb=12_000,
            local_ssd="always",
            boot_disk="hyperdisk-balanced",
            ways=frozenset({"reservation"}),
            arch="arm64",
        ),
    )
}
"""By machine type. Not included: g4-standard-6 to 24 with parts of a GPU, which Autopilot does not support, and a4x-maxgpu-4g-metal,
which needs an explicit node pool."""
DEFAULT: Final = "a4-highgpu-8g"
"""The article's machine."""


def find(machine_type: str) -> Machine:
    """The machine type with that name. Raises ValueError with a finding."""
    if machine_type not in MACHINES:
        words = str(machine_type)
        meant = meant_machine(words)
        near = meant.type if meant else nearest(words, MACHINES)
        unknown = Finding(
            id="unknown-machine",
            subject="find.machine_type",
            found=words,
            allowed=", ".join(MACHINES),
            why="no machine type has that name" + (f"; did you mean {near}?" if near else ""),
            write=f'find("{near}")' if near else 'find("...") with one of those names',
        )
        raise_refused([unknown])
    return MACHINES[machine_type]


def meant_machine(words: str) -> Machine | None:
    """The machine that a GPU's name or a machine family means, such as `h100`, `8x H200` or `a3`; None if nothing has that name.

    With as many GPUs as the words say, else with the fewest.
    """
    found = _GPUS_IN_WORDS.fullmatch(words.strip().lower())
    if found is None:
        return None
    count, name = int(found[1] or found[3] or 0), _letters(found[2].removeprefix("nvidia"))
    of_gpu = [machine for machine in MACHINES.values() if name in _names(machine)]
    starts = [machine for machine in MACHINES.values() if name and _letters(machine.gpu.name).startswith(name)]
    several = of_gpu or [machine for machine in starts if machine.gpu == starts[0].gpu]
    several = [machine for machine in several if machine.gpus == count] or several
    return _SMALL if _SMALL in several else next(iter(several), None)


def machine_hint(words: str, known: Iterable[str] = ()) -> str:
    """What an unknown machine type may have meant, else all that are known."""
    meant = meant_machine(words)
    return hint(words, known or MACHINES, meant.type if meant else None)


def _names(machine: Machine) -> tuple[str, ...]:
    accelerator = machine.gpu.accelerator.removeprefix("nvidia-")
    return _letters(machine.gpu.name), _letters(accelerator), machine.family


def _letters(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def of_accelerator(accelerator: str) -> tuple[Machine, ...]:
    """Machine types with that node label, smallest first: GKE creates the first that fits a pod."""
    same = (machine for machine in MACHINES.values() if machine.accelerator == accelerator)
    return tuple(sorted(same, key=lambda machine: (machine.gpus, machine.vcpu)))


LEAST_FP8_CACHE: Final = 89
"""Lowest compute capability with 8-bit KV caches in vLLM. Source: vLLM 0.18.1, fp8 caches."""
DEFAULT_MACHINE: Final = find(DEFAULT)
_SMALL: Final = find("g2-standard-12")
"""Of the machines with one L4, the first with room for a model of the catalogue."""
_GPUS_IN_WORDS: Final = re.compile(r"(?:(\d+)\s*x\s*)?(.*?)(?:\s*[x*]\s*(\d+))?")
"""`8x H100`, `h100 x 8`, `h100`."""
