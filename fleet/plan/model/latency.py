"""Client-side latency from engine steps."""

from __future__ import annotations

from math import ceil

from facts.workloads import Workload
from fleet.plan.model.deployment import Deployment
from fleet.plan.model.fleet_rate import FleetLoad

# Inferred: the article's TTFT fits uniformly distributed waits. Mean and median are equal, and p99 (11.4 to 11.6 s) is 1.8 to
# 1.9 times the median (6.1 to 6.2 s). A uniform distribution from 0 gives 1.98.
FIRST_TOKEN_P99_OVER_MEAN = 1.98

# Chosen on public rows, as the roofline; 90 % of the other rows are within the factor. One H200 agrees: 0.56 and 0.30 s
# measured, 0.60 and 0.40 modeled.
FRONT_END_S = 0.1
FIRST_TOKEN_STEPS = 3
FIRST_TOKEN_FACTOR = 3.0


def first_token_s(load: FleetLoad, gateway_part: float) -> float:
    """Mean time to first token; `gateway_part` (0 to 1) is the share of the gateway's time before it."""
    return load.engine.first_token_s + gateway_part * load.gateway_s + load.front_end_s


def first_token_in_engine_s(load: FleetLoad) -> float:
    """Time to first token without a queue: half a step of waiting, and the steps that read the prompt."""
    return 0.5 * load.engine.step_s + load.engine.prefill_s


def first_token_by_steps_s(load: FleetLoad) -> float:
    """Mean time to first token without a fitted wait: HTTP and tokenization, steps to wait for, and those that read the prompt."""
    engine = load.engine
    return FRONT_END_S + (FIRST_TOKEN_STEPS - 1) * engine.between_s + engine.prefill_s + _queued_s(load)


def _queued_s(load: FleetLoad) -> float:
    """Queueing time before the engine runs a request."""
    engine = load.engine
    beside = max(0.0, engine.first_token_s - first_token_in_engine_s(load))
    return load.front_end_s + beside


def per_token_s(load: FleetLoad, workload: Workload, gateway_part: float) -> float:
    """Time per output token after the first; `gateway_part` (0 to 1) is the share of the gateway's time spread over them."""
    after_first = max(1.0, workload.output_tokens.mean - 1)
    return load.engine.between_s / load.costs.tokens_per_step + gateway_part * load.gateway_s / after_first


def tokens_per_chunk(load: FleetLoad, deployment: Deployment, workload: Workload) -> float:
    """Tokens of a streamed chunk after the first: of a step, or of those that `--stream-interval` gathers; at most the answer's.

    Checked: 26 chunks for 250 tokens at an interval of 10 without drafts, as measured (0.104 a token, one H200, vLLM 0.33.0).
    """
    of_step = load.costs.tokens_per_step
    steps = max(1, ceil(deployment.engine.stream_interval / of_step))
    return min(of_step * steps, max(1.0, workload.output_tokens.mean - 1))
