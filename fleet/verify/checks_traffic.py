"""Checks with generated traffic: all ranks busy, routers, draft acceptance, transfers, prefix-cache hits, the one question of --answers."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from facts.signals.alerts import COMPUTED_PER_REQUEST, TRANSFER_FLOOR_GB_S
from facts.signals.series import NIXL
from facts.texts import plural
from fleet.clients.metrics_text import MetricsText
from fleet.verify import declared, judgement, questions
from fleet.verify.ask import moved
from fleet.verify.facts import Facts, a_burst, a_server, the_cluster
from fleet.verify.findings import Part, Seen, Unseen, check, difference, format_where
from fleet.verify.judgement import Answer, answer_of, unsound

if TYPE_CHECKING:
    from settings.stack import Settings

DRAFTED: Final = "vllm:spec_decode_num_draft_tokens_total"
ACCEPTED: Final = "vllm:spec_decode_num_accepted_tokens_total"
HITS: Final = "vllm:prefix_cache_hits_total"
FINISHED: Final = "vllm:request_success_total"
BY_SOURCE: Final = "vllm:prompt_tokens_by_source_total"
ACCEPTANCE_POINTS: Final = 0.10
"""Allowed difference to the article's acceptance, in points. Ten points are 5 % fewer tokens per step with one draft token, and below the
84.7 % of the first position with five drafts, the lowest value it published. Our sample is accurate to 2 points."""
FEWEST_DRAFTS: Final = 200
"""Minimum number of drafts: two deviations are 4 points."""
_STATUSES: Final = {"no key": 401, "a path outside /v1": 404}


@check(
    "ranks",
    "All ranks busy",
    "an engine without requests is paid for and idle. With requests waiting it hangs; without, the front end skips it",
    needs=a_burst,
)
def ranks(facts: Facts, settings: Settings) -> Iterator[Part]:
    """Every engine of every replica generated tokens during the burst, and every request was answered."""
    wanted = settings.serving.engine.data_parallel_size
    for name, burst in facts.bursts:
        # Late short requests mean a loaded server, unless none was answered.
        if not burst.answered or burst.answered + burst.late < burst.asked:
            why = f"{burst.answered} answered; {', '.join(burst.troubles)}"
            yield difference(name, "burst", f"{plural(burst.asked, 'request')} answered", why)
        if burst.before is None or burst.after is None:
            yield Unseen(f"no counters at /metrics of {name}")
            continue
        working = moved(burst.before, burst.after)
        for rank in map(str, range(wanted)):
            if rank not in working:
                yield difference(name, f"rank {rank}", "tokens of the burst", _format_idle(burst.after, rank))
    answered, asked = (sum(getattr(burst, key) for _, burst in facts.bursts) for key in ("answered", "asked"))
    where = format_where(name for name, _ in facts.bursts)
    yield Seen(f"{wanted} of {wanted} on {where}; {answered} of {asked} short requests answered")


def _format_idle(after: MetricsText, rank: str) -> str:
    running = after.total("vllm:num_requests_running", engine=rank)
    waiting = after.total("vllm:num_requests_waiting", engine=rank)
    return (
        "none; not listed at /metrics"
        if running is None
        else f"none; {running:.0f} running, {waiting or 0:.0f} waiting"
    )


def _a_router(facts: Facts) -> str:
    if facts.routed is not None or facts.cluster is None:
        return the_cluster(facts)
    return "no tunnel to a router" if any(one.ready for one in facts.cluster.routers) else "no router is ready"


@check(
    "balance",
    "Balance between servers",
    "a server without requests is paid for and idle: the routers do not know it, or its health check fails",
    needs=_a_router,
    applies=lambda settings: settings.has_router,
)
def balance(facts: Facts, settings: Settings) -> Iterator[Part]:
    """Every server, with a port per rank every rank, got a part of a burst through one router."""
    del settings
    assert facts.routed is not None
    routed = facts.routed
    if routed.answered < routed.asked:
        why = f"{routed.answered} answered; {', '.join(routed.troubles)}"
        yield difference(routed.router, "burst", f"{plural(routed.asked, 'request')} answered", why)
    for name, share in sorted(routed.shares.items()):
        if share is None:
            yield Unseen(f"no counters at /metrics of {name}")
        elif share < 1:
            yield difference(name, "requests through the router", "1 or more", "none")
    yield Seen(f"{routed.answered} of {routed.asked} requests answered through {routed.router}")


@check(
    "refusals",
    "Refusals of the router",
    "the routers let through what they should refuse: `pulumi up` was not run or did not finish",
    needs=_a_router,
    applies=lambda settings: settings.has_router and settings.guards_v1_only,
)
def refusals(facts: Facts, settings: Settings) -> Iterator[Part]:
    """A router refuses requests without a key and outside /v1."""
    del settings
    assert facts.routed is not None
    for what, reply in facts.routed.refused.items():
        if reply.status != _STATUSES[what]:
            yield difference(facts.routed.router, what, f"HTTP {_STATUSES[what]}", reply.summary)
    yield Seen(f"{plural(len(facts.routed.refused), 'wrong request')} refused")


@check(
    "speculation",
    "Speculative decoding",
    "drafts are missing or mostly rejected: each step computes them and gains nothing",
    needs=a_burst,
)
def speculation(facts: Facts, settings: Settings) -> Iterator[Part]:
    """Drafts and their acceptance during the burst."""
    wanted, published = settings.serving.engine.speculative, declared.acceptance(settings)
    drafted = accepted = 0.0
    for name, burst in facts.bursts:
        if burst.before is None or burst.after is None or not burst.answered:
            yield Unseen(f"no counters at /metrics, or no answers, from {name}")
            continue
        drafts, taken = (_grown(burst.before, burst.after, series) for series in (DRAFTED, ACCEPTED))
        drafted, accepted = drafted + drafts, accepted + taken
        if wanted is None:
            if drafts:
                yield difference(name, "speculation", "none", f"{drafts:.0f} drafts in the burst")
        elif not drafts:
            yield difference(name, "speculation", f"--speculative-config with {wanted.method}", "no draft in the burst")
        elif published is not None and drafts >= FEWEST_DRAFTS and taken / drafts < published - ACCEPTANCE_POINTS:
            least = f"{100 * (published - ACCEPTANCE_POINTS):.0f} % or more; published: {100 * published:.0f} %"
            yield difference(name, "acceptance", least, f"{100 * taken / drafts:.0f} % of {drafts:,.0f} drafts")
    if wanted is not None and published is not None and drafted < FEWEST_DRAFTS:
        yield Unseen(f"only {drafted:.0f} drafts in the burst, too few for a rate")
    yield Seen(f"{100 * accepted / drafted if drafted else 0:.0f} % of {drafted:,.0f} drafts accepted")


def _grown(before: MetricsText, after: MetricsText, name: str, **labels: str) -> float:
    return (after.total(name, **labels) or 0.0) - (before.total(name, **labels) or 0.0)


@check(
    "transfers",
    "Prompts move to decode",
    "a split whose caches do not arrive, or not by NVLink, costs GPUs and gains nothing: docs/prefill-apart.md",
    needs=a_burst,
    applies=lambda settings: settings.server.shape is not None,
)
def transfers(facts: Facts, settings: Settings) -> Iterator[Part]:
    """Decode engines fetched the prompts of the burst instead of computing them, and fast."""
    del settings
    decode = {"role": "decode"}
    for name, burst in facts.bursts:
        before, after = burst.before, burst.after
        if before is None or after is None or not burst.answered:
            yield Unseen(f"no counters at /metrics, or no answers, from {name}")
            continue
        requests = _grown(before, after, FINISHED, **decode)
        computed = _grown(before, after, BY_SOURCE, source="local_compute", **decode)
        moved_, seconds, failed = (_grown(before, after, series, **decode) for series in NIXL[:3])
        if not requests:
            yield difference(name, "requests of decode engines", "1 or more", "none")
            continue
        if computed > COMPUTED_PER_REQUEST * requests:
            found = f"{computed / requests:.0f}"
            yield difference(name, "prompt tokens that decode computes, per request", "1", found)
        if failed:
            yield difference(name, "failed transfers", "none", f"{failed:.0f}")
        speed = moved_ / seconds / 1e9 if seconds else 0.0
        if seconds and speed < TRANSFER_FLOOR_GB_S:
            yield difference(name, "bytes by seconds", f"{TRANSFER_FLOOR_GB_S} GB/s or more", f"{speed:.1f} GB/s")
        yield Seen(f"{name}: {requests:.0f} requests, {moved_ / 1e9:.1f} GB at {speed:.1f} GB/s")


@check(
    "prefix-caching",
    "Prefix caching",
    "every request computes its whole prompt, even if it shares a prefix: compare `flags`",
    needs=lambda facts: "" if facts.twice is not None else a_burst(facts),
    applies=lambda settings: settings.serving.caches_prefixes,
)
def prefix_caching(facts: Facts, settings: Settings) -> Iterator[Part]:
    """The second of two equal prompts is partly served from the cache. Other users' hits show as well that the cache works."""
    twice = facts.twice
    if twice is None:
        yield Unseen("no prompt within the context can hit: it is shorter than the cache's blocks")
        return
    for name, reply in (("first", twice.first), ("second", twice.second)):
        if reply.is_late:
            # The burst already shows whether the engine hangs.
            yield Unseen(f"the {name} of two equal prompts: {reply.summary}")
            return
        if not reply.ok:
            yield difference(twice.where, f"{name} prompt", "HTTP 200", reply.refusal)
            return
    if twice.before is None or twice.after is None or twice.after.total(HITS) is None:
        yield Unseen("no cache counters at /metrics")
        return
    block = declared.block_tokens(settings) or declared.SMALLEST_BLOCK_TOKENS
    hits = _grown(twice.before, twice.after, HITS)
    if hits < block:
        found = f"{hits:,.0f} of {twice.prompt_tokens:,}"
        yield difference(twice.where, "cached tokens of the second prompt", f"{block:,} or more", found)
    yield Seen(f"{hits:,.0f} of {twice.prompt_tokens:,} tokens of a repeated prompt came from the cache")


@check(
    "answers",
    "Same answer of every engine",
    "one engine: take its pod out, and look at its GPU; all, or since a change: image, weights, cache type and rope settings",
    needs=a_server,
)
def answers(facts: Facts, settings: Settings) -> Iterator[Part]:
    """Every engine's answers to one question are sound, name the number, and are the usual one but for near ties."""
    del settings
    read = [(told, answer_of(told.reply.body) if told.reply.ok else None) for told in facts.told]
    sound = [answer for _, answer in read if answer is not None and not _wrong(answer)]
    counts = Counter(answer.tokens for answer in sound)
    usual = max(sound, key=lambda answer: counts[answer.tokens], default=None)
    named: set[tuple[str, str]] = set()
    for told, answer in read:
        if told.reply.is_late:
            yield Unseen(f"{told.where}, {told.name}: {told.reply.summary}; ask at less load")
            continue
        if answer is None:
            why = "no completion with log probabilities" if told.reply.ok else told.reply.refusal
        else:
            why = _wrong(answer) or (judgement.difference(answer, usual) if usual is not None else "")
        if why and (told.where, told.name) not in named:
            named.add((told.where, told.name))
            wanted = _start(usual) if usual is not None else f"an answer with {questions.NEEDLE}"
            yield difference(told.where, told.name, wanted, f"{why}: {_start(answer)}" if answer else why)
    if not facts.told:
        yield Unseen("no question was sent")
    yield Seen(f"{plural(len(read), 'answer')} of {format_where({told.where for told, _ in read})} agree")


def _wrong(answer: Answer) -> str:
    """What is wrong with an answer whatever the others say; empty if nothing is."""
    return unsound(answer.text, answer.tokens) or ("" if questions.NEEDLE in answer.text else "without the number")


def _start(answer: Answer) -> str:
    text = " ".join(answer.text.split())
    return json.dumps(text[:40] + ("…" if len(text) > 40 else ""), ensure_ascii=False)
