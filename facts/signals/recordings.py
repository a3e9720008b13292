"""Recorded series for dashboards and long windows. Recorded names must not change."""

from __future__ import annotations

from collections.abc import Iterator

from facts.names import ROUTER_APP
from facts.signals.model import Recording, Watched
from facts.signals.series import Series

OUTPUT = "fleet:output_tokens:rate"
PODS = "fleet:pods:count"
USD_PER_HOUR = "fleet:usd_per_hour:sum"
ACCEPTANCE = "fleet:draft_acceptance:ratio"
PREFIX_HITS = "fleet:prefix_cache_hits:ratio"
SERVED = "fleet:served:bool"
"""1 once a replica was available: it reads itself, so no window ends it. Forgotten an hour after the Deployment's end."""

DECLARED = "fleet:declared_replicas:last"
"""Declared replicas of the servers and of the routers, by Deployment: it reads itself, so a deleted one keeps its number."""


def recordings(watched: Watched) -> Iterator[Recording]:
    """Recordings of one fleet. The window is four scrapes, so that a missed scrape leaves no gap."""
    of, window = Series(watched), f"{4 * watched.interval_seconds}s"
    # Apart, prefill counts each prompt too, and one token of each answer.
    decode = of.role("decode")
    prompts, output = (of.rate(f"vllm:{kind}_tokens_total", window, *decode) for kind in ("prompt", "generation"))
    yield Recording(name="fleet:total_tokens:rate", expr=f"{prompts} + {output}")
    yield Recording(name=OUTPUT, expr=output)
    cache = of.of("vllm:kv_cache_usage_perc")
    yield Recording(name="fleet:kv_cache_usage:max", expr=f"max({cache})")
    yield Recording(name="fleet:requests_running:sum", expr=of.running)
    yield Recording(name="fleet:requests_waiting:sum", expr=of.waiting)
    preempted = of.rate("vllm:num_preemptions_total", window)
    yield Recording(name="fleet:preemptions:rate", expr=preempted)
    if watched.speculative:
        accepted, drafted = (f"vllm:spec_decode_num_{kind}_tokens_total" for kind in ("accepted", "draft"))
        yield Recording(name=ACCEPTANCE, expr=of.ratio(accepted, drafted, window))
    if watched.prefix_caching:
        hits, queries = (f"vllm:prefix_cache_{kind}_total" for kind in ("hits", "queries"))
        yield Recording(name=PREFIX_HITS, expr=of.ratio(hits, queries, window))
    yield Recording(name=PODS, expr=of.pods)
    available = of.declared("kube_deployment_status_replicas_available")
    before = f"max_over_time({of.of(SERVED)}[1h])"
    yield Recording(name=SERVED, expr=f"max({before} or {available} > bool 0) and {available}")
    which = f'deployment=~"{watched.server}{f"|{ROUTER_APP}" if watched.routers else ""}"'
    declared = f'kube_deployment_spec_replicas{{namespace="{watched.namespace}",{which}}}'
    last = f"max by (deployment) (last_over_time({of.of(DECLARED, which)}[1h]))"
    yield Recording(name=DECLARED, expr=f"sum by (deployment) ({declared}) or {last}")
    if (price := watched.price) is not None:
        spent = f"{price.per_node / price.pods_per_node:.6g} * {of.pods}"
        floor = f"clamp_min({spent}, {price.reserved:.6g})" if price.reserved else spent
        yield Recording(name=USD_PER_HOUR, expr=floor)
