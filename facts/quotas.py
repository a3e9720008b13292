"""Compute Engine quotas of a fleet: their names in Cloud Quotas, and in the older lists of a region or a project.

A limit is looked up in Cloud Quotas first, because the older lists have no limits by family, and gcloud omits metrics that its version
does not know. Sources: Google Cloud docs, "Allocation quotas" and "Cloud Quotas, QuotaInfo"; ids and values of real projects published
in 2026. Names without such a source are marked unverified.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from facts.machines import Gpu

SERVICE: Final = "compute.googleapis.com"
UNLIMITED: Final = -1
"""Value of an unlimited quota in Cloud Quotas."""

PER_ZONE: Final = "-per-project-zone"
"""Suffix of a zone's copy of a regional quota. If the copy is unlimited, the regional quota applies. Source: L4 and the quota of all GPUs,
-1 in the copy and 1 in the region of the same project."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """One limit."""

    title: str
    """Name for reports."""
    ids: tuple[str, ...]
    """Its id in Cloud Quotas, and alternatives for projects without the first."""
    metric: str
    """Its name in the older list, and in the error of a request that exceeds it."""
    unit: str = ""
    dimensions: Mapping[str, str] = field(default_factory=dict)
    """Dimensions other than the region, for an id with several limits."""
    regional: bool = True
    """False for a limit for all regions of the project."""


ALL_GPUS: Final = Quota(
    title="GPUs of all regions",
    ids=("GPUS-ALL-REGIONS-per-project",),
    metric="GPUS_ALL_REGIONS",
    regional=False,
)
"""The limit for all families; 0 in many new projects."""
ALL_CPUS: Final = Quota(
    title="vCPU of all regions",
    ids=("CPUS-ALL-REGIONS-per-project",),
    metric="CPUS_ALL_REGIONS",
    regional=False,
)
"""32 or 64 in known projects. A4 machines need GPU quota only. Source: "Allocation quotas", GPU VMs."""
SYSTEM_NODES: Final = 2
SYSTEM_NODE: Final = "e2-standard-2"
"""Nodes for Autopilot's own pods, which Google pays and which count against the project's quotas. Assumed: number and machine; a cluster
with more of them, or with pods without GPUs, has more nodes."""
FAMILIES_WITH_CPU_QUOTA: Final = frozenset({"a2", "g2"})
"""GPU machines whose vCPU also count against quotas. Source: A2_CPUS of projects with A2. That G2 counts as vCPU without a family, and
newer machines not at all, is inferred from the names in Quota.Metric of the Compute API (unverified)."""
HYPERDISK_ML_CAPACITY: Final = Quota(
    # Source of the name without suffix: "Allocation quotas", HDML-TOTAL-GB. The suffixes are those of Hyperdisk Balanced (unverified).
    title="Hyperdisk ML capacity",
    ids=("HDML-TOTAL-GB-per-project-region", f"HDML-TOTAL-GB{PER_ZONE}"),
    metric="HDML_TOTAL_GB",
    unit="GiB",
)
HYPERDISK_ML_THROUGHPUT: Final = Quota(
    # Source of the metric: published errors, "Quota 'HDML_TOTAL_THROUGHPUT' exceeded", a regional limit. Suffixes as above (unverified).
    title="Hyperdisk ML throughput",
    ids=("HDML-TOTAL-THROUGHPUT-per-project-region", f"HDML-TOTAL-THROUGHPUT{PER_ZONE}"),
    metric="HDML_TOTAL_THROUGHPUT",
    unit="MiB/s",
)
HYPERDISK_BALANCED_CAPACITY: Final = Quota(
    title="Hyperdisk Balanced capacity",
    ids=("HDB-TOTAL-GB-per-project-region",),
    metric="HDB_TOTAL_GB",
    unit="GiB",
)
"""Boot disks of A4, C4 and C4A machines. 500 GB in known projects."""
SSD_CAPACITY: Final = Quota(
    title="SSD Persistent Disk capacity",
    ids=("SSD-TOTAL-GB-per-project-region",),
    metric="SSD_TOTAL_GB",
    unit="GiB",
)
"""Boot disks of older families: pd-balanced counts as SSD. 250 GB in trial projects, 500 in many new ones. Source: "Allocation quotas",
disks; huggingface/Google-Cloud-Containers#126, a pod with an L4 that stayed Pending for it."""

_ARM_AND_X86_SHAPES: Final = (1, 2, 4, 8, 16, 32, 48, 64, 72, 96)
"""vCPU of general-purpose machines. Source: Compute Engine docs, C4A and C4, standard types."""


def gpus(gpu: Gpu, *, spot: bool) -> Quota:
    """Quota of that GPU in a region. Spot and flex-start share a separate quota.

    Sources: AI Hypercomputer docs, consumption options; public scripts that read these limits.
    """
    name = gpu.quota.replace("_", "-")
    if spot:
        return Quota(
            title=f"Spot and flex-start {gpu.name} GPUs",
            ids=(f"PREEMPTIBLE-NVIDIA-{name}-GPUS-per-project-region",),
            metric=f"PREEMPTIBLE_NVIDIA_{gpu.quota}_GPUS",
        )
    if gpu.quota_by_family:
        return Quota(
            title=f"{gpu.name} GPUs",
            ids=("GPUS-PER-GPU-FAMILY-per-project-region",),
            # The older list has a wrong 0 for them.
            metric="GPUS_PER_GPU_FAMILY",
            dimensions={"gpu_family": f"NVIDIA_{gpu.quota}"},
        )
    return Quota(
        title=f"{gpu.name} GPUs", ids=(f"NVIDIA-{name}-GPUS-per-project-region",), metric=f"NVIDIA_{gpu.quota}_GPUS"
    )


def family_cpus(family: str) -> Quota:
    """Quota of a machine family's vCPU in a region, e.g. "c4". Newer families share one quota; older ones (up to C3) have one each, and E2
    counts as vCPU without a family.

    Source: C4, C3D and N4 seen in CPUS-PER-VM-FAMILY; C4A (unverified).
    """
    if family in ("e2", "g2"):
        return Quota(title="vCPU", ids=("CPUS-per-project-region",), metric="CPUS")
    return Quota(
        title=f"{family.upper()} vCPU",
        ids=("CPUS-PER-VM-FAMILY-per-project-region", f"{family.upper()}-CPUS-per-project-region"),
        metric=f"{family.upper()}_CPUS",
        dimensions={"vm_family": family.upper()},
    )


def machine_for_cpus(requested: int) -> int:
    """Number of vCPU of the machine that Autopilot creates for a pod of the Performance class: the next size above its request.

    Assumed: because of reservations, a pod never fits a machine of exactly its size.
    """
    return next((size for size in _ARM_AND_X86_SHAPES if size > requested), _ARM_AND_X86_SHAPES[-1])
