"""One engine in steady state: step time, and from it rate and latency in closed form.

A step computes the next tokens of every running sequence and the prompts of new ones. Its time is the sum of reading weights,
host work, a part per token and a part per sequence.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, inf, sqrt

from facts import memory
from facts.memory import GIB, CacheLayout
from facts.workloads import Workload, tokens_per_step
from fleet.plan.model.calibration import Parameters
from fleet.plan.model.deployment import Deployment
from fleet.plan.model.gpu_memory import MemoryBudget
from fleet.plan.model.roofline import peak_flop_per_s, read_share

# Requests arrive at a random moment of a step and wait for its end.
_WAIT_STEPS = 0.5
_MS = 1e-3
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCosts:
    """Costs of one engine's step, for one workload."""

    fixed_s: float
    """Weights, host, context and synchronization, in every step."""
    uncaptured_s: float
    """Added above `captured_sequences`."""
    captured_sequences: float
    """Most running sequences whose step fits a captured CUDA graph."""
    prompt_s: float
    """One request's prompt."""
    prompt_steps: int
    """Steps that read one prompt: chunks of at most `--max-num-batched-tokens`."""
    prompt_floor_s: float
    """One request's prompt at the GPU's peak: no engine is faster."""
    sequence_s: float
    """One running sequence per step, without its tokens."""
    tokens_s: float
    """Tokens of one decoding sequence per step: the next one and drafts."""
    tokens_per_step: float
    """Tokens that a sequence gains per step: one and the accepted drafts."""
    steps_per_request: float
    """Steps per request, including those that read its prompt."""
    running_limit: float
    """Most sequences per step."""
    limited_by: str
    """The limit's origin."""

    def request_s(self) -> float:
        """Engine time of one request without the fixed part of steps."""
        decoding = self.steps_per_request - self.prompt_steps
        return self.prompt_s + self.steps_per_request * self.sequence_s + decoding * self.tokens_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Time before a request reaches the engine: the shorter of both.

    Inferred, as the article measured one length and one load: slower configurations fit the same seconds, and a client or front end
    that is too slow has less work with faster requests. Seconds alone would cap the rate of any model and any request.
    """

    seconds: float = 0.0
    share: float = inf
    """Of the time in the engine."""

    def times(self, load: float) -> Wait:
        """The wait at that share of the article's load; no more above it."""
        load = min(1.0, load)
        return Wait(seconds=self.seconds * load, share=self.share * load if load else 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineLoad:
    """One engine in steady state."""

    requests_per_s: float
    running: float
    """Sequences per step, as in `vllm:num_requests_running`."""
    step_s: float
    between_s: float
    """A step as a running sequence sees it once its prompt was read: only others' prompts are in it."""
    prefill_s: float
    """From the start of a prompt's first chunk to its first token."""
    in_flight: float
    """Requests sent and not completed: running, waiting in the engine, waiting before it."""
    full: bool
    """Whether the engine is at its sequence limit and the rest queues."""
    captured: bool
    """Whether steps run as captured CUDA graphs."""

    @property
    def first_token_s(self) -> float:
        """Mean time to first token, queueing included, by Little's law."""
        return self.before_first_step_s + self.prefill_s

    @property
    def before_first_step_s(self) -> float:
        """Mean time from sending to the first step with the request."""
        return (self.in_flight - self.running) / self.requests_per_s

    @property
    def seconds_per_request(self) -> float:
        """Mean time from sending to the last token."""
        return self.in_flight / self.requests_per_s


def step_costs(
    deployment: Deployment,
    workload: Workload,
    parameters: Parameters,
    budget: MemoryBudget,
    sequences: float = inf,
) -> StepCosts:
    """Step costs of the fleet's engines. `sequences` per step decides how many experts' weights are read."""
    engine, model, gpu, ranks = deployment.engine, deployment.model, deployment.gpu, deployment.engine.tensor_parallel
    flop_per_s = parameters.gpu_share * peak_flop_per_s(gpu, model.weight_format) * ranks
    bytes_per_s = parameters.gpu_share * parameters.traffic_over_arithmetic * gpu.bandwidth_bytes_per_s * ranks
    layout = budget.layout
    gained = tokens_per_step(engine.speculative_tokens)
    prompt_tokens = workload.input_tokens.mean - _cached_tokens(layout, workload)
    chunks = max(1, ceil(prompt_tokens / engine.max_num_batched_tokens))
    steps = chunks + (workload.output_tokens.mean - 1) / gained
    live_tokens = workload.input_tokens.mean + workload.output_tokens.mean / 2
    token_s = 2 * model.active_parameters / flop_per_s
    # Read once, written once.
    state_s = 2 * model.linear_state_bytes / bytes_per_s
    drafted = 1 + engine.speculative_tokens
    limit, limited_by = _running_limit(deployment, workload, budget, steps)
    weights_gib = model.text_weights_gib * read_share(model, min(sequences, limit) * drafted)
    weights_gib += model.draft_weights_gib if engine.speculative_tokens else 0.0
    slowdown = parameters.slowdown
    prompt_s = prompt_tokens * token_s * _attention_factor(deployment, workload.input_tokens.mean / 2)
    return StepCosts(
        fixed_s=slowdown
        * (
            weights_gib * GIB / ranks / gpu.bandwidth_bytes_per_s
            + _MS * parameters.host_ms_per_step
            + _MS * parameters.context_ms_per_1000_tokens * engine.max_model_len_tokens / 1000
            + (_MS * parameters.tensor_parallel_ms_per_step if ranks > 1 else 0.0)
        ),
        uncaptured_s=slowdown * _MS * parameters.uncaptured_ms_per_step,
        captured_sequences=engine.captured_tokens / drafted,
        prompt_s=slowdown * prompt_s,
        prompt_steps=chunks,
        prompt_floor_s=prompt_s * parameters.gpu_share,
        # At full bandwidth, a lower bound.
        sequence_s=slowdown * (state_s + _cache_read_bytes(layout, live_tokens) / gpu.bandwidth_bytes_per_s),
        tokens_s=slowdown * drafted * token_s,
        tokens_per_step=gained,
        steps_per_request=steps,
        running_limit=limit,
        limited_by=limited_by,
    )


def closed_loop(costs: StepCosts, in_flight: float, wait: Wait) -> EngineLoad:
    """Solve the engine for a fixed number of requests in flight."""
    running = _running(costs, in_flight, wait, costs.fixed_s)
    captured = min(running, costs.running_limit) <= costs.captured_sequences
    fixed_s = costs.fixed_s + (0.0 if captured else costs.uncaptured_s)
    if not captured:
        running = _running(costs, in_flight, wait, fixed_s)
    full = running >= costs.running_limit
    running = min(running, costs.running_limit)
    return _load(costs, running, fixed_s, in_flight=in_flight, full=full, captured=captured)


def highest_rate(costs: StepCosts) -> float:
    """Highest requests/s of one engine at any number in flight."""
    captured = min(costs.running_limit, costs.captured_sequences)
    rates = [_rate(costs, captured, costs.fixed_s)] if captured else []
    if costs.running_limit > captured:
        rates.append(_rate(costs, costs.running_limit, costs.fixed_s + costs.uncaptured_s))
    return max(rates)


def open_loop(costs: StepCosts, requests_per_s: float, wait: Wait, reference_in_flight: float) -> EngineLoad:
    """Solve the engine for a fixed arrival rate. Raises ValueError above the highest rate.

    `wait` is that at `reference_in_flight`; below that it is proportional to the requests in flight.
    """
    highest = highest_rate(costs)
    if requests_per_s > (1 + _ROUNDING) * highest:
        raise ValueError(f"one engine handles at most {highest:.4g} requests/s, got {requests_per_s:.4g}")
    requests_per_s = min(requests_per_s, highest)
    captured = True
    running = _running_at(costs, requests_per_s, costs.fixed_s)
    if running > (1 + _ROUNDING) * min(costs.running_limit, costs.captured_sequences):
        captured = False
        running = _running_at(costs, requests_per_s, costs.fixed_s + costs.uncaptured_s)
    running = min(running, costs.running_limit)
    in_engine = running * (1 + _WAIT_STEPS / costs.steps_per_request)
    # Requests before the engine at the reference load; both the wait and the requests in flight grow with it.
    before = min(requests_per_s * wait.seconds, in_engine * wait.share)
    share = before / reference_in_flight
    in_flight = min(in_engine / (1 - share) if share < 1 else inf, in_engine + before)
    fixed_s = costs.fixed_s + (0.0 if captured else costs.uncaptured_s)
    return _load(costs, running, fixed_s, in_flight=in_flight, full=running >= costs.running_limit, captured=captured)


def _running(costs: StepCosts, in_flight: float, wait: Wait, fixed_s: float) -> float:
    """Sequences running of those in flight; the rest waits for a step to end, or before the engine.

    By seconds, it solves 1/x = request + steps * fixed / running and in flight = running * crowd + x * wait, a quadratic in x whose
    smaller root has running above 0.
    """
    crowd = 1 + _WAIT_STEPS / costs.steps_per_request
    request, fixed = costs.request_s(), costs.steps_per_request * fixed_s * crowd
    linear = request * in_flight + wait.seconds + fixed
    rate = 2 * in_flight / (linear + sqrt(linear**2 - 4 * request * wait.seconds * in_flight))
    return max(in_flight - rate * wait.seconds, in_flight / (1 + wait.share)) / crowd


def _rate(costs: StepCosts, running: float, fixed_s: float) -> float:
    request_s, steps_s = costs.request_s(), costs.steps_per_request * fixed_s
    # Below one sequence the engine is idle in between: each request runs alone.
    return 1 / (request_s + steps_s / running) if running >= 1 else running / (request_s + steps_s)


def _running_at(costs: StepCosts, rate: float, fixed_s: float) -> float:
    request_s, steps_s = costs.request_s(), costs.steps_per_request * fixed_s
    if rate * (request_s + steps_s) <= 1:
        return rate * (request_s + steps_s)
    spare = 1 / rate - request_s
    return steps_s / spare if spare > 0 else inf


def _load(
    costs: StepCosts, running: float, fixed_s: float, *, in_flight: float, full: bool, captured: bool
) -> EngineLoad:
    rate = _rate(costs, running, fixed_s)
    step_s = running / (rate * costs.steps_per_request)
    between_s = step_s - costs.prompt_s / costs.steps_per_request
    return EngineLoad(
        requests_per_s=rate,
        running=running,
        step_s=step_s,
        between_s=between_s,
        prefill_s=costs.prompt_steps * between_s + costs.prompt_s,
        in_flight=in_flight,
        full=full,
        captured=captured,
    )


def _running_limit(deployment: Deployment, workload: Workload, budget: MemoryBudget, steps: float) -> tuple[float, str]:
    engine = deployment.engine
    # New prompts and the next tokens of all sequences must fit the batch.
    new_tokens = workload.input_tokens.mean / steps + 1 + engine.speculative_tokens
    limits = {
        "cache memory": float(budget.running_limit(workload)),
        "max_num_seqs": float(engine.max_num_seqs),
        "max_num_batched_tokens": engine.max_num_batched_tokens / new_tokens,
    }
    name = min(limits, key=lambda key: limits[key])
    return max(1.0, limits[name]), name


def _cached_tokens(layout: CacheLayout, workload: Workload) -> int:
    """Tokens per prompt saved by prefix caching."""
    if not workload.shared_prefix_tokens:
        return 0
    return memory.cached_prompt_tokens(layout, min(workload.shared_prefix_tokens + 1, workload.input_tokens.min))


def _attention_factor(deployment: Deployment, position: float) -> float:
    """Relative arithmetic of a token with attention to earlier tokens, at that position."""
    model = deployment.model
    shape = model.architecture
    seen = position * shape.full_attention_layers + min(position, shape.window_tokens) * shape.window_layers
    return 1 + 4 * seen * model.attention_width / (2 * model.active_parameters)


def _cache_read_bytes(layout: CacheLayout, live_tokens: float) -> float:
    """One sequence's keys and values."""
    shape = layout.architecture
    read = live_tokens * memory.sequence_bytes_per_token(layout)
    if shape.window_layers:
        read += min(live_tokens, shape.window_tokens) * shape.window_layers * memory.window_bytes_per_token(layout)
    return read
