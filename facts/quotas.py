"""Compute Engine quotas that a fleet counts against: their names in Cloud Quotas, and in the older lists of a region or a project.

The older lists lack every limit by family, and gcloud drops from them each metric that its own version does not know. So a limit is
looked up in Cloud Quotas first. Sources: Google Cloud docs, "Allocation quotas" and "Cloud Quotas, QuotaInfo"; ids and values of real
projects as published in 2026 by their owners. What nobody was seen to print is marked unverified.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from facts.machines import Gpu

SERVICE: Final = "compute.googleapis.com"
UNLIMITED: Final = -1
"""How Cloud Quotas says that there is no limit."""

PER_ZONE: Final = "-per-project-zone"
"""How the id of a zone's copy of a regional quota ends. Without a limit there, the regional one decides. Source: L4 and the ceiling
over all GPUs, -1 in the copy and 1 in the region of the same project."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """One limit."""

    title: str
    """What is counted, for a person."""
    ids: tuple[str, ...]
    """Its id in Cloud Quotas; further ones are looked for where a project does not have the first."""
    metric: str
    """Its name in the older list, and in the error of a request that exceeds it."""
    unit: str = ""
    dimensions: Mapping[str, str] = field(default_factory=dict)
    """Which of several limits of that id it is, besides the region."""
    regional: bool = True
    """False for a limit over all regions of the project."""


ALL_GPUS: Final = Quota(
    title="GPUs of all regions",
    ids=("GPUS-ALL-REGIONS-per-project",),
    metric="GPUS_ALL_REGIONS",
    regional=False,
)
"""The ceiling above every family's own limit; 0 in many new projects."""
ALL_CPUS: Final = Quota(
    title="vCPU of all regions",
    ids=("CPUS-ALL-REGIONS-per-project",),
    metric="CPUS_ALL_REGIONS",
    regional=False,
)
"""32 or 64 in projects seen. A4 machines need no CPU quota beside that of their GPUs. Source: "Allocation quotas", GPU VMs."""
FAMILIES_WITH_CPU_QUOTA: Final = frozenset({"a2", "g2"})
"""Machines with GPUs whose vCPU count against quotas, too. Source: A2_CPUS of projects with A2; that G2 counts as vCPU of no family, and
newer ones not at all, is inferred from the names in Quota.Metric of the Compute API (unverified)."""
HYPERDISK_ML_CAPACITY: Final = Quota(
    # Source of the name without its end: "Allocation quotas", HDML-TOTAL-GB. The ends are those of Hyperdisk Balanced (unverified).
    title="Hyperdisk ML capacity",
    ids=("HDML-TOTAL-GB-per-project-region", f"HDML-TOTAL-GB{PER_ZONE}"),
    metric="HDML_TOTAL_GB",
    unit="GiB",
)
HYPERDISK_ML_THROUGHPUT: Final = Quota(
    # Source of the metric: published errors, "Quota 'HDML_TOTAL_THROUGHPUT' exceeded", a regional limit. The ends as above (unverified).
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
"""Boot disks: A4, C4 and C4A machines boot from nothing else. 500 GB in projects seen."""
SSD_CAPACITY: Final = Quota(
    title="SSD Persistent Disk capacity",
    ids=("SSD-TOTAL-GB-per-project-region",),
    metric="SSD_TOTAL_GB",
    unit="GiB",
)
"""Boot disks of the older families: pd-balanced counts as SSD. Source: "Allocation quotas", disks."""

_ARM_AND_X86_SHAPES: Final = (1, 2, 4, 8, 16, 32, 48, 64, 72, 96)
"""vCPU of general-purpose machines. Source: Compute Engine docs, C4A and C4, standard types."""


def gpus(gpu: Gpu, *, spot: bool) -> Quota:
    """GPUs of that kind in a region. Spot has a quota of its own, which flex-start counts against as well.

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
            # The older list has a false 0 for them under the names of the older GPUs.
            metric="GPUS_PER_GPU_FAMILY",
            dimensions={"gpu_family": f"NVIDIA_{gpu.quota}"},
        )
    return Quota(
        title=f"{gpu.name} GPUs", ids=(f"NVIDIA-{name}-GPUS-per-project-region",), metric=f"NVIDIA_{gpu.quota}_GPUS"
    )


def family_cpus(family: str) -> Quota:
    """VCPU of a machine family in a region, e.g. "c4". Newer families share one quota, the older have one each (C3 and before).

    Source: C4, C3D and N4 seen in CPUS-PER-VM-FAMILY; C4A (unverified).
    """
    if family == "g2":
        return Quota(title="vCPU", ids=("CPUS-per-project-region",), metric="CPUS")
    return Quota(
        title=f"{family.upper()} vCPU",
        ids=("CPUS-PER-VM-FAMILY-per-project-region", f"{family.upper()}-CPUS-per-project-region"),
        metric=f"{family.upper()}_CPUS",
        dimensions={"vm_family": family.upper()},
    )


def machine_for_cpus(requested: int) -> int:
    """VCPU of the machine that Autopilot makes for a pod of the Performance class: the next shape above what the pod asks for.

    Assumed: a node keeps a part of each vCPU for itself, so that a pod never fits a machine of exactly its own size.
    """
    return next((size for size in _ARM_AND_X86_SHAPES if size > requested), _ARM_AND_X86_SHAPES[-1])
