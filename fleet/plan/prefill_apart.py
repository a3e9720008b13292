"""Verdict of a plan on prefill apart from decode: ratio, best split of a node's engines, gain against the same engines together.

The arithmetic is facts/disaggregation.py; the times come from the planner's step. Every interval spans both readings of the machine, and
prompts at the modelled speed and at twice of it: the model has one share of the GPU's peak for prompts and answers, and vLLM 0.33.0 read
prompts alone twice as fast on an H100 (facts/data/h100.yaml).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from facts.disaggregation import Apart, EngineTimes, Together, apart, best, ratio, together, transfer_bytes
from facts.workloads import Workload
from fleet.plan.model.calibration import Parameters
from fleet.plan.model.deployment import Deployment
from fleet.plan.model.gpu_memory import DoesNotFitError, budget
from fleet.plan.model.roofline import known, planned
from fleet.plan.model.step_time import step_costs

Advice = Literal["no", "gaps only", "yes"]

# Measured: prompts alone on an H100, against the model (roofline.py, HOPPER_FACTOR).
_PROMPTS_AT_MOST = 2.0
# Assumed: prompts of a step vary by about a quarter around their mean, as running sequences do.
_ROOM = 1.3
_PER_SECOND = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A value with its interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """One split of a node's engines."""

    apart: Apart
    gain: Span
    """Requests per second, as a multiple of the same engines together with as many requests in flight."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cure:
    """A smaller step, which shortens the longest gap without a second kind of engine."""

    max_num_batched_tokens: int
    longest_gap_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefillApart:
    """What the split of one node's engines would change at the planned load."""

    in_flight: float
    """Requests in the engines of one node."""
    gpus_per_engine: int
    ratio: Span
    """Prefill engines for one decode engine, so that neither is idle."""
    together: Together
    splits: tuple[Split, ...]
    """Every split of the engines, fewest prefill engines first."""
    best: Split
    """The one with the most requests per second."""
    cure: Cure | None
    """None where no smaller step has room for the load."""
    request_bytes: int
    """Sent from prefill to decode for a prompt of the mean length."""

    @property
    def gb_per_s(self) -> float:
        """Sent on one node by the best split, in GB (10**9 bytes) per second."""
        return self.best.apart.requests_per_s * self.request_bytes / _PER_SECOND

    @property
    def advice(self) -> Advice:
        """`yes`: more tokens in the whole interval. `no`: fewer. `gaps only`: neither is certain, and gaps between tokens are short."""
        gain = self.best.gain
        if gain.low > 1:
            return "yes"
        return "no" if gain.high <= 1 else "gaps only"


def prefill_apart(deployment: Deployment, workload: Workload, running_per_engine: float) -> PrefillApart | None:
    """The verdict for one node at that load. None with one engine per node, without prompts to read, and where the cache is too small."""
    engines = deployment.engine.data_parallel
    if engines < 2 or not workload.input_tokens.mean:
        return None
    one = _right(deployment)
    try:
        variants = list(_variants(one, workload, running_per_engine))
    except (DoesNotFitError, ValueError):
        return None
    times, in_flight = variants[0], running_per_engine * engines
    chosen = best(times, engines, in_flight)
    assert chosen is not None
    splits = tuple(
        _split(apart(times, prefill, engines - prefill, in_flight), variants, in_flight)
        for prefill in range(1, engines)
    )
    ratios = [ratio(variant, engines, in_flight) for variant in variants]
    return PrefillApart(
        in_flight=in_flight,
        gpus_per_engine=deployment.engine.tensor_parallel,
        ratio=Span(value=ratios[0], low=min(ratios), high=max(ratios)),
        together=together(times, engines, in_flight),
        splits=splits,
        best=splits[chosen.prefill - 1],
        cure=_cure(one, workload, times, in_flight / engines),
        request_bytes=transfer_bytes(one.layout, round(workload.input_tokens.mean)) * deployment.engine.tensor_parallel,
    )


def _right(deployment: Deployment) -> Deployment:
    """The engines as a split would run them: a hybrid model with drafts answers wrongly with prefix caching."""
    engine = deployment.engine
    hybrid = bool(deployment.model.architecture.linear_attention_layers)
    caching = engine.prefix_caching and not (hybrid and engine.speculative_tokens)
    return replace(deployment, engine=replace(engine, prefix_caching=caching))


def _variants(deployment: Deployment, workload: Workload, running: float) -> Iterator[EngineTimes]:
    """The times that a plan counts on first, then every other reading of the machine, each with faster prompts, too."""
    what = known(deployment)
    shares = deployment.slow_product.throughput_kept if deployment.slow_product else (1.0,)
    others = [what.fleet, what.engine, *((what.bound,) if what.bound else ())]
    readings = [planned(deployment), *(reading.keeping(share) for reading in others for share in shares)]
    for reading in readings:
        times = engine_times(deployment, workload, reading, running)
        yield times
        yield replace(times, prompt_s=times.prompt_s / _PROMPTS_AT_MOST)


def engine_times(deployment: Deployment, workload: Workload, parameters: Parameters, running: float) -> EngineTimes:
    """One engine's times by the model, with `running` sequences. Raises DoesNotFitError."""
    costs = step_costs(deployment, workload, parameters, budget(deployment, workload), running)
    captured = costs.captured_sequences
    return EngineTimes(
        prompt_s=costs.prompt_s,
        prompts_per_step=deployment.engine.max_num_batched_tokens / workload.input_tokens.mean,
        step_s=costs.fixed_s,
        sequence_s=costs.sequence_s + costs.tokens_s,
        steps=max(1.0, costs.steps_per_request - costs.prompt_steps),
        tokens_per_step=costs.tokens_per_step,
        # Decode engines run more than the same engines together, but stay within the captured CUDA graphs if those do.
        most_running=min(costs.running_limit, captured) if running <= captured else costs.running_limit,
    )


def _split(one: Apart, variants: list[EngineTimes], in_flight: float) -> Split:
    engines = one.prefill + one.decode
    gains = [
        apart(times, one.prefill, one.decode, in_flight).requests_per_s
        / together(times, engines, in_flight).requests_per_s
        for times in variants
    ]
    return Split(apart=one, gain=Span(value=gains[0], low=min(gains), high=max(gains)))


def _cure(deployment: Deployment, workload: Workload, times: EngineTimes, running: float) -> Cure | None:
    """The smallest power of two that has room for the load's prompts and next tokens, and that vLLM accepts for its sequences."""
    engine = deployment.engine
    each = workload.input_tokens.mean / times.steps + 1 + engine.speculative_tokens
    needed = max(_ROOM * running * each, engine.max_num_seqs)
    tokens = 1 << (int(needed) - 1).bit_length()
    if tokens >= engine.max_num_batched_tokens:
        return None
    smaller = replace(times, prompts_per_step=tokens / workload.input_tokens.mean)
    return Cure(max_num_batched_tokens=tokens, longest_gap_s=smaller.full_prompt_step_s + running * times.sequence_s)
