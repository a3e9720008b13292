"""What a model does on a GPU that nobody fitted it to: a roofline with two numbers for each class of models, and one stated factor.

Weights, keys, values and states are read at the GPU's full bandwidth once a step. Arithmetic reaches a share of the GPU's peak in the
weights' number format. Each layer adds a fixed time: kernel launches, and under tensor parallelism its all-reduces within one host.
The numbers are those of fleet/plan/model/step_time.py, so memory, queues and latency are worked out as for the article's fleet.

The factor is how far the answer may be off either way. docs/planner-model.md shows the errors on public measurements
(fleet/plan/model/public_rows.py) that the numbers were not chosen on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Final

from facts import machines
from facts.machines import Gpu
from facts.models import CATALOGUE, ModelShape, of_the_article
from fleet.plan.model.calibration import Parameters, calibration
from fleet.plan.model.deployment import Deployment
from fleet.plan.model.estimates import Basis


@dataclass(frozen=True, slots=True, kw_only=True)
class Roofline:
    """Two numbers, and how far off an answer may be."""

    arithmetic_share: float
    """Share of the GPU's dense peak in the weights' format."""
    layer_us: float
    """Microseconds that one layer adds to every step."""
    factor: float
    """An answer lies between its value divided by this and its value times this."""


# Chosen on public rows: Llama 70B in FP8 on H100. Nine of ten rows of other GPUs, models and formats lie within the factor.
DENSE: Final = Roofline(arithmetic_share=0.36, layer_us=78, factor=1.25)
# Chosen on public rows: gpt-oss-120b on H100, MiniMax-M2.5 in FP8 on B200. Of the other rows 99 in 100 lie within the factor, and so do the
# H200's runs of Qwen3.5-27B, whose linear layers are as far from their roofline as experts are.
EXPERTS_OR_LINEAR: Final = Roofline(arithmetic_share=0.27, layer_us=96, factor=2)
# Measured: Qwen3.5-27B in FP8 on one H200 at 128 and 250 requests in flight, and on four over HTTP, vLLM 0.20.2 (memory.yaml and
# front_end.yaml of facts/data). The same two numbers, which were not chosen on them, are 10 to 13 % too low for an engine alone, 3 to 6 %
# over HTTP.
H200_FACTOR: Final = 1.2
PERFECT: Final = Roofline(arithmetic_share=1, layer_us=0, factor=1)
"""What no kernel reaches: an upper bound."""

MEASURED_GPUS: Final = frozenset(gpu.name for gpu in (machines.H100, machines.H100_MEGA, machines.H200, machines.B200))
"""GPUs of the public rows; H100 Mega is the same chip."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What is known of one model on one GPU."""

    basis: Basis
    parameters: Parameters
    factor: float | None = None
    """How far an answer may be off either way. None for the article's pair, whose intervals are its calibration's."""
    reached: Parameters | None = None
    """For an upper bound: what GPUs that were measured reach of theirs."""
    reason: str = ""
    """Why it is not calibrated, or on what."""


def known(deployment: Deployment) -> Known:
    """How much is known of that model on that GPU, and the numbers to count with."""
    model, gpu = deployment.model, deployment.gpu
    if is_articles(deployment):
        return Known(basis="extrapolated", parameters=calibration().parameters)
    if gpu == machines.H200 and model == of_the_article():
        line, basis = replace(EXPERTS_OR_LINEAR, factor=H200_FACTOR), "calibrated"
        reason = f"calibrated: {model.name} was measured on H200 with dummy weights and vLLM 0.20.2, not with the article's engine"
    else:
        line, basis = of_class(model), "estimated"
        what = "dense models" if line is DENSE else "models with experts or linear layers"
        reason = f"estimated: {model.name} was not measured on {gpu.name}; a roofline of {what}"
    if gpu.name in MEASURED_GPUS:
        return Known(basis=basis, parameters=roofline_of(model, line), factor=line.factor, reason=reason)  # type: ignore[arg-type]
    return Known(
        basis="upper bound",
        parameters=roofline_of(model, PERFECT),
        factor=line.factor,
        reached=roofline_of(model, line),
        reason=f"upper bound: nothing was measured on {gpu.name}; this is its arithmetic and bandwidth in full",
    )


def is_articles(deployment: Deployment) -> bool:
    """Whether it is a model of the article on the article's GPU: the 27B, or the 397B, which it measured once."""
    return deployment.gpu == machines.B200 and deployment.model in (of_the_article(), _articles_large())


@cache
def _articles_large() -> ModelShape:
    return CATALOGUE["nvidia/Qwen3.5-397B-A17B-NVFP4"].shape


def of_class(model: ModelShape) -> Roofline:
    """The roofline of models like it."""
    return EXPERTS_OR_LINEAR if model.experts or model.architecture.linear_attention_layers else DENSE


def peak_flop_per_s(gpu: Gpu, weight_format: str) -> float:
    """The GPU's dense peak for weights of that format. A format that it cannot multiply is turned into bfloat16 first."""
    if weight_format in ("fp8", "int8"):
        return gpu.fp8_flop_per_s or gpu.bf16_flop_per_s
    if weight_format in ("nvfp4", "mxfp4"):
        return gpu.fp4_flop_per_s or gpu.bf16_flop_per_s
    return gpu.bf16_flop_per_s


def read_share(model: ModelShape, sequences: float) -> float:
    """Part of the weights that a step of so many tokens reads: experts that no token chose are left alone.

    Assumed: tokens choose experts evenly and independently, and every weight is as rarely met as an expert's. Exact for one token.
    """
    if not model.experts:
        return 1.0
    passed_by: float = (1 - model.active_parameters / model.parameters) ** max(1.0, sequences)
    return 1 - passed_by


def roofline_of(model: ModelShape, line: Roofline) -> Parameters:
    """The roofline as parameters of the step, without anything that only the article's fleet showed."""
    shape = model.architecture
    layers = shape.full_attention_layers + shape.window_layers + shape.linear_attention_layers
    return replace(
        calibration().parameters,
        host_ms_per_step=layers * line.layer_us / 1000,
        gpu_share=line.arithmetic_share,
        traffic_over_arithmetic=1 / line.arithmetic_share,
        context_ms_per_1000_tokens=0.0,
        tensor_parallel_ms_per_step=0.0,
        uncaptured_ms_per_step=0.0,
        wait_s=0.0,
    )
