"""Alerts. Pages mean that users are affected; causes and costs are tickets.

Conventions: a ratio needs a minimum of requests, no divisor is zero, absence is evaluated per pod or against the declared replicas,
look-back plus `for` is at most 25 hours (Cloud Monitoring docs, "Alerting policies with PromQL"), and expressions are valid for
Prometheus 2.44. Windows and factors of burn rates: kubernetes-mixin, config.libsonnet.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from facts.capacity import MAX_GRACE_SECONDS
from facts.names import ROUTER_APP, ROUTER_BACKEND, ROUTER_FRONTEND, spending_namespace
from facts.pickers import SERIES
from facts.signals import logs
from facts.signals.model import Alert, Severity, Watched
from facts.signals.recordings import DECLARED, OUTPUT, SERVED, USD_PER_HOUR
from facts.signals.series import REQUESTS_FLOOR, TPOT, TTFT, Series

FAILED_SHARE: Final = 0.05
"""Of requests. Source: gateway-api-inference-extension, tools/alerts/alert.yaml."""
STALLED_MINUTES: Final = 3
"""Minutes without a step. Assumed: a kernel that is compiled in service takes less (30 to 70 s, ai-dynamo/dynamo#14735)."""
UNSEEN_MINUTES: Final = 10
"""In which a new replica is scraped. Assumed."""
QUEUE_SHARE: Final = 0.2
"""Waiting requests, as a share of running ones."""
QUEUE_FLOOR: Final = 10
"""Waiting requests that are ignored."""
SERVING_SHARE: Final = 0.9
"""Minimum share of declared replicas: one missing of twelve does not page, one of four does. Assumed."""
TRAFFIC_LEFT: Final = 0.1
"""Share of the requests of a day before: Saturdays and nights have more. Assumed."""
TRAFFIC_FLOOR: Final = 1
"""Requests a second of the day before, below which missing traffic is not evaluated. Assumed."""
CANNOT_START: Final = ("ImagePullBackOff", "InvalidImageName", "CreateContainerConfigError", "CreateContainerError")
"""Reasons of a waiting container that waiting does not end. Source: kubelet, pkg/kubelet/images and kuberuntime. Without ErrImagePull,
which turns into ImagePullBackOff."""
LOOPS: Final = 3
"""Restarts of one pod within `LOOP_HOURS` that are a loop. Assumed: one crash a day is no loop. A rate's extrapolation may give a little
less than the whole number."""
LOOP_HOURS: Final = 6
FELL_TO: Final = 0.8
"""Share of the value of the day before."""
COMPUTED_PER_REQUEST: Final = 8
"""Prompt tokens that a decode engine computes itself per request. One is right, a prompt whose transfer fails counts in full. Measured:
exactly one (vLLM 0.33.0 on H200). Assumed: more than a failure in a hundred of the article's prompts is worth a ticket."""
TRANSFER_FLOOR_GB_S: Final = 2
"""Bytes by seconds of the transfers. Measured: 6.7 to 60 over NVLink, 0.5 over TCP (facts/data/disaggregation.yaml)."""
DRAFTS: Final = ("vllm:spec_decode_num_accepted_tokens_total", "vllm:spec_decode_num_draft_tokens_total")
PREFIXES: Final = ("vllm:prefix_cache_hits_total", "vllm:prefix_cache_queries_total")
"""Counters of what a speedup saved, and of what it could have."""
DRAFTS_FLOOR: Final = 10
"""Draft or prompt tokens a second below which ratios are not evaluated."""
DEAR: Final = 2
"""Multiple of the planned price of a token."""
HOUR: Final = 3600
UNWATCHED_SECONDS: Final = 900
"""Time to replace the guard's node; it then counts the gap in full."""
BLIND_WINDOW: Final = "25m"
"""Of the guard's entries `blind`, longer than `UNWATCHED_SECONDS`: one entry is enough."""
AFTER_PAUSE_MINUTES: Final = 8
"""From the guard's last entry `paused`: it writes every five minutes, and Cloud Logging counts within two or three (assumed)."""
OF_USERS: Final = frozenset({"FirstTokenSlow", "FirstTokenBudget", "OutputSlow", "Backlog"})
"""Alerts about what a batch does on purpose: it fills each server up to its queue, and waits for all of them."""


RARELY: Final = frozenset({"FirstTokenBudget", "SpeedupLost", "GpusIdle"})
"""Evaluated every five minutes: they look at hours."""
_FAILING: Final = f"more than {FAILED_SHARE:.0%} of requests"
_SUMMARIES: Final[Mapping[str, str]] = {
    "NothingServes": "{server}: no replica is available, and one served before; or requests stopped",
    "ReplicasMissing": "{server}: declared replicas have been missing for longer than a start takes",
    "EngineStalled": "{server}: an engine has requests but takes no step, or is not seen",
    "RequestsFail": f"{{server}}: {_FAILING} fail",
    "RoutersGone": f"{{server}}: no router is available, they see no replica, or they fail {_FAILING}",
    "PickerFails": f"{{server}}: the gateway's endpoint picker sees no replica or fails {_FAILING}",
    "BalancerFails": f"{{server}}: the gateway's load balancer answers {_FAILING} with HTTP 5xx",
    "FirstTokenSlow": "{server}: first tokens take longer than {ttft:g} s, and the error budget of {budget:.1%} burns fast",
    "FirstTokenBudget": "{server}: first tokens take longer than {ttft:g} s, and the error budget of {budget:.1%} lasts ten days "
    "at this rate",
    "OutputSlow": "{server}: output tokens take longer than {tpot:g} ms, and the error budget of {budget:.1%} burns fast",
    "Backlog": f"{{server}}: requests queue, more than {QUEUE_SHARE:.0%} of the running ones",
    "ScalingBlind": "{server}: the autoscaler has no metric",
    "SpeedupLost": "{server}: drafts, prefix cache or caches from prefill save less than they did",
    "CrashLoop": "{server}: vLLM in a pod ends again and again",
    "CannotStart": "{server}: a pod has an image or a setting that it cannot start with",
    "PodLate": "{server}: a pod has been Pending for longer than a node and its image take",
    "StockOut": "{server}: Google Cloud has no node for a pod of its cluster, and a pod of the server waits",
    "GpuFault": "{server}: a GPU of its cluster reported an Xid error",
    "GpusIdle": "{server}: no request for {idle} hours{at}",
    "SpendingPaused": "Stack {stack} is paused: its spending limit is reached",
    "SpendingOver": "Stack {stack} passed a step of its spending limit{over}",
    "SpendingUnwatched": "Stack {stack} {lacks}: its spend guard is not running, or cannot count or pause",
    "BatchStalled": "{server}: a batch stands still, fails, or cannot reach its bucket",
    "BatchLimit": "{server}: a batch stopped before its end: its maxUsd or deadline is reached",
}


def alerts(watched: Watched) -> Iterator[Alert]:
    """Alerts of one fleet, only for features that it has. A fleet that serves only batches has no pages: no user waits for it."""
    words = _words(watched)
    for name, severity, seconds, panel, expr in _rows(watched, Series(watched)):
        if expr and not (watched.only_batches and name in OF_USERS):
            yield Alert(
                name=name,
                expr=expr,
                for_seconds=seconds,
                severity="ticket" if watched.only_batches else severity,
                panel=panel,
                summary=_SUMMARIES[name].format(**words),
                every_seconds=300 if name in RARELY else 60,
            )


def _rows(watched: Watched, of: Series) -> tuple[tuple[str, Severity, int, str, str], ...]:
    """Name, severity, seconds for which it must hold, panel, and expression, empty where the fleet has no such feature."""
    pauses = watched.spending == "pause"
    # A guard that only warns leaves the users as they are.
    guard: Severity = "page" if pauses else "ticket"
    front, healthy = "In front of the servers", "Pods that do not serve"
    cost = "Replicas" if watched.price is None else "USD an hour"
    ttft, tpot = (TTFT, watched.ttft_seconds), (TPOT, watched.tpot_seconds)
    return (
        # The guard's log entry is counted a minute or two after its pause.
        ("NothingServes", "page", 180 if pauses else 60, "Replicas", _nothing_serves(watched, of)),
        ("ReplicasMissing", "page", watched.start_seconds, "Replicas", _replicas_missing(watched, of)),
        ("EngineStalled", "page", 120, "Output tokens by engine", _engine_stalled(watched, of)),
        ("RequestsFail", "page", 120, "Failed and aborted requests", _requests_fail(of)),
        ("RoutersGone", "page", 180, front, _routers_gone(watched, of) if watched.routers else ""),
        ("PickerFails", "page", 180, front, _picker_fails(watched, of)),
        ("BalancerFails", "page", 180, front, _balancer_fails(watched, of) if watched.gateway else ""),
        ("FirstTokenSlow", "page", 120, "Time to first token", _burns_fast(of, *ttft)),
        ("FirstTokenBudget", "ticket", 1800, "Time to first token", _burns(of, *ttft, 3, "1d", "2h")),
        ("OutputSlow", "page", 120, "Time per output token", _burns_fast(of, *tpot)),
        ("Backlog", "page", 300, "Requests in flight", _backlog(watched, of)),
        # The fallback removes no replica: users wait only if the load grows, and Backlog pages then.
        ("ScalingBlind", "ticket", 300, "Replicas", _scaling_blind(watched, of) if watched.autoscaler else ""),
        ("SpeedupLost", "ticket", 1800, "Cache, drafts, prefix hits", _speedup_lost(watched, of)),
        ("CrashLoop", "ticket", 120, healthy, _crash_loop(watched)),
        ("CannotStart", "ticket", 300, healthy, _cannot_start(watched)),
        ("PodLate", "ticket", watched.node_seconds, healthy, f"sum by (pod) ({pending(watched)}) > 0"),
        ("StockOut", "ticket", 0, healthy, _stock_out(watched)),
        ("GpuFault", "ticket", 0, "GPU activity", _entries(logs.gpu_faults(watched).series(), by="node")),
        ("GpusIdle", "ticket", HOUR, cost, _gpus_idle(watched, of)),
        ("SpendingPaused", "page", 0, cost, _entries(_guard(watched, "paused")) if pauses else ""),
        ("SpendingOver", "ticket", 0, cost, _spending_over(watched) if watched.spending else ""),
        ("SpendingUnwatched", guard, UNWATCHED_SECONDS, cost, _spending_unwatched(watched, of)),
        ("BatchStalled", "ticket", 0, "Documents a second", _batch(watched, "stalled", "failing", "blind")),
        ("BatchLimit", "ticket", 0, "Documents a second", _batch(watched, "limit")),
    )


def _words(watched: Watched) -> dict[str, object]:
    """What the summaries name."""
    price, at = watched.price, ""
    if price is not None:
        at = f", {'at most' if price.is_upper_bound else 'at'} ${price.per_node:g} an hour per node"
    if price is not None and price.planned_per_million is not None:
        at += f"; or a day's output tokens cost more than {DEAR} times the planned ${price.planned_per_million:.4g} a million"
    warns = watched.spending == "warn"
    return {
        "server": watched.server,
        "stack": watched.stack,
        "ttft": watched.ttft_seconds,
        "tpot": watched.tpot_seconds * 1000,
        "budget": 1 - watched.objective,
        "idle": watched.idle_hours + 1,
        "at": at,
        "over": ", or is over it, and nothing pauses it" if warns else "",
        "lacks": "is not warned about its spending" if warns else "has no spending limit in force",
    }


def _any(*exprs: str) -> str:
    return " or ".join(filter(None, exprs))


def _available(of: Series) -> str:
    return of.declared("kube_deployment_status_replicas_available")


def _wanted(watched: Watched, of: Series) -> str:
    """Declared replicas; a fleet resumed within the hour gets the time of a start."""
    return of.declared("kube_deployment_spec_replicas", f"min_over_time({{}}[{watched.start_seconds // 60}m])")


def _unless_paused(watched: Watched) -> str:
    """Unless the guard pauses the fleet, or did until so recently that its replicas still start; SpendingPaused alone reports that.

    Read from its log: GKE's package of kube-state-metrics has no series of quotas.
    """
    if watched.spending != "pause":
        return ""
    window = f"{watched.start_seconds // 60 + AFTER_PAUSE_MINUTES}m"
    return f" unless on () ({_entries(_guard(watched, 'paused'), window)})"


def _expected(watched: Watched, of: Series) -> str:
    """Replicas have been declared for the time of a start, and one served before."""
    return f"{_wanted(watched, of)} > 0 and max(last_over_time({of.of(SERVED)}[1h])) > 0"


def _meant(watched: Watched, of: Series) -> str:
    """That the fleet is meant to serve: otherwise nothing in front of it finds a server, and every client gets HTTP 503."""
    return f"{_expected(watched, of)}{_unless_paused(watched)}"


def _nothing_serves(watched: Watched, of: Series) -> str:
    # Traffic of the day before and of the last hours, none now: a name, a certificate or a client broke, and no server sees it.
    now, before = (of.of("vllm:request_success_total"), f"{TRAFFIC_LEFT:g} * (sum(rate({{}})) > {TRAFFIC_FLOOR:g})")
    yesterday, lately = (before.format(f"{now}[{window}") for window in ("30m] offset 1d", "4h] offset 15m"))
    finished = f"sum(rate({now}[15m]))"
    stopped = "" if watched.only_batches else f"{finished} < {yesterday} and {finished} < {lately}"
    # With its Deployment go its series; without those of its engines, too, only the collector is gone.
    deleted = f"{_deleted(_available(of), of, watched.server)} > 0 unless {of.pods}"
    gone = f"({_any(f'{_available(of)} == 0', stopped)}) and {_expected(watched, of)}"
    return f"({_any(gone, deleted)}){_unless_paused(watched)}"


def _replicas_missing(watched: Watched, of: Series) -> str:
    # A progressing rolling update has one replica missing. A step begins with an updated pod, and each begins `for` anew: it may take a
    # slow start, and before that the grace period of the pod that it replaces.
    changes = f"changes({{}}[{MAX_GRACE_SECONDS // 60}m])"
    moving = f"({of.declared('kube_deployment_status_replicas_updated', changes)} > bool 0 or vector(0))"
    return f"{_available(of)} + {moving} < {SERVING_SHARE:g} * {_wanted(watched, of)}{_unless_paused(watched)}"


def _engine_stalled(watched: Watched, of: Series) -> str:
    # A long prompt that is read in chunks returns no token, but its cache grows.
    tokens, cache = of.of("vllm:generation_tokens_total"), of.of("vllm:kv_cache_usage_perc")
    window = f"[{STALLED_MINUTES}m]"
    # Only engines that are still scraped: series of a deleted pod last five more minutes, with requests and no tokens.
    scraped = f"[{4 * watched.interval_seconds}s]"
    busy = " + ".join(
        f"sum by (pod, engine) (last_over_time({of.of(f'vllm:num_requests_{state}')}{scraped}))"
        for state in ("running", "waiting")
    )
    stalled = (
        f"({busy}) > 0 and sum by (pod, engine) (increase({tokens}{window})) == 0"
        f" unless sum by (pod, engine) (changes({cache}{window})) > 0"
    )
    running, engines = of.of("vllm:num_requests_running"), watched.engines_per_pod
    lost = f"count by (pod) ({running}) < {engines}" if engines > 1 else ""
    # No other alert covers a replica that is not scraped.
    settled = of.declared("kube_deployment_status_replicas_available", f"min_over_time({{}}[{UNSEEN_MINUTES}m])")
    return _any(stalled, lost, f"{settled} > ({of.pods} or vector(0))")


def _requests_fail(of: Series) -> str:
    finished = of.rate("vllm:request_success_total", "5m")
    errors = of.rate("vllm:request_success_total", "5m", 'finished_reason="error"')
    answered = of.rate("http_requests_total", "5m")
    refused = of.rate("http_requests_total", "5m", 'status="5xx"')
    return _any(_above(errors, finished), _above(refused, answered))


def _above(failed: str, every: str) -> str:
    """Too many requests fail, of enough to tell."""
    return f"{failed} / ({every} > {REQUESTS_FLOOR:g}) > {FAILED_SHARE:g}"


def _routers_gone(watched: Watched, of: Series) -> str:
    failed, every = (
        f"sum(rate({of.routed('haproxy_frontend_http_responses_total', ROUTER_FRONTEND, *matchers)}[5m]))"
        for matchers in (('code="5xx"',), ())
    )
    chosen_from = of.routed("haproxy_backend_active_servers", ROUTER_BACKEND)
    ready = _ready(watched.namespace, ROUTER_APP)
    away = _any(f"{ready} == 0", _deleted(ready, of, ROUTER_APP))
    gone = _any(away, f"max({chosen_from}) == 0", _above(failed, every))
    return f"({gone}) and on () ({_meant(watched, of)})"


def _picker_fails(watched: Watched, of: Series) -> str:
    front = watched.gateway
    if front is None or front.pool is None:
        return ""
    ours, picker = f'namespace="{watched.namespace}"', SERIES[front.picker]
    # A single value without a regular expression: the article's stack keeps its rule.
    others = "!~" if "|" in picker.clients_errors else "!="
    asked = f"sum(rate({picker.requests}{{{ours}}}[5m]))"
    failed = f'sum(rate({picker.errors}{{{ours},error_code{others}"{picker.clients_errors}"}}[5m]))'
    sees_none = f'max({picker.ready}{{{ours},name="{front.pool}"}}) == 0'
    return f"({_any(sees_none, _above(failed, asked))}) and {_meant(watched, of)}"


def _balancer_fails(watched: Watched, of: Series) -> str:
    failed, every = (f"sum(rate({of.balanced(*matchers)}[5m]))" for matchers in (('response_code_class="500"',), ()))
    return f"{_above(failed, every)} and {_meant(watched, of)}"


def _burns(of: Series, histogram: str, seconds: float, factor: float, *windows: str) -> str:
    late = (of.late(histogram, seconds, window) for window in windows)
    return " and ".join(f"{one} > {factor * (1 - of.watched.objective):.6g}" for one in late)


def _burns_fast(of: Series, histogram: str, seconds: float) -> str:
    return _any(_burns(of, histogram, seconds, 14.4, "1h", "5m"), _burns(of, histogram, seconds, 6, "6h", "30m"))


def _backlog(watched: Watched, of: Series) -> str:
    in_routers = of.routed("haproxy_backend_current_queue", ROUTER_BACKEND)
    return _any(
        f"{of.waiting} > {QUEUE_SHARE:g} * {of.running} and {of.waiting} > {QUEUE_FLOOR}",
        f"sum({in_routers}) > {QUEUE_FLOOR}" if watched.routers else "",
    )


def _scaling_blind(watched: Watched, of: Series) -> str:
    condition = "kube_horizontalpodautoscaler_status_condition"
    inactive = of.autoscaler(condition, 'condition="ScalingActive"', 'status="false"')
    blind = f"(sum({inactive}) == 1 or {_entries(logs.fallbacks(watched).series())})"
    # A fleet that starts or resumes has no series yet, which KEDA logs at each poll.
    serves = of.declared("kube_deployment_status_replicas_available", "min_over_time({}[15m])")
    return f"{blind} and on () {serves} > 0"


def _speedup_lost(watched: Watched, of: Series) -> str:
    def fell(above: str, below: str) -> str:
        now = of.ratio(above, below, "15m", floor=DRAFTS_FLOOR)
        # Eighteen hours, ending four hours ago: detects a slow decline within the look-back of 25 hours.
        before = " / ".join(f"sum(rate({of.of(counter)}[18h] offset 4h))" for counter in (above, below))
        return f"{now} < {FELL_TO:g} * {before}"

    return _any(
        fell(*DRAFTS) if watched.speculative else "",
        fell(*PREFIXES) if watched.prefix_caching else "",
        f"{of.computed_per_request} > {COMPUTED_PER_REQUEST}" if watched.prefill_engines else "",
        f"{of.transferred_per_second} < {TRANSFER_FLOOR_GB_S * 10**9}" if watched.prefill_engines else "",
    )


def restarts(watched: Watched) -> str:
    """Restarts of vLLM's container."""
    ours = f'namespace_name="{watched.namespace}",{Series(watched).own("pod_name")},container_name="vllm"'
    return f'kubernetes_io:container_restart_count{{monitored_resource="k8s_container",{ours}}}'


def pending(watched: Watched) -> str:
    """The fleet's pods without a node or an image."""
    return f'kube_pod_status_phase{{{_its_pods(watched)},phase="Pending"}}'


def waiting_containers(watched: Watched, reasons: str) -> str:
    """The fleet's containers that wait for one of these reasons."""
    return f'kube_pod_container_status_waiting_reason{{{_its_pods(watched)},reason=~"{reasons}"}}'


def _its_pods(watched: Watched) -> str:
    return f'namespace="{watched.namespace}",{Series(watched).own("pod")}'


def _crash_loop(watched: Watched) -> str:
    # A crashing server runs for minutes between two waits.
    waits = f"max by (pod) (max_over_time({waiting_containers(watched, 'CrashLoopBackOff')}[15m])) > 0"
    # The back-off forgets a server that ran for ten minutes. By pod: an update's new pods count from zero, and a deleted one's past ends.
    counter = restarts(watched)
    often = f"sum by (pod_name) (increase({counter}[{LOOP_HOURS}h])) > {LOOPS - 0.5:g} and on (pod_name) {counter}"
    return _any(waits, f'max by (pod) (label_replace({often}, "pod", "$1", "pod_name", "(.*)"))')


def _cannot_start(watched: Watched) -> str:
    stuck = f"max_over_time({waiting_containers(watched, '|'.join(CANNOT_START))}[5m])"
    # An init container's reasons are in no series: PodLate tells of its pod.
    return f"max by (pod, reason) ({stuck}) > 0"


def _stock_out(watched: Watched) -> str:
    # A ComputeClass's active migration asks for earlier priorities again and again while every replica serves.
    return f"({_entries(logs.stock_outs(watched).series())}) and on () sum({pending(watched)}) > 0"


def _gpus_idle(watched: Watched, of: Series) -> str:
    running, hours = of.of("vllm:num_requests_running"), f"{watched.idle_hours}h"
    # A new fleet has not been idle for longer than it has been there.
    idle = f"sum(max_over_time({running}[{hours}])) == 0 and count({running} offset {hours})"
    price = watched.price
    if price is None or price.planned_per_million is None:
        return idle
    if price.by_guard:
        # Dollars and tokens of the same day, idle hours and an idle reservation included: each entry stands for a minute.
        entries = logs.spending_rate(watched).part("_sum")
        spent = f"{logs.RATE_SECONDS / 3600:.6g} * sum(increase({entries}[1d]))"
        millions = f"(sum(increase({of.of('vllm:generation_tokens_total')}[1d])) / 1e6 > 0)"
    else:
        spent = f"sum(avg_over_time({of.of(USD_PER_HOUR)}[1d]))"
        # Both are means over the time with reporting replicas: a rate over a day would be too low for a new or paused fleet.
        millions = f"(sum(avg_over_time({of.of(OUTPUT)}[1d])) * 3600 / 1e6 > 0)"
    return _any(idle, f"{spent} / {millions} > {DEAR * price.planned_per_million:.6g}")


def _guard(watched: Watched, *steps: str) -> str:
    return logs.spending(watched).series(step="|".join(steps))


def _spending_over(watched: Watched) -> str:
    return _entries(_guard(watched, *(("warned", "over") if watched.spending == "warn" else ("warned",))))


def _spending_unwatched(watched: Watched, of: Series) -> str:
    if watched.spending is None:
        return ""
    ready = _ready(spending_namespace(watched.namespace), logs.SPENDING_CONTAINER)
    # A deleted one takes its series with it, and no update makes it after the servers.
    deleted = f"absent({ready}) and {of.declared('kube_deployment_spec_replicas')}"
    return _any(f"{ready} == 0", deleted, _entries(_guard(watched, "blind"), BLIND_WINDOW))


def _batch(watched: Watched, *steps: str) -> str:
    """What a batch's pods find. Without a batch they write nothing."""
    return _entries(logs.batch(watched).series(step="|".join(steps)), by="step") if watched.batch else ""


def _ready(namespace: str, app: str) -> str:
    """Available replicas of one of the stack's small programs."""
    return f'sum(kube_deployment_status_replicas_available{{namespace="{namespace}",deployment="{app}"}})'


def _deleted(available: str, of: Series, deployment: str) -> str:
    """The last declared replicas of a Deployment that is gone, and its series with it; empty for one that a slow first update has not made
    yet.
    """
    before = of.of(DECLARED, f'deployment="{deployment}"')
    return f"absent({available}) and sum({before})"


def _entries(series: str, window: str = "10m", by: str = "") -> str:
    """New entries of a log. The counter starts with the first entry, so its first value counts too."""
    total = f"sum by ({by}) " if by else "sum"
    return f"{total}(increase({series}[{window}])) > 0 or {total}({series} unless {series} offset {window}) > 0"
