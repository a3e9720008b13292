"""Panels of the dashboard."""

from __future__ import annotations

from collections.abc import Iterator

from facts.names import ROUTER_BACKEND, ROUTER_FRONTEND
from facts.pickers import SERIES
from facts.signals import alerts as limits
from facts.signals import logs
from facts.signals.model import LogSignal, Panel, Query, Watched
from facts.signals.recordings import ACCEPTANCE, OUTPUT, PODS, PREFIX_HITS, USD_PER_HOUR
from facts.signals.series import TPOT, TTFT, Series, has


def panels(watched: Watched) -> Iterator[Panel]:
    """Panels of one fleet, only for features that it has."""
    of = Series(watched)
    yield from _serving(watched, of)
    yield from _fast(watched, of)
    yield from _full(watched, of)
    yield from _fair_and_itself(watched, of)
    yield from _healthy(watched)
    yield from _cost(watched, of)
    if watched.batch:
        yield from _batch(watched)


def _serving(watched: Watched, of: Series) -> Iterator[Panel]:
    yield Panel(
        title="Replicas",
        section="serving",
        unit="{replica}",
        queries=(
            Query(expr=of.declared("kube_deployment_spec_replicas"), legend="declared"),
            Query(expr=of.declared("kube_deployment_status_replicas_available"), legend="available"),
            Query(expr=of.of(PODS), legend="reporting"),
        ),
    )
    running, tokens = of.of("vllm:num_requests_running"), of.of("vllm:generation_tokens_total")
    if watched.engines_per_pod > 1:
        yield Panel(
            title="Engines by pod",
            section="serving",
            unit="{engine}",
            queries=(Query(expr=f"count by (pod) ({running})", legend="{{pod}}"),),
            thresholds=(watched.engines_per_pod,),
        )
    yield Panel(
        title="Output tokens by engine",
        section="serving",
        unit="{token}/s",
        queries=(Query(expr=f"sum by (pod, engine) (rate({tokens}[3m]))", legend="{{pod}} {{engine}}"),),
    )
    finished, answered = (of.rate(series, "5m") for series in ("vllm:request_success_total", "http_requests_total"))
    ends = (
        ("error", of.rate("vllm:request_success_total", "5m", 'finished_reason="error"'), finished),
        ("abort", of.rate("vllm:request_success_total", "5m", 'finished_reason="abort"'), finished),
        ("HTTP 5xx", of.rate("http_requests_total", "5m", 'status="5xx"'), answered),
    )
    yield Panel(
        title="Failed and aborted requests",
        section="serving",
        unit="1",
        queries=tuple(Query(expr=f"{part} / ({all_} > 0)", legend=legend) for legend, part, all_ in ends),
        thresholds=(limits.FAILED_SHARE, limits.ABORTED_SHARE),
    )
    yield Panel(
        title="Requests finished",
        section="serving",
        unit="{request}/s",
        queries=(Query(expr=finished, legend="now"),),
    )
    if watched.routers:
        answered = of.routed("haproxy_frontend_http_responses_total", ROUTER_FRONTEND)
        yield Panel(
            title="Routers",
            section="serving",
            unit="{request}/s",
            queries=(Query(expr=f"sum by (code) (rate({answered}[5m]))", legend="{{code}}"),),
        )
    if watched.gateway:
        yield Panel(
            title="Load balancer",
            section="serving",
            unit="{request}/s",
            queries=(
                Query(
                    expr=f"sum by (response_code_class) (rate({of.balanced()}[5m]))", legend="{{response_code_class}}"
                ),
            ),
        )
    if watched.gateway_pool is not None:
        ours, picker = f'namespace="{watched.namespace}",name="{watched.gateway_pool}"', SERIES[watched.picker]
        yield Panel(
            title="Endpoint picker",
            section="serving",
            unit="1",
            queries=(
                Query(expr=f"max({picker.ready}{{{ours}}})", legend="visible replicas"),
                Query(expr=f"max({picker.queue}{{{ours}}})", legend="mean queue"),
            ),
        )


def _fast(watched: Watched, of: Series) -> Iterator[Panel]:
    budget = 1 - watched.objective
    for what, late, histogram, seconds in (
        ("Time to first token", limits.LATE_TOKENS, TTFT, watched.ttft_seconds),
        ("Time per output token", limits.SLOW_OUTPUT, TPOT, watched.tpot_seconds),
    ):
        yield Panel(
            title=what,
            section="fast",
            unit="s",
            queries=tuple(
                Query(expr=of.quantile(share, histogram), legend=f"p{share:.0%}"[:-1]) for share in (0.5, 0.9, 0.99)
            ),
            thresholds=(seconds,),
        )
        yield Panel(
            title=late,
            section="fast",
            unit="1",
            queries=tuple(
                Query(expr=of.late(histogram, seconds, window), legend=window) for window in ("5m", "1h", "6h")
            ),
            thresholds=(round(6 * budget, 9), round(14.4 * budget, 9)),
        )


def _full(watched: Watched, of: Series) -> Iterator[Panel]:
    reasons: tuple[Query, ...] = ()
    if has(watched.release, "vllm:num_requests_waiting_by_reason"):
        by_reason = of.of("vllm:num_requests_waiting_by_reason")
        reasons = (Query(expr=f"sum by (reason) ({by_reason})", legend="waiting: {{reason}}"),)
    yield Panel(
        title="Requests in flight",
        section="full",
        unit="{request}",
        queries=(Query(expr=of.running, legend="running"), Query(expr=of.waiting, legend="waiting"), *reasons),
    )
    if watched.routers:
        waiting = of.routed("haproxy_backend_current_queue", ROUTER_BACKEND)
        yield Panel(
            title="Waiting in routers",
            section="full",
            unit="{request}",
            queries=(Query(expr=f"sum by (pod) ({waiting})", legend="{{pod}}"),),
            thresholds=(limits.QUEUE_FLOOR,),
        )
    yield Panel(
        title=limits.FULLEST,
        section="full",
        unit="1",
        queries=(Query(expr=f"max by (pod) ({of.of('vllm:kv_cache_usage_perc')})", legend="{{pod}}"),),
        thresholds=(limits.FULL_CACHE,),
    )
    yield Panel(
        title="Preemptions",
        section="full",
        unit="{request}/s",
        queries=(Query(expr=f"sum by (pod) (rate({of.of('vllm:num_preemptions_total')}[5m]))", legend="{{pod}}"),),
        thresholds=(round(watched.engines_per_pod * limits.PREEMPTIONS_PER_ENGINE, 6),),
    )
    if watched.autoscaler is not None:
        yield Panel(
            title="Autoscaler",
            section="full",
            unit="{replica}",
            queries=tuple(
                Query(expr=of.autoscaler(f"kube_horizontalpodautoscaler_{series}_replicas"), legend=legend)
                for series, legend in (("status_desired", "desired"), ("spec_max", "maximum"))
            ),
        )


def _fair_and_itself(watched: Watched, of: Series) -> Iterator[Panel]:
    running = of.of("vllm:num_requests_running")
    if watched.engines_per_pod - watched.prefill_engines > 1:
        each = of.of("vllm:num_requests_running", *of.role("decode"))
        yield Panel(
            title="Busiest engine / mean",
            section="fair",
            unit="1",
            queries=(Query(expr=f"max by (pod) ({each}) / (avg by (pod) ({each}) > 0)", legend="{{pod}}"),),
            thresholds=(limits.unequal(watched),),
        )
    if watched.max_replicas != 1:
        yield Panel(
            title="Requests by pod",
            section="fair",
            unit="{request}",
            queries=(Query(expr=f"sum by (pod) ({running})", legend="{{pod}}"),),
        )
    for there, title, series in (
        (watched.speculative, "Accepted drafts", ACCEPTANCE),
        (watched.prefix_caching, "Prefix cache hits", PREFIX_HITS),
    ):
        if there:
            yield Panel(title=title, section="itself", unit="1", queries=(Query(expr=of.of(series), legend="share"),))
    if watched.is_apart:
        yield from _apart(of)
    yield Panel(
        title="Tokens",
        section="itself",
        unit="{token}/s",
        queries=(
            Query(expr=of.of("fleet:total_tokens:rate"), legend="in and out"),
            Query(expr=of.of("fleet:output_tokens:rate"), legend="out"),
        ),
    )


def _apart(of: Series) -> Iterator[Panel]:
    yield Panel(
        title=limits.COMPUTED,
        section="itself",
        unit="{token}",
        queries=(Query(expr=of.computed_per_request, legend="{{pod}}"),),
        thresholds=(limits.COMPUTED_PER_REQUEST,),
    )
    yield Panel(
        title=limits.TRANSFERRED,
        section="itself",
        unit="By/s",
        queries=(Query(expr=of.transferred_per_second, legend="{{pod}}"),),
        thresholds=(limits.TRANSFER_FLOOR_GB_S * 10**9,),
    )
    failed, expired = (of.rate(f"vllm:nixl_num_{kind}_total", "5m") for kind in ("failed_transfers", "kv_expired_reqs"))
    yield Panel(
        title="Caches that did not arrive",
        section="itself",
        unit="1/s",
        queries=(Query(expr=failed, legend="failed"), Query(expr=expired, legend="not fetched in time")),
    )


def _healthy(watched: Watched) -> Iterator[Panel]:
    yield Panel(
        title="Restarts",
        section="healthy",
        unit="1",
        queries=(Query(expr=f"sum by (pod_name) (increase({limits.restarts(watched)}[30m]))", legend="{{pod_name}}"),),
    )
    yield Panel(
        title="Pending pods",
        section="healthy",
        unit="{pod}",
        queries=(Query(expr=f"sum({limits.pending(watched)})", legend="pending"),),
    )
    waits = limits.waiting_containers(watched, "|".join(("CrashLoopBackOff", *limits.CANNOT_START)))
    yield Panel(
        title="Waiting containers",
        section="healthy",
        unit="{container}",
        queries=(Query(expr=f"sum by (reason) ({waits})", legend="{{reason}}"),),
    )
    events = [Query(expr=_new(logs.stock_outs(watched)), legend="scale-up failures")]
    if watched.spot:
        events.append(Query(expr=_new(logs.preemptions(watched)), legend="Spot preemptions"))
    yield Panel(title="Scale-up failures and preemptions", section="healthy", unit="1", queries=tuple(events))
    of = Series(watched)
    yield Panel(
        title=limits.HOTTEST,
        section="healthy",
        unit="Cel",
        queries=(Query(expr=f"max by (Hostname) {of.gpus('DCGM_FI_DEV_GPU_TEMP')}", legend="{{Hostname}}"),),
        thresholds=(limits.HOT_CELSIUS,),
    )
    yield Panel(
        title="GPU activity",
        section="healthy",
        unit="1",
        queries=(Query(expr=f"avg by (Hostname) {of.gpus('DCGM_FI_PROF_SM_ACTIVE')}", legend="{{Hostname}}"),),
    )


def _cost(watched: Watched, of: Series) -> Iterator[Panel]:
    if watched.node_usd_per_hour is not None:
        spent, what = (
            of.of(USD_PER_HOUR),
            "reporting replicas, or the idle reservation" if watched.ladder else "reporting replicas",
        )
        output, match = f"({of.of(OUTPUT)} * 3600 / 1e6 > 0)", "on (app, namespace) "
        if watched.priced_by_guard:
            spent, what = _mean(logs.spending_rate(watched)), "machines, as the spend guard counts them"
            output, match = f"(sum({of.of(OUTPUT)}) * 3600 / 1e6 > 0)", ""
        yield Panel(
            title=limits.usd_per_hour_panel(watched),
            section="cost",
            unit="USD/h",
            queries=(Query(expr=spent, legend=what),),
        )
        planned = watched.planned_usd_per_million_output
        yield Panel(
            title="USD per million output tokens",
            section="cost",
            unit="USD",
            queries=(Query(expr=f"{spent} / {match}{output}", legend="now"),),
            thresholds=() if planned is None else (round(planned, 6), round(limits.DEAR * planned, 6)),
        )
    if watched.spending:
        signal = logs.spending(watched)
        yield Panel(
            title="Spend guard",
            section="cost",
            unit="1",
            queries=(Query(expr=f"sum by (step) (increase({signal.series()}[1h]))", legend="{{step}}"),),
        )


def _batch(watched: Watched) -> Iterator[Panel]:
    yield Panel(
        title=limits.BATCH,
        section="serving",
        unit="{document}/s",
        queries=(Query(expr=_mean(logs.batch_rate(watched)), legend="of the batch"),),
    )
    yield Panel(
        title=limits.BATCH_USD,
        section="cost",
        unit="USD",
        queries=(Query(expr=_mean(logs.batch_usd(watched)), legend="by its own estimate"),),
    )


def _mean(signal: LogSignal) -> str:
    """The mean of a number that a log has every minute."""
    total, entries = (f"sum(rate({series}[10m]))" for series in (signal.part("_sum"), signal.part("_count")))
    return f"{total} / ({entries} > 0)"


def _new(signal: LogSignal) -> str:
    return f"sum(increase({signal.series()}[10m]))"
