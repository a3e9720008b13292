"""The deliberate exceptions: lessons that a published run breaks and that the profile that reproduces it repeats, each with its reason.

This is the whole list. The same values in a stack file, in another profile, or in a workload that reproduces another run are judged
like any others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from facts.releases import USE_DEEP_GEMM


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliberateException:
    """One lesson that one published run breaks."""

    row: str
    """The run, as in the ledger: a profile's `reproduces`, and the annotation of that name."""
    lesson: str
    """Name of the lesson."""
    reason: str
    """Why the run is reproduced nevertheless."""
    options: tuple[str, ...] = ()
    """Options that cause it: a stack file that sets one of them has no exception."""


_RECORD: Final = "phases.mtp1-092"

DELIBERATE_EXCEPTIONS: Final = (
    DeliberateException(
        row=_RECORD,
        lesson="deepgemm-accuracy",
        reason="the published rate is that of 0.18.0 with DeepGEMM: CUTLASS, which computes correctly, is slow until 0.31. The benchmark's "
        "prompts are random tokens, and nobody reads the answers",
        options=(USE_DEEP_GEMM,),
    ),
    DeliberateException(
        row=_RECORD,
        lesson="prefix-cache-never-hits",
        reason="prefix caching is in the published flags, and the published rate includes its cost",
        options=(
            "enable-prefix-caching",
            "mamba-cache-mode",
            "mamba-block-size",
            "max-model-len",
            "speculative-config",
            "kv-cache-dtype",
        ),
    ),
)


def exception_for(row: str | None, lesson: str) -> DeliberateException | None:
    """The exception of a run from a lesson; None without one."""
    return next((one for one in DELIBERATE_EXCEPTIONS if (one.row, one.lesson) == (row, lesson)), None)
