"""The model's calibration, read from calibration.yaml. tests/fleet/plan/model/published.py fits it to the article's rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from facts import ledger


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """Fitted parameters, and those from other sources."""

    host_ms_per_step: float
    """Time of every step beyond tokens, sequences and reading weights."""
    gpu_share: float
    """Share of the GPU's peak: arithmetic for tokens, bandwidth for sequence state."""
    context_ms_per_1000_tokens: float
    """Added to every step per 1,000 tokens of `--max-model-len`."""
    tensor_parallel_ms_per_step: float
    """Added to every step under tensor parallelism."""
    wait_s: float
    """Time before a request reaches the engine, at the article's load."""
    wait_share: float
    """The same of a request's time in the engine, where that is shorter. Not fitted: the record's."""
    contention_per_node: float
    """Share of throughput lost per 2,000 requests in flight beyond the first 2,000."""
    gateway_share: float
    """Time that the Inference Gateway adds to a request on two nodes, as a share of the time without it."""
    uncaptured_ms_per_step: float
    """Added to a step with more tokens than the captured CUDA graphs. Not fitted."""
    traffic_over_arithmetic: float = 1.0
    """Bandwidth share over arithmetic share. Assumed 1; free in the variants."""
    slowdown: float = 1.0
    """Factor on the engine's times and the wait before it, for a release's defect. Not fitted."""

    def keeping(self, share: float) -> Parameters:
        """The same where a defect of the release leaves that share of throughput."""
        return replace(self, slowdown=1 / share)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryParameters:
    """Memory parameters calibrated on the article's two cache sizes."""

    activations_gib: float
    """Activations of a full step without logits, allocator and driver included."""
    cuda_graphs_gib: float
    """51 captured sizes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy:
    """Errors on rows outside the fit, in percent: half the width of an interval."""

    throughput_percent: float
    configuration_percent: float
    """Throughput with engine options outside the fit: the largest leave-one-out error."""
    tpot_percent: float
    ttft_percent: float
    per_departure_percent: float
    """Added per difference from the measured range. Assumed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """The whole calibration."""

    parameters: Parameters
    variants: Mapping[str, Parameters]
    """Other values that explain the record's rows almost as well."""
    rounding: tuple[Parameters, ...]
    """The fit at both ends of the article's rounded row."""
    memory: MemoryParameters
    accuracy: Accuracy


FILE = Path(__file__).with_name("calibration.yaml")


@cache
def contents() -> Mapping[str, Any]:
    """The file's contents, with units, meanings and sources."""
    return ledger.read(FILE)


@cache
def calibration() -> Calibration:
    """Load the calibration. Raises LedgerError if the file is malformed."""
    content = contents()
    try:
        taken = {
            name: value for part in ("fixed", "derived", "fitted") for name, value in _values(content[part]).items()
        }
        variants = {name: Parameters(**{**taken, **_values(fields)}) for name, fields in content["variants"].items()}
        return Calibration(
            parameters=Parameters(**taken),
            variants=variants,
            rounding=tuple(Parameters(**{**taken, **_values(fields)}) for fields in content["rounding"].values()),
            memory=MemoryParameters(**_values(content["memory"])),
            accuracy=Accuracy(**_values(content["accuracy"])),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ledger.LedgerError(f"calibration.yaml: {error!r} is missing or malformed") from error


def _values(section: Mapping[str, Any]) -> dict[str, Any]:
    return {name: entry["value"] for name, entry in section.items()}
