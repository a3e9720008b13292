"""What a reader should know of a plan before he trusts it or buys it, in words, the gravest first."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import ceil

from facts import figures
from facts.models import CATALOGUE
from fleet.plan.model.fleet_rate import API_SERVER_TOKENS_PER_S
from fleet.plan.model.roofline import is_articles
from fleet.plan.plan import Plan
from fleet.plan.question.goals import INTERRUPTIBLE, MOST_MACHINES, Batch
from fleet.report.words import format_list, plural

# Above it a first token comes later than a step of the engine can explain.
_LONG_WAIT_MS = 1_000
# Assumed: as the interval has it, sequences in a step vary by about a quarter.
_NEAR_CAPTURED = 0.8
# A round number; vLLM takes any.
_ROUND_TOKENS = 64
# Measured on H200: one API server cost 3 % at 35,000 tok/s, with 0.75 of a core; 110,000 were its end.
_TOKENS_PER_API_SERVER = 40_000
_COMFORTABLE_SHARE = 0.5


def remarks(plan: Plan) -> Iterator[str]:
    """Remarks on the plan, one paragraph each."""
    yield from _failed(plan)
    yield from plan.question.notes
    yield from _size(plan)
    yield from _gateway(plan)
    yield from _money(plan)
    yield from _capacity(plan)
    yield from _model(plan)


def _failed(plan: Plan) -> Iterator[str]:
    """What became of the run that the profile repeats, where it gave no rate."""
    row = plan.question.profile.reproduces
    if row is not None and (outcome := figures.published(row).outcome) is not None:
        yield f"The article's run of {plan.question.profile.name} failed: {outcome}. Every number here is the model's alone."


def _size(plan: Plan) -> Iterator[str]:
    if plan.machines > MOST_MACHINES:
        yield (
            f"{plan.machines:,} machines are more than the {MOST_MACHINES:,} replicas that one stack may have: plan several "
            "stacks, each with its share of the load."
        )
    for verdict in plan.verdicts:
        if not verdict.holds:
            yield f"{verdict.name} may be {verdict.high_ms:,.0f} ms, above the {verdict.limit_ms:,.0f} asked for."
    if isinstance(plan.question.goal, Batch):
        profile = plan.question.profile
        context = profile.shape.max_model_len_tokens
        longest = plan.question.workload.longest_request_tokens
        yield (
            f"The server refuses documents that are longer than {context:,} tokens with their answer (profile "
            f"{profile.name}); the longest counted on here has {longest:,}. Count tokens first, split what is longer."
        )


def _gateway(plan: Plan) -> Iterator[str]:
    if plan.question.routing == "inference-gateway":
        yield plan.sizing.gateway.text


def _money(plan: Plan) -> Iterator[str]:
    money = plan.money
    if money.usd_per_node_hour is None:
        node = next(item for item in money.bill.items if item.id == "nodes")
        yield f"No price of these nodes: {node.reason} (--usd-per-node-hour)."
    unknown = [
        name for name in money.bill.unknown if money.usd_per_node_hour is not None or name != money.bill.nodes.name
    ]
    if unknown:
        yield f'Amounts are "at least": no dated price is known for {format_list(unknown)}.'
    if plan.question.duty.share < 1 and plan.question.capacity in ("cud-1y", "cud-3y", "calendar", "reservation"):
        yield "Committed nodes are paid for in all 168 hours of a week, whether they work or not."


def _capacity(plan: Plan) -> Iterator[str]:
    capacity = plan.question.capacity
    if capacity in INTERRUPTIBLE:
        yield (
            "Spot nodes go with 30 seconds' notice and may not be there at all; a loss costs "
            f"{plan.restart.likely_seconds / 60:.0f} minutes of one node where there is stock for another."
        )
    if capacity in ("cud-1y", "cud-3y"):
        yield "A commitment is a price, not capacity: it needs a reservation, which is what a stack file names."


def _model(plan: Plan) -> Iterator[str]:
    performance, question = plan.performance, plan.question
    listed, version = CATALOGUE.get(question.profile.model), question.profile.engine_version
    if listed is not None and _release(version) < _release(listed.min_vllm):
        yield f"{listed.id} needs vLLM {listed.min_vllm} or later, and profile {question.profile.name} has {version}."
    if is_articles(plan.deployment) and performance.ttft_ms.value > _LONG_WAIT_MS:
        yield (
            "Most of the time to the first token passes before the engine has the request: the article measured 5.6 to 8.1 s, and "
            "gives no cause. On H200 one client that filled its core reported 2.2 s where eight reported 0.2 s, so the low end may be what "
            "users see. The plan scales the article's wait with the load."
        )
    yield from _graphs(plan)
    yield from _front_end(plan)
    shortest = performance.shortest_prompt_with_cache_hit_tokens
    if shortest is not None and question.workload.input_tokens.max < shortest:
        yield f"Prefix caching is on and no prompt below {shortest:,} tokens can hit: it saves nothing here."
    published_nodes = figures.published_nodes(question.routing)
    if plan.machines > published_nodes[-1]:
        yield f"Nothing was published for more than {published_nodes[-1]} nodes with this routing."


def _graphs(plan: Plan) -> Iterator[str]:
    """Whether steps have more tokens than captured CUDA graphs reach, at the goal or where a few more requests would."""
    engine = plan.deployment.engine
    drafted, captured = 1 + engine.speculative_tokens, engine.captured_tokens
    now, full = (of.running_per_engine.value * drafted for of in (plan.performance, plan.maximum))
    most = min(engine.max_num_seqs * drafted, engine.max_num_batched_tokens)
    if not captured or most <= captured:
        return
    if now > captured:
        within = (
            f"{plan.in_flight_per_node:,.0f} requests in flight a node stay within them; " if full <= captured else ""
        )
        yield (
            f"A step has {now:,.0f} tokens, {plural(drafted, 'token')} for each sequence, and captured CUDA graphs end at {captured:,}: "
            f"without one every step takes longer. {within}--max-cudagraph-capture-size {_round_up(now)} makes them reach, for more memory."
        )
    elif full > _NEAR_CAPTURED * captured:
        counted = (
            ", and the low end counts with that" if is_articles(plan.deployment) else ", which no figure here counts"
        )
        yield (
            f"At full load a step has {full:,.0f} tokens and captured CUDA graphs end at {captured:,}: steps with more take longer{counted}"
            f". --max-cudagraph-capture-size {_round_up(min(full / _NEAR_CAPTURED, most))} leaves room, for some more memory."
        )


def _round_up(tokens: float) -> int:
    return ceil(tokens / _ROUND_TOKENS) * _ROUND_TOKENS


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def _front_end(plan: Plan) -> Iterator[str]:
    """Whether a node has API servers enough for its rate."""
    servers = plan.deployment.engine.http_processes
    each = plan.maximum.total_tokens_per_s.high / plan.nodes / servers
    if each > _COMFORTABLE_SHARE * API_SERVER_TOKENS_PER_S:
        wanted = ceil(servers * each / _TOKENS_PER_API_SERVER)
        yield (
            f"A node has {plural(servers, 'API server')}, and each may have to carry {each:,.0f} tok/s at full load. One process was full "
            f"at {API_SERVER_TOKENS_PER_S:,}, with 8 s to the first token: --api-server-count {wanted}, "
            "with a CPU core for each."
        )
