"""Notes on a plan, most serious first: one fixed note for each condition."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

from facts import figures
from facts.models import CATALOGUE
from facts.texts import plural
from fleet.plan.model.fleet_rate import API_SERVER_TOKENS_PER_S
from fleet.plan.plan import Plan
from fleet.plan.question.goals import INTERRUPTIBLE, Batch, Users, reading_seconds
from fleet.plan.question.profiles import profile_facts
from fleet.report.words import format_list, format_number

# Above this, an engine step does not explain the time to first token.
_LONG_WAIT_MS = 1_000
# Assumed, as for the interval: sequences per step vary by about a quarter.
_NEAR_CAPTURED = 0.8
# Rounding step for suggested values; vLLM accepts any number.
_ROUND_TOKENS = 64
# Measured on H200: one API server cost 3 % at 35,000 tok/s, using 0.75 of a core; it saturated at 110,000.
_TOKENS_PER_API_SERVER = 40_000
_COMFORTABLE_SHARE = 0.5
_FULL_CACHE_PERCENT = 90
_LIMITS = {
    "the article's load": "the article's fleet lost throughput at four times this load, so its pair is planned up to it",
    "the latency limits": "more would exceed the latency limits",
    "throughput": "more would lower throughput",
    "max_num_seqs": "--max-num-seqs allows no more, and steps beyond the captured CUDA graphs take longer",
    "max_num_batched_tokens": "more exceed --max-num-batched-tokens, which bounds a step",
}


def remarks(plan: Plan) -> Iterator[str]:
    """Yield one note per condition."""
    yield from plan.question.notes
    yield from _load(plan)
    yield from _money(plan)
    yield from _engine(plan)


def _load(plan: Plan) -> Iterator[str]:
    question, full = plan.question, plan.maximum
    if isinstance(question.goal, Users):
        seconds = reading_seconds(question.workload)
        rate = question.goal.users / (seconds + plan.performance.seconds_per_request)
        yield (
            f"Users send the next request at once, as the article's clients do. People who read each answer first, about {seconds:,.0f} s "
            f"here, are --requests-per-second {format_number(rate)}."
        )
    if isinstance(question.goal, Batch):
        yield (
            f"The server rejects a document longer than {question.profile.shape.max_model_len_tokens:,} tokens including its answer; "
            f"this plan assumes at most {question.workload.longest_request_tokens:,}. `fleet batch plan FILE` counts them."
        )
    if full.kv_cache_peak_percent < _FULL_CACHE_PERCENT and plan.full_load_limit in _LIMITS:
        yield (
            f"At full load a node has {plan.in_flight_per_node:,.0f} requests in flight and its cache is "
            f"{full.kv_cache_peak_percent:.0f} % full: {_LIMITS[plan.full_load_limit]}."
        )
    if plan.nodes > (most := figures.published_nodes(question.routing)[-1]):
        yield f"Nothing was published for more than {most} nodes with this routing."


def _money(plan: Plan) -> Iterator[str]:
    money, capacity = plan.money, plan.question.capacity
    if money.usd_per_node_hour is None:
        node = next(item for item in money.bill.items if item.id == "nodes")
        yield f"The price of these nodes is unknown: {node.reason} (--usd-per-node-hour)."
    unknown = [
        name for name in money.bill.unknown if money.usd_per_node_hour is not None or name != money.bill.nodes.name
    ]
    if unknown:
        yield f"Amounts are lower bounds: no dated price is known for {format_list(unknown)}."
    if capacity in INTERRUPTIBLE:
        yield (
            "Google can reclaim Spot nodes with 30 seconds' notice, and capacity may be unavailable. Replacing one takes "
            f"{plan.restart.likely_seconds / 60:.0f} minutes if there is some."
        )
    if capacity in ("cud-1y", "cud-3y"):
        yield "A commitment is a price, not capacity. The stack file must also name a reservation."


def _engine(plan: Plan) -> Iterator[str]:
    performance, question = plan.performance, plan.question
    listed, version = CATALOGUE.get(question.profile.model), question.profile.engine_version
    if listed is not None and version != (usual := profile_facts(question.profile.name).engine_version):
        yield f"{listed.id} needs vLLM {listed.min_vllm} or later: {version} instead of the profile's {usual}."
    if question.split_because:
        ranks = plan.deployment.engine.tensor_parallel
        yield f"One engine takes {ranks} GPUs for {question.split_because}."
    if performance.ttft_ms.value - performance.ttft_ms.low > _LONG_WAIT_MS and not performance.is_bound:
        yield (
            "Most of the time to first token is the wait that the article's fleet showed before its engines, without a known cause: "
            "docs/planner-model.md. One engine alone is near the low end. Measure yours with `fleet bench`."
        )
    yield from _graphs(plan)
    yield from _front_end(plan)
    shortest = performance.shortest_prompt_with_cache_hit_tokens
    if shortest is not None and question.workload.input_tokens.max < shortest:
        yield f"Prefix caching is on but saves nothing here: no prompt shorter than {shortest:,} tokens can hit the cache."


def _graphs(plan: Plan) -> Iterator[str]:
    """Warn if steps exceed the captured CUDA graphs, at the goal or close to it."""
    engine = plan.deployment.engine
    drafted, captured = 1 + engine.speculative_tokens, engine.captured_tokens
    tokens = drafted * max(plan.performance.running_per_engine, plan.maximum.running_per_engine)
    most = min(engine.max_num_seqs * drafted, engine.max_num_batched_tokens)
    if captured and most > captured and tokens > _NEAR_CAPTURED * captured:
        wanted = ceil(min(tokens / _NEAR_CAPTURED, most) / _ROUND_TOKENS) * _ROUND_TOKENS
        yield (
            f"A step has up to {tokens:,.0f} tokens; CUDA graphs are captured up to {captured:,}, and larger steps take longer. "
            f"--max-cudagraph-capture-size {wanted} leaves a margin, for more memory."
        )


def _front_end(plan: Plan) -> Iterator[str]:
    """Warn if the API servers of a node may saturate."""
    servers = plan.deployment.engine.http_processes
    each = plan.maximum.total_tokens_per_s.high / plan.nodes / servers
    if each > _COMFORTABLE_SHARE * API_SERVER_TOKENS_PER_S:
        yield (
            f"Each of {plural(servers, 'API server')} of a node handles up to {each:,.0f} tok/s at full load; one saturated at "
            f"{API_SERVER_TOKENS_PER_S:,}. --api-server-count {ceil(servers * each / _TOKENS_PER_API_SERVER)}, with a core for each."
        )
