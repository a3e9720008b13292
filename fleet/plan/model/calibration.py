"""What the model takes from measurements, read from calibration.yaml beside this file.

`python -m fleet.plan.model.calibrate --write` fits it anew to the article's rows; a test fits it again and compares.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from facts import ledger


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """What was fitted, and what was taken from elsewhere because the article's rows cannot tell it."""

    host_ms_per_step: float
    """Time of every step that neither tokens, sequences nor reading the weights explain."""
    gpu_share: float
    """Share of the GPU's peak, of arithmetic for tokens and of bandwidth for the state of sequences."""
    context_ms_per_1000_tokens: float
    """Added to every step for each 1,000 tokens of `--max-model-len`."""
    tensor_parallel_ms_per_step: float
    """Added to every step of an engine that is split over GPUs."""
    wait_s: float
    """Time before a request reaches the engine, at the load the article measured at."""
    contention_per_node: float
    """Share of throughput lost for each 2,000 requests in flight beyond the first."""
    gateway_share: float
    """Time the Inference Gateway adds to a request on two nodes, as a share of the time it takes without."""
    uncaptured_ms_per_step: float
    """Added to a step with more tokens than captured CUDA graphs reach. Not fitted."""
    traffic_over_arithmetic: float = 1.0
    """The share of bandwidth over the share of arithmetic. Assumed: one roofline for both; the variants leave it free."""


FITTED = (
    "host_ms_per_step",
    "gpu_share",
    "context_ms_per_1000_tokens",
    "tensor_parallel_ms_per_step",
    "wait_s",
    "contention_per_node",
    "gateway_share",
)
"""The free parameters, in the order of the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryParameters:
    """What the article's two cache sizes leave open of a GPU's memory."""

    activations_gib: float
    """What stays of a full step beside the logits, with what the allocator and the driver keep."""
    cuda_graphs_gib: float
    """51 captured sizes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy:
    """How far the model was off on rows it was not fitted to, in per cent: half the width of an interval."""

    throughput_percent: float
    configuration_percent: float
    """Throughput of engine options that no row of the fit has: the largest error with one configuration left out."""
    tpot_percent: float
    ttft_percent: float
    itl_percent: float
    per_departure_percent: float
    """Added for each way in which a question leaves what was measured. Assumed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Power:
    """Measured watts of one GPU at the article's load."""

    mean_low_watts: float
    mean_watts: float
    mean_high_watts: float
    peak_watts: tuple[float, float]
    """The first run's peaks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """All of it."""

    parameters: Parameters
    variants: Mapping[str, Parameters]
    """Other values that explain the record's rows almost as well: what cannot be told apart from the article alone."""
    rounding: tuple[Parameters, ...]
    """The fit at both ends of what the article's one rounded row may have been."""
    memory: MemoryParameters
    accuracy: Accuracy
    power: Power


FILE = Path(__file__).with_name("calibration.yaml")


@cache
def contents() -> Mapping[str, Any]:
    """The file as it stands, with units, meanings and sources."""
    return ledger.read(FILE)


@cache
def calibration() -> Calibration:
    """The calibration in the repository. Raises LedgerError where the file is not of this form."""
    content = contents()
    try:
        taken = {**_values(content["fixed"]), **_values(content["fitted"])}
        variants = {name: Parameters(**{**taken, **_values(fields)}) for name, fields in content["variants"].items()}
        power = content["power"]
        return Calibration(
            parameters=Parameters(**taken),
            variants=variants,
            rounding=tuple(Parameters(**{**taken, **_values(fields)}) for fields in content["rounding"].values()),
            memory=MemoryParameters(**_values(content["memory"])),
            accuracy=Accuracy(**_values(content["accuracy"])),
            power=Power(**{**power["watts_per_gpu"], "peak_watts": tuple(power["watts_per_gpu"]["peak_watts"])}),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ledger.LedgerError(f"calibration.yaml: {error!r} is missing or of the wrong form") from error


def _values(section: Mapping[str, Any]) -> dict[str, Any]:
    return {name: entry["value"] for name, entry in section.items()}
