"""Checks with generated traffic: all ranks busy, draft acceptance, prefix-cache hits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from facts import memory
from facts.signals.alerts import COMPUTED_PER_REQUEST, TRANSFER_FLOOR_GB_S
from facts.signals.series import NIXL, SLEEP, STEPS
from facts.texts import plural
from fleet.clients.metrics_text import MetricsText
from fleet.verify import declared
from fleet.verify.ask import moved
from fleet.verify.checks_service import nobody
from fleet.verify.facts import OUT_OF_TIME, Burst, Facts, Server
from fleet.verify.findings import Check, difference, format_where, judged, not_checked, told
from settings.checks.declared_server import DeclaredServer

if TYPE_CHECKING:
    from facts.finding import Finding
    from settings.stack import Settings

DRAFTED: Final = "vllm:spec_decode_num_draft_tokens_total"
ACCEPTED: Final = "vllm:spec_decode_num_accepted_tokens_total"
HITS: Final = "vllm:prefix_cache_hits_total"
QUERIES: Final = "vllm:prefix_cache_queries_total"
FINISHED: Final = "vllm:request_success_total"
BY_SOURCE: Final = "vllm:prompt_tokens_by_source_total"
ACCEPTANCE_POINTS: Final = 0.10
"""Allowed difference to the article's acceptance, in points. Ten points are 5 % fewer tokens per step with one draft token, and below the
84.7 % of the first position with five drafts, the lowest value it published. Our sample is accurate to 2 points."""
FEWEST_DRAFTS: Final = 200
"""Minimum number of drafts: two deviations are 4 points."""


def _bursts(facts: Facts) -> list[Server]:
    return [server for server in facts.servers if server.burst is not None]


def _why_no_burst(facts: Facts) -> str:
    if why := nobody(facts):
        return why
    if not facts.pods and not facts.one_server:
        return (
            "only the endpoint is known: behind a Service or a gateway, each scrape of /metrics reaches a different pod; "
            "pass --kubeconfig or --outputs to query every pod"
        )
    return "no burst was sent"


def ranks(facts: Facts, settings: Settings) -> Check:
    """Every engine of every replica generated tokens during the burst, and every request was answered."""
    title = "All ranks busy"
    servers = _bursts(facts)
    if not servers:
        return not_checked("ranks", title, _why_no_burst(facts))
    wanted = settings.serving.engine.data_parallel_size
    differences: list[Finding] = []
    asked = answered = late = 0
    blind: list[str] = []
    hurried: list[str] = []
    for server in servers:
        burst = server.burst
        assert burst is not None
        asked, answered, late = asked + burst.asked, answered + burst.answered, late + burst.late
        # Late short requests mean a loaded server, unless none was answered.
        if burst.answered + burst.late < burst.asked or not (burst.answered or burst.cut_short):
            why = f"{burst.answered} answered; {', '.join(burst.troubles)}"
            differences.append(difference(server.name, "burst", f"{plural(burst.asked, 'request')} answered", why))
        if burst.before is None or burst.after is None:
            blind.append(server.name)
            continue
        working = moved(burst.before, burst.after)
        idle = [rank for rank in map(str, range(wanted)) if rank not in working]
        if burst.cut_short and (idle or not burst.answered):
            hurried.append(server.name)
            continue
        for rank in idle:
            differences.append(
                difference(
                    server.name,
                    f"rank {rank}",
                    "tokens of the burst",
                    _format_idle(burst, burst.before, burst.after, rank),
                )
            )
    if blind and not differences:
        return not_checked("ranks", title, f"no counters at /metrics of {', '.join(blind)}")
    if hurried and not differences:
        return not_checked(
            "ranks", title, f"{OUT_OF_TIME} before the burst on {', '.join(hurried)} ended; raise --timeout"
        )
    held = f"{wanted} of {wanted} on {format_where(one.name for one in servers)}; {answered} of {asked} short requests answered"
    if late:
        held += f", {late} timed out"
    failed = "an engine without requests loses its share of the replica's throughput"
    return judged("ranks", title, differences, held=held, failed=failed)


def _format_idle(burst: Burst, before: MetricsText, after: MetricsText, rank: str) -> str:
    running = after.total("vllm:num_requests_running", engine=rank)
    waiting = after.total("vllm:num_requests_waiting", engine=rank)
    used = after.total("vllm:kv_cache_usage_perc", engine=rank)
    if running is None:
        return "none; not listed at /metrics"
    cache = "" if used is None else f", cache {100 * used:.1f} % full"
    step = f", and no step in {burst.seconds:.0f} s" if running and _stands(before, after, rank) else ""
    return f"none; {running:.0f} running, {waiting or 0:.0f} waiting{cache}{step}"


def _stands(before: MetricsText, after: MetricsText, rank: str) -> bool:
    """Whether an engine has taken no step between two scrapes, and is not asleep."""
    then, now = ([scrape.total(name, engine=rank) for name in STEPS] for scrape in (before, after))
    return then == now and after.total(SLEEP, engine=rank, sleep_state="awake") != 0


def speculation(facts: Facts, settings: Settings) -> Check:
    """Drafts and their acceptance during the burst."""
    title = "Speculative decoding"
    wanted = settings.serving.engine.speculative
    servers = _bursts(facts)
    if not servers:
        return not_checked("speculation", title, _why_no_burst(facts))
    differences: list[Finding] = []
    published = declared.acceptance(settings)
    drafted = accepted = 0.0
    blind: list[str] = []
    for server in servers:
        burst = server.burst
        assert burst is not None
        if burst.before is None or burst.after is None or not burst.answered:
            blind.append(server.name)
            continue
        there = burst.after.total(DRAFTED) is not None
        if wanted is None:
            if there:
                differences.append(difference(server.name, "speculation", "none", "draft counters at /metrics"))
            continue
        drafts, taken = _grown(burst.before, burst.after, DRAFTED), _grown(burst.before, burst.after, ACCEPTED)
        drafted, accepted = drafted + drafts, accepted + taken
        tokens = f"{wanted.method}, {plural(wanted.num_speculative_tokens, 'draft token')} a step"
        if not there or not drafts:
            found = "no draft in the burst" if there else "no draft counters: speculation is off"
            differences.append(difference(server.name, "speculation", tokens, found))
        elif published is not None and drafts >= FEWEST_DRAFTS and taken / drafts < published - ACCEPTANCE_POINTS:
            differences.append(
                difference(
                    server.name,
                    "acceptance",
                    f"{100 * published:.0f} % as published, {100 * (published - ACCEPTANCE_POINTS):.0f} % at least",
                    f"{100 * taken / drafts:.0f} % of {drafts:,.0f} drafts",
                )
            )
    if blind and not differences:
        return not_checked("speculation", title, f"no counters at /metrics, or no answers, from {', '.join(blind)}")
    if wanted is None:
        return judged("speculation", title, differences, held="none declared, none found")
    if not differences and published is not None and drafted < FEWEST_DRAFTS:
        return not_checked("speculation", title, f"only {drafted:.0f} drafts in the burst, too few for a rate")
    share = 100 * accepted / drafted if drafted else 0.0
    against = (
        f"; the article's {100 * published:.0f} %" if published is not None else "; no published value for this model"
    )
    held = f"{share:.0f} % of {drafted:,.0f} drafts accepted{against}"
    failed = "drafts are missing or mostly rejected"
    return judged("speculation", title, differences, held=held, failed=failed)


def _grown(before: MetricsText, after: MetricsText, name: str, **labels: str) -> float:
    return (after.total(name, **labels) or 0.0) - (before.total(name, **labels) or 0.0)


def transfers(facts: Facts, settings: Settings) -> Check | None:
    """Decode engines fetched the prompts of the burst instead of computing them, and fast; None where every engine reads prompts."""
    title = "Prompts move to decode"
    if settings.server.shape is None:
        return None
    servers, decode = _bursts(facts), {"role": "decode"}
    if not servers:
        return not_checked("transfers", title, _why_no_burst(facts))
    differences: list[Finding] = []
    blind: list[str] = []
    told_of: list[str] = []
    for server in servers:
        name, burst = server.name, server.burst
        assert burst is not None
        before, after = burst.before, burst.after
        if before is None or after is None or not burst.answered:
            blind.append(name)
            continue
        requests = _grown(before, after, FINISHED, **decode)
        computed = _grown(before, after, BY_SOURCE, source="local_compute", **decode)
        moved_, seconds, failed = (_grown(before, after, series, **decode) for series in NIXL[:3])
        if not requests:
            differences.append(difference(name, "requests of decode engines", "1 or more", "none"))
            continue
        if computed > COMPUTED_PER_REQUEST * requests:
            found = f"{computed / requests:.0f}" + (
                f"; {failed:.0f} transfers failed" if failed else "; no transfer failed"
            )
            differences.append(difference(name, "prompt tokens that decode computes, per request", "1", found))
        elif failed:
            differences.append(difference(name, "failed transfers", "none", f"{failed:.0f}"))
        speed = moved_ / seconds / 1e9 if seconds else 0.0
        if seconds and speed < TRANSFER_FLOOR_GB_S:
            wanted = f"{TRANSFER_FLOOR_GB_S} GB/s or more, over NVLink"
            differences.append(difference(name, "bytes by seconds", wanted, f"{speed:.1f} GB/s"))
        told_of.append(f"{requests:.0f} requests, {moved_ / 1e9:.1f} GB at {speed:.1f} GB/s")
    if blind and not differences:
        return not_checked("transfers", title, f"no counters at /metrics, or no answers, from {', '.join(blind)}")
    held = f"decode computed {COMPUTED_PER_REQUEST} prompt tokens of a request at most: {'; '.join(told_of)}"
    failed_ = (
        "a split whose caches do not arrive, or not by NVLink, costs GPUs and gains nothing: docs/prefill-apart.md"
    )
    return judged("transfers", title, differences, held=held, failed=failed_)


def prefix_caching(facts: Facts, settings: Settings) -> Check:
    """The second of two equal prompts is partly served from the cache."""
    title = "Prefix caching"
    server = DeclaredServer(settings)
    if not server.prefix_caching:
        return told("prefix-caching", title, "not declared")
    if declared.prompt_to_hit(settings) is None:
        context = declared.context_tokens(settings)
        block = declared.block_tokens(settings)
        size = "of an unknown size" if block is None else f"{block:,} tokens"
        why = f"no prompt within the {context:,} tokens of context can hit: a block is {size}"
        return not_checked("prefix-caching", title, why)
    twice = facts.twice
    if twice is None:
        return not_checked("prefix-caching", title, nobody(facts) or facts.twice_trouble or _why_no_burst(facts))
    for name, reply in (("first", twice.first), ("second", twice.second)):
        if reply.late:
            # The burst already shows whether the engine hangs.
            return not_checked("prefix-caching", title, f"the {name} of two equal prompts: {reply.summary}")
        if not reply.ok:
            return judged(
                "prefix-caching",
                title,
                [difference(twice.where, f"{name} prompt", "HTTP 200", reply.summary)],
                held="",
                failed=f"a prompt of {twice.prompt_tokens:,} tokens was not answered",
            )
    if twice.before is None or twice.after is None or twice.after.total(HITS) is None:
        return not_checked("prefix-caching", title, "no cache counters at /metrics")
    # Both went to rank 0; if a front end does not pin requests, use the sum.
    ours = 2 * twice.prompt_tokens
    pinned = _grown(twice.before, twice.after, QUERIES, engine="0") >= ours
    labels = {"engine": "0"} if pinned else {}
    hits = _grown(twice.before, twice.after, HITS, **labels)
    # The counters include other users' requests.
    theirs = max(0.0, _grown(twice.before, twice.after, QUERIES, **labels) - ours)
    block = declared.block_tokens(settings) or declared.UNKNOWN_MODELS_BLOCK
    if hits >= block > hits - theirs:
        why = f"other requests queried the same cache for {theirs:,.0f} tokens, so its {hits:,.0f} hits may be theirs"
        return not_checked("prefix-caching", title, why)
    layout = declared.layout(settings)
    expected = block if layout is None else memory.cached_prompt_tokens(layout, twice.prompt_tokens, block_tokens=block)
    differences = (
        []
        if hits >= block
        else [
            difference(
                twice.where,
                "cached tokens of the second prompt",
                f"{expected:,}, {block:,} at least",
                f"{hits:,.0f} of {twice.prompt_tokens:,}",
            )
        ]
    )
    return judged(
        "prefix-caching",
        title,
        differences,
        held=f"{hits:,.0f} of {twice.prompt_tokens:,} tokens of a repeated prompt came from the cache (blocks of {block:,})",
        failed="every request computes its whole prompt, even if it shares a prefix",
    )
