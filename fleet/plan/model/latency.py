"""Latency as a client sees it, from the steps of an engine."""

from __future__ import annotations

from facts.workloads import Workload
from fleet.plan.model.deployment import Deployment
from fleet.plan.model.fleet_rate import FleetLoad

# Inferred: the article's first tokens come as late as evenly spread waits would make them: mean and median are equal, and the 99th
# percentile (11.4 to 11.6 s) is 1.8 to 1.9 times the median (6.1 to 6.2 s). An even spread from 0 gives 1.98.
FIRST_TOKEN_P99_OVER_MEAN = 1.98

# Chosen on the rows of public_rows.CHOSEN_ON; of the other rows nine in ten are within the factor. One H200 agrees: 0.56 and 0.30 s
# measured, 0.60 and 0.40 so.
FRONT_END_S = 0.1
FIRST_TOKEN_STEPS = 3
FIRST_TOKEN_FACTOR = 3.0


def first_token_s(load: FleetLoad, gateway_part: float) -> float:
    """Mean time to the first token, with so much of the gateway's time spent before it (0 to 1)."""
    return load.engine.first_token_s + gateway_part * load.gateway_s + load.front_end_s


def first_token_in_engine_s(load: FleetLoad) -> float:
    """What the engine alone needs when nothing waits: half a step until the next begins, and that step."""
    return 1.5 * load.engine.step_s


def first_token_by_steps_s(load: FleetLoad) -> float:
    """Mean time to the first token of a fleet whose wait nobody fitted: HTTP and tokenizing, steps to wait out, and its own prompt."""
    return FRONT_END_S + FIRST_TOKEN_STEPS * load.engine.step_s + load.costs.prompt_s + _queued_s(load)


def _queued_s(load: FleetLoad) -> float:
    """Time before the engine runs a request, beyond the steps that a request waits for."""
    engine = load.engine
    beside = max(0.0, engine.first_token_s - first_token_in_engine_s(load))
    return load.front_end_s + beside


def per_token_s(load: FleetLoad, workload: Workload, gateway_part: float) -> float:
    """Time per output token after the first, with so much of the gateway's time spread over them (0 to 1)."""
    after_first = max(1.0, workload.output_tokens.mean - 1)
    return load.engine.step_s / load.costs.tokens_per_step + gateway_part * load.gateway_s / after_first


def between_chunks_s(load: FleetLoad, workload: Workload, gateway_part: float) -> float:
    """Time between two chunks of an answer: a step, and what of the gateway's time falls on its tokens."""
    return per_token_s(load, workload, gateway_part) * load.costs.tokens_per_step


def decode_step_s(load: FleetLoad) -> float:
    """A step in which no prompt is read: what most chunks of an answer wait for."""
    costs = load.costs
    return costs.fixed_s + _uncaptured_s(load) + load.engine.running * (costs.sequence_s + costs.tokens_s)


def prompt_step_s(load: FleetLoad, deployment: Deployment, workload: Workload) -> float:
    """A step filled with prompts, as after a burst: what the slowest chunks of an answer wait for."""
    costs = load.costs
    prompt_tokens = workload.input_tokens.mean
    filled = min(deployment.engine.max_num_batched_tokens, load.engine.running * prompt_tokens)
    prompts_s = filled * costs.prompt_s / prompt_tokens if prompt_tokens else 0.0
    return max(decode_step_s(load), costs.fixed_s + load.engine.running * costs.sequence_s + prompts_s)


def _uncaptured_s(load: FleetLoad) -> float:
    return 0.0 if load.engine.captured else load.costs.uncaptured_s
