"""Notes on a plan, most serious first."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

from facts import figures
from facts.models import CATALOGUE
from facts.texts import plural
from fleet.plan.model.fleet_rate import API_SERVER_MEASURED_REQUESTS_PER_S, API_SERVER_TOKENS_PER_S
from fleet.plan.model.roofline import is_articles
from fleet.plan.plan import Plan
from fleet.plan.question.goals import INTERRUPTIBLE, MOST_MACHINES, Batch, reading_seconds
from fleet.plan.question.profiles import profile_facts
from fleet.report.words import format_list

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
    "the article's load": "The article's fleet lost throughput at four times this load, so its pair is planned up to it.",
    "the latency limits": "More would exceed the latency limits.",
    "throughput": "More would lower throughput.",
    "max_num_seqs": "--max-num-seqs allows no more; steps beyond the captured CUDA graphs take longer.",
    "max_num_batched_tokens": "Prompts and next tokens of more exceed --max-num-batched-tokens, which bounds a step.",
}


def remarks(plan: Plan) -> Iterator[str]:
    """Yield one paragraph per note."""
    yield from plan.question.notes
    yield from _size(plan)
    yield from _gateway(plan)
    yield from _money(plan)
    yield from _capacity(plan)
    yield from _model(plan)


def _size(plan: Plan) -> Iterator[str]:
    if plan.machines > MOST_MACHINES:
        yield (
            f"{plan.machines:,} machines exceed the limit of {MOST_MACHINES:,} replicas per stack. Plan several "
            "stacks, each with a share of the load."
        )
    for verdict in plan.verdicts:
        if not verdict.holds:
            yield f"{verdict.name} may be {verdict.high_ms:,.0f} ms, above the limit of {verdict.limit_ms:,.0f} ms."
    yield from _users(plan)
    yield from _full_load(plan)
    if isinstance(plan.question.goal, Batch):
        profile = plan.question.profile
        context = profile.shape.max_model_len_tokens
        longest = plan.question.workload.longest_request_tokens
        yield (
            f"The server rejects a document longer than {context:,} tokens including its answer (profile {profile.name}). "
            f"This plan assumes at most {longest:,}. Count tokens first and split longer documents."
        )


def _users(plan: Plan) -> Iterator[str]:
    """What the default of `--think-seconds` means for this goal."""
    fewer = plan.nodes_with_readers
    if fewer is not None:
        seconds = reading_seconds(plan.question.workload)
        yield (
            "Each user sends the next request at once (--think-seconds 0), as the article's clients do: the most load that so many "
            f"users can be. People read first, about {seconds:,.0f} s here: {plural(fewer, 'node')} with --think-seconds {seconds:.0f}."
        )


def _full_load(plan: Plan) -> Iterator[str]:
    """Why full load leaves cache free."""
    used = plan.maximum.kv_cache_peak_percent.value
    if used < _FULL_CACHE_PERCENT and plan.full_load_limit in _LIMITS:
        yield (
            f"At full load a node has {plan.in_flight_per_node:,.0f} requests in flight and its cache is {used:.0f} % full. "
            f"{_LIMITS[plan.full_load_limit]}"
        )


def _gateway(plan: Plan) -> Iterator[str]:
    if plan.question.routing == "inference-gateway":
        yield plan.sizing.gateway.text


def _money(plan: Plan) -> Iterator[str]:
    money = plan.money
    if money.usd_per_node_hour is None:
        node = next(item for item in money.bill.items if item.id == "nodes")
        yield f"The price of these nodes is unknown: {node.reason} (--usd-per-node-hour)."
    unknown = [
        name for name in money.bill.unknown if money.usd_per_node_hour is not None or name != money.bill.nodes.name
    ]
    if unknown:
        yield f"Amounts are lower bounds: no dated price is known for {format_list(unknown)}."
    if plan.question.duty.share < 1 and plan.question.capacity in ("cud-1y", "cud-3y", "calendar", "reservation"):
        yield "Committed nodes are billed all 168 hours of the week, whether they run or not."


def _capacity(plan: Plan) -> Iterator[str]:
    capacity = plan.question.capacity
    if capacity in INTERRUPTIBLE:
        yield (
            "Google can reclaim Spot nodes with 30 seconds' notice, and Spot capacity may be unavailable. Replacing a lost node "
            f"takes {plan.restart.likely_seconds / 60:.0f} minutes if capacity is available."
        )
    if capacity in ("cud-1y", "cud-3y"):
        yield "A commitment is a price, not capacity. The stack file must also name a reservation."


def _model(plan: Plan) -> Iterator[str]:
    performance, question = plan.performance, plan.question
    listed, version = CATALOGUE.get(question.profile.model), question.profile.engine_version
    if listed is not None and version != (usual := profile_facts(question.profile.name).engine_version):
        yield f"{listed.id} needs vLLM {listed.min_vllm} or later: {version} instead of the profile's {usual}."
    alone_ms = performance.ttft_ms.as_engine
    if alone_ms is not None and performance.ttft_ms.value - alone_ms > _LONG_WAIT_MS:
        yield (
            f"As the article's fleet, most of the time to first token passes before the request reaches the engine: the article measured "
            f"5.6 to 8.1 s and gives no cause. On H200, one client that saturated its core reported 2.2 s where eight clients "
            f"reported 0.2 s, so users may see what one engine takes, {alone_ms:,.0f} ms. The plan scales the wait with the load, "
            "on every machine alike."
        )
    yield from _graphs(plan)
    yield from _front_end(plan)
    shortest = performance.shortest_prompt_with_cache_hit_tokens
    if shortest is not None and question.workload.input_tokens.max < shortest:
        yield f"Prefix caching is on but saves nothing here: no prompt shorter than {shortest:,} tokens can hit the cache."
    published_nodes = figures.published_nodes(question.routing)
    if plan.machines > published_nodes[-1]:
        yield f"Nothing was published for more than {published_nodes[-1]} nodes with this routing."


def _graphs(plan: Plan) -> Iterator[str]:
    """Warn if steps exceed the captured CUDA graphs, at the goal or close to it."""
    engine = plan.deployment.engine
    drafted, captured = 1 + engine.speculative_tokens, engine.captured_tokens
    now, full = (of.running_per_engine.value * drafted for of in (plan.performance, plan.maximum))
    most = min(engine.max_num_seqs * drafted, engine.max_num_batched_tokens)
    if not captured or most <= captured:
        return
    if now > captured:
        within = (
            f"Up to {plan.in_flight_per_node:,.0f} requests in flight per node stay within them. "
            if full <= captured
            else ""
        )
        yield (
            f"A step has {now:,.0f} tokens ({plural(drafted, 'token')} per sequence), but CUDA graphs are captured up to {captured:,} "
            f"only, so every step takes longer. {within}--max-cudagraph-capture-size {_round_up(now)} covers it, for more memory."
        )
    elif full > _NEAR_CAPTURED * captured:
        counted = " (the low end includes that)" if is_articles(plan.deployment) else " (not included in these figures)"
        yield (
            f"At full load a step has {full:,.0f} tokens; CUDA graphs cover {captured:,}, and larger steps take longer{counted}"
            f". --max-cudagraph-capture-size {_round_up(min(full / _NEAR_CAPTURED, most))} leaves a margin, for more memory."
        )


def _round_up(tokens: float) -> int:
    return ceil(tokens / _ROUND_TOKENS) * _ROUND_TOKENS


def _front_end(plan: Plan) -> Iterator[str]:
    """Warn if the API servers of a node may saturate."""
    servers = plan.deployment.engine.http_processes
    requests = plan.performance.requests_per_s.value / plan.nodes / servers
    if requests > API_SERVER_MEASURED_REQUESTS_PER_S:
        yield (
            f"Each API server handles {requests:,.0f} requests/s. Of 1,152 tokens each, {API_SERVER_MEASURED_REQUESTS_PER_S} were "
            "measured. What a short request costs beside its tokens is not in the model."
        )
    each = plan.maximum.total_tokens_per_s.high / plan.nodes / servers
    if each > _COMFORTABLE_SHARE * API_SERVER_TOKENS_PER_S:
        wanted = ceil(servers * each / _TOKENS_PER_API_SERVER)
        yield (
            f"A node has {plural(servers, 'API server')}, each handling up to {each:,.0f} tok/s at full load. One process saturated "
            f"at {API_SERVER_TOKENS_PER_S:,}, with 8 s to first token. Set --api-server-count {wanted}, "
            "with a CPU core for each."
        )
