"""Panels of the dashboard."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from facts.names import ROUTER_BACKEND, ROUTER_FRONTEND
from facts.pickers import SERIES
from facts.signals import alerts as limits
from facts.signals import logs
from facts.signals.model import PANELS, LogSignal, Panel, Query, Watched
from facts.signals.recordings import ACCEPTANCE, OUTPUT, PODS, PREFIX_HITS, USD_PER_HOUR
from facts.signals.series import TPOT, TTFT, Series, has

Lines = tuple[tuple[str, str], ...]
"""Expression and legend of each line."""


def panels(watched: Watched) -> Iterator[Panel]:
    """Panels of one fleet, only for features that it has."""
    drawn = _panels(watched, Series(watched))
    for title in PANELS:
        unit, lines, *thresholds = drawn[title]
        if lines:
            queries = tuple(Query(expr=expr, legend=legend) for expr, legend in lines)
            yield Panel(title=title, unit=unit, queries=queries, thresholds=tuple(thresholds))


def _panels(watched: Watched, of: Series) -> Mapping[str, tuple[str, Lines, *tuple[float, ...]]]:
    """Unit, lines and thresholds by title."""
    tokens = of.of("vllm:generation_tokens_total")
    engines = ((f"sum by (pod, engine) (rate({tokens}[3m]))", "{{pod}} {{engine}}"),)
    totals = ((of.of("fleet:total_tokens:rate"), "in and out"), (of.of(OUTPUT), "out"))
    busy = ((f"avg by (Hostname) {of.gpus('DCGM_FI_PROF_SM_ACTIVE')}", "{{Hostname}}"),)
    ended = f"sum(rate({logs.batch_documents(watched).part('_sum')}[10m]))"
    documents = ((ended, "of the batch"),) if watched.batch else ()
    planned = watched.price.planned_per_million if watched.price else None
    dear: tuple[float, ...] = () if planned is None else (round(planned, 6), round(limits.DEAR * planned, 6))
    return {
        "Replicas": ("{replica}", _replicas(watched, of)),
        "Output tokens by engine": ("{token}/s", engines),
        "Failed and aborted requests": ("1", _ends(of), limits.FAILED_SHARE),
        "In front of the servers": ("{request}/s", _front(watched, of)),
        "Documents a second": ("{document}/s", documents),
        "Time to first token": ("s", _quantiles(of, TTFT), watched.ttft_seconds),
        "Time per output token": ("s", _quantiles(of, TPOT), watched.tpot_seconds),
        "Requests in flight": ("{request}", _in_flight(watched, of)),
        "Cache, drafts, prefix hits": ("1", _shares(watched, of)),
        "Tokens": ("{token}/s", totals),
        "Pods that do not serve": ("1", _troubles(watched)),
        "GPU activity": ("1", busy),
        "USD an hour": ("USD/h", _usd_per_hour(watched, of)),
        "USD per million output tokens": ("USD", _usd_per_million(watched, of), *dear),
    }


def _replicas(watched: Watched, of: Series) -> Lines:
    lines = [
        (of.declared("kube_deployment_spec_replicas"), "declared"),
        (of.declared("kube_deployment_status_replicas_available"), "available"),
        (of.of(PODS), "reporting"),
    ]
    if watched.autoscaler is not None:
        for series, legend in (("status_desired", "desired"), ("spec_max", "maximum")):
            lines.append((of.autoscaler(f"kube_horizontalpodautoscaler_{series}_replicas"), legend))
    if watched.gateway is not None and watched.gateway.pool is not None:
        ready = SERIES[watched.gateway.picker].ready
        visible = f'max({ready}{{namespace="{watched.namespace}",name="{watched.gateway.pool}"}})'
        lines.append((visible, "visible to the picker"))
    return tuple(lines)


def _ends(of: Series) -> Lines:
    finished, answered = (of.rate(series, "5m") for series in ("vllm:request_success_total", "http_requests_total"))
    ends = (
        (of.rate("vllm:request_success_total", "5m", 'finished_reason="error"'), finished, "error"),
        (of.rate("vllm:request_success_total", "5m", 'finished_reason="abort"'), finished, "abort"),
        (of.rate("http_requests_total", "5m", 'status="5xx"'), answered, "HTTP 5xx"),
    )
    return tuple((f"{part} / ({every} > 0)", legend) for part, every, legend in ends)


def _front(watched: Watched, of: Series) -> Lines:
    lines = []
    if watched.gateway is not None:
        lines.append((f"sum by (response_code_class) (rate({of.balanced()}[5m]))", "{{response_code_class}}"))
    if watched.routers:
        answered = of.routed("haproxy_frontend_http_responses_total", ROUTER_FRONTEND)
        lines.append((f"sum by (code) (rate({answered}[5m]))", "routers {{code}}"))
    return tuple(lines)


def _quantiles(of: Series, histogram: str) -> Lines:
    return tuple((of.quantile(share, histogram), f"p{share:.0%}"[:-1]) for share in (0.5, 0.9, 0.99))


def _in_flight(watched: Watched, of: Series) -> Lines:
    lines = [(of.running, "running"), (of.waiting, "waiting")]
    if has(watched.release, "vllm:num_requests_waiting_by_reason"):
        by_reason = of.of("vllm:num_requests_waiting_by_reason")
        lines.append((f"sum by (reason) ({by_reason})", "waiting: {{reason}}"))
    if watched.routers:
        waiting = of.routed("haproxy_backend_current_queue", ROUTER_BACKEND)
        lines.append((f"sum({waiting})", "waiting in routers"))
    return tuple(lines)


def _shares(watched: Watched, of: Series) -> Lines:
    lines = [(f"max({of.of('vllm:kv_cache_usage_perc')})", "KV cache of the fullest engine")]
    if watched.speculative:
        lines.append((of.of(ACCEPTANCE), "accepted drafts"))
    if watched.prefix_caching:
        lines.append((of.of(PREFIX_HITS), "prefix cache hits"))
    if watched.prefill_engines:
        by_source, decode = "vllm:prompt_tokens_by_source_total", of.role("decode")
        computed = of.rate(by_source, "5m", *decode, 'source="local_compute"')
        lines.append((f"{computed} / ({of.rate(by_source, '5m', *decode)} > 0)", "prompt tokens that decode computes"))
    return tuple(lines)


def _troubles(watched: Watched) -> Lines:
    waits = limits.waiting_containers(watched, "|".join(("CrashLoopBackOff", *limits.CANNOT_START)))
    return (
        (f"sum({limits.pending(watched)})", "pending"),
        (f"sum by (reason) ({waits})", "{{reason}}"),
        (f"sum(increase({limits.restarts(watched)}[30m]))", "restarts"),
        (f"sum(increase({logs.stock_outs(watched).series()}[10m]))", "failed scale-ups"),
    )


def _usd_per_hour(watched: Watched, of: Series) -> Lines:
    price = watched.price
    if price is None:
        return ()
    if price.by_guard:
        return ((_mean(logs.spending_rate(watched)), "machines, as the spend guard counts them"),)
    priority = ", at the price of the dearest priority" if price.is_upper_bound else ""
    idle = ", or the idle reservation" if price.reserved else ""
    return ((of.of(USD_PER_HOUR), f"reporting replicas{priority}{idle}"),)


def _usd_per_million(watched: Watched, of: Series) -> Lines:
    if watched.price is None:
        return ()
    [(spent, _)] = _usd_per_hour(watched, of)
    if watched.price.by_guard:
        return ((f"{spent} / (sum({of.of(OUTPUT)}) * 3600 / 1e6 > 0)", "now"),)
    return ((f"{spent} / on (app, namespace) ({of.of(OUTPUT)} * 3600 / 1e6 > 0)", "now"),)


def _mean(signal: LogSignal) -> str:
    """The mean of a number that a log has every minute."""
    total, entries = (f"sum(rate({series}[10m]))" for series in (signal.part("_sum"), signal.part("_count")))
    return f"{total} / ({entries} > 0)"
