"""Roofline estimates for models and GPUs outside the fit: two numbers and an uncertainty factor per class of models.

Weights, keys, values and states are read at the GPU's full bandwidth once a step. Arithmetic reaches a share of the GPU's peak in the
weights' number format. Each layer adds a fixed time: kernel launches, and under tensor parallelism its all-reduces within one host.

What the article's nodes lost beyond an engine, host time in each step and a wait before it, is counted on every machine alike: why they
lost it is not proven (docs/planner-model.md). The other end of each interval is one engine without these losses.
Memory, queues and latency follow as for the article's fleet (fleet/plan/model/step_time.py). docs/planner-model.md shows the errors
on public measurements, which tests hold (tests/fleet/plan/model/public_rows.py).
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
    """A roofline's two numbers and its uncertainty factor."""

    arithmetic_share: float
    """Share of the GPU's dense peak in the weights' format."""
    layer_us: float
    """Microseconds per layer and step."""
    factor: float
    """The true value lies within x/÷ this."""


# Chosen on public rows: Llama 70B in FP8 on H100. 90 % of the rows of other GPUs, models and formats lie within the factor.
DENSE: Final = Roofline(arithmetic_share=0.36, layer_us=78, factor=1.25)
# Chosen on public rows: gpt-oss-120b on H100, MiniMax-M2.5 in FP8 on B200. 99 % of the other rows lie within the factor, as do the
# H200's runs of Qwen3.5-27B, whose linear layers are as far below their roofline as experts.
EXPERTS_OR_LINEAR: Final = Roofline(arithmetic_share=0.27, layer_us=96, factor=2)
# Measured: Qwen3.5-27B in FP8, one engine with dummy weights (h200.yaml, h100.yaml, memory.yaml and front_end.yaml of facts/data). The
# same two numbers are 15 % too low to 16 % too high on H200 with vLLM 0.20.2. On H100 with 0.33.0 they are 0 to 5 % too high without MTP,
# 12 to 28 % with it. Prompts alone are twice as fast there: a long prompt's first token comes sooner than a plan says.
HOPPER_FACTOR: Final = 1.3
# The fit on B200 without the fleet's losses, which one engine on H200 agrees with within 10 %.
ENGINE_FACTOR: Final = 1.2
PERFECT: Final = Roofline(arithmetic_share=1, layer_us=0, factor=1)
"""An upper bound that no kernel reaches."""

_HOPPER: Final = (machines.H100, machines.H100_MEGA, machines.H200)
"""H100 Mega is H100's chip."""
MEASURED_GPUS: Final = frozenset(gpu.name for gpu in (*_HOPPER, machines.B200))
"""GPUs of the public rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """Parameters of one model on one GPU, and the confidence in them."""

    basis: Basis
    fleet: Parameters
    """As the article's fleet."""
    engine: Parameters
    """As one engine."""
    line: Roofline
    """Behind `engine`; its factor widens every interval."""
    bound: Parameters | None = None
    """The GPU's peak, for a GPU without measurements."""
    reason: str = ""
    """Explanation of the basis."""

    @property
    def planned(self) -> Parameters:
        """What a plan counts on: as the article's fleet, or a bound where nothing was measured."""
        return self.bound or self.fleet


def planned(deployment: Deployment) -> Parameters:
    """What a plan counts on for the deployment."""
    return known(deployment).planned.keeping(planned_share(deployment))


def planned_share(deployment: Deployment) -> float:
    """Share of throughput that a plan counts on with a defect of the release: the middle of its interval, for a bound the high end."""
    if deployment.slow_product is None:
        return 1.0
    low, high = deployment.slow_product.throughput_kept
    return high if known(deployment).bound else (low + high) / 2


def known(deployment: Deployment) -> Known:
    """Parameters and basis for the deployment's model and GPU."""
    return _known(deployment.model, deployment.gpu)


@cache
def _known(model: ModelShape, gpu: Gpu) -> Known:
    line = efficiency(model, gpu)
    if _is_articles(model, gpu):
        articles = calibration().parameters
        return Known(
            basis="published",
            fleet=articles,
            engine=replace(
                articles, host_ms_per_step=articles.host_ms_per_step - _lost_ms_per_step(), wait_s=0.0, wait_share=0.0
            ),
            line=line,
        )
    engine = roofline_of(model, line)
    fleet = _with_losses(engine)
    if gpu.name not in MEASURED_GPUS:
        return Known(
            basis="roofline",
            fleet=fleet,
            engine=engine,
            line=line,
            bound=roofline_of(model, PERFECT),
            reason=f"upper bound: nothing was measured on {gpu.name}; this is its arithmetic and bandwidth in full",
        )
    if gpu in _HOPPER and model == of_the_article():
        basis: Basis = "calibrated"
        reason = (
            f"calibrated: {model.name} was measured on H200 (vLLM 0.20.2) and H100 (0.33.0) with dummy weights, not with the "
            "article's engine"
        )
    else:
        basis = "roofline"
        what = "dense models" if line is DENSE else "models with experts or linear layers"
        reason = f"roofline: {model.name} was not measured on {gpu.name}; as {what} reach elsewhere"
    return Known(basis=basis, fleet=fleet, engine=engine, line=line, reason=reason)


def efficiency(model: ModelShape, gpu: Gpu) -> Roofline:
    """What an engine reaches of that GPU, with its interval. A measured GPU family or release gets its numbers here."""
    line = of_class(model)
    if model != of_the_article():
        return line
    if gpu in _HOPPER:
        return replace(line, factor=HOPPER_FACTOR)
    return replace(line, factor=ENGINE_FACTOR) if gpu == machines.B200 else line


def is_articles(deployment: Deployment) -> bool:
    """Whether it is a model of the article on its GPU: the 27B, or the 397B, which it measured once."""
    return _is_articles(deployment.model, deployment.gpu)


def _is_articles(model: ModelShape, gpu: Gpu) -> bool:
    return gpu == machines.B200 and model in (of_the_article(), _articles_large())


@cache
def _articles_large() -> ModelShape:
    return CATALOGUE["nvidia/Qwen3.5-397B-A17B-NVFP4"].shape


def of_class(model: ModelShape) -> Roofline:
    """The roofline of the model's class."""
    return EXPERTS_OR_LINEAR if model.experts or model.architecture.linear_attention_layers else DENSE


def peak_flop_per_s(gpu: Gpu, weight_format: str) -> float:
    """The GPU's dense peak for that weight format; unsupported formats are computed in bfloat16."""
    if weight_format in ("fp8", "int8"):
        return gpu.fp8_flop_per_s or gpu.bf16_flop_per_s
    if weight_format in ("nvfp4", "mxfp4"):
        return gpu.fp4_flop_per_s or gpu.bf16_flop_per_s
    return gpu.bf16_flop_per_s


def read_share(model: ModelShape, sequences: float) -> float:
    """Share of the weights that a step reads: experts that no token selected are skipped.

    Assumed: tokens select experts uniformly and independently, and all weights belong to experts. Exact for one token.
    """
    if not model.experts:
        return 1.0
    passed_by: float = (1 - model.active_parameters / model.parameters) ** max(1.0, sequences)
    return 1 - passed_by


def roofline_of(model: ModelShape, line: Roofline) -> Parameters:
    """The roofline as step parameters, without effects specific to the article's fleet."""
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
        wait_share=0.0,
    )


def _with_losses(engine: Parameters) -> Parameters:
    """That engine in a fleet like the article's."""
    articles = calibration().parameters
    return replace(
        engine,
        host_ms_per_step=engine.host_ms_per_step + _lost_ms_per_step(),
        wait_s=articles.wait_s,
        wait_share=articles.wait_share,
    )


def _lost_ms_per_step() -> float:
    """Host time of the article's fleet beyond that of one engine with its model."""
    model = of_the_article()
    return calibration().parameters.host_ms_per_step - roofline_of(model, of_class(model)).host_ms_per_step
