"""Alerts. Pages mean that users are affected; causes and costs are tickets.

Conventions: a ratio needs a minimum of requests, no divisor is zero, absence is evaluated per pod or against the declared replicas,
look-back plus `for` is at most 25 hours (Cloud Monitoring docs, "Alerting policies with PromQL"), and expressions are valid for
Prometheus 2.44. Windows and factors of burn rates: kubernetes-mixin, config.libsonnet.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from facts.names import ROUTER_APP, ROUTER_BACKEND, ROUTER_FRONTEND, spending_namespace
from facts.pickers import SERIES
from facts.signals import logs
from facts.signals.model import Alert, LogSignal, Question, Severity, Watched
from facts.signals.recordings import OUTPUT, SERVED, USD_PER_HOUR
from facts.signals.series import REQUESTS_FLOOR, TPOT, TTFT, Series

FAILED_SHARE: Final = 0.05
"""Of requests. Source: gateway-api-inference-extension, tools/alerts/alert.yaml."""
ABORTED_SHARE: Final = 0.2
"""Assumed: users sometimes close a chat; a fifth of all requests means a timeout or a broken client."""
STALLED_MINUTES: Final = 3
"""Minutes without a step. Assumed: a kernel that is compiled in service takes less (30 to 70 s, ai-dynamo/dynamo#14735)."""
QUEUE_SHARE: Final = 0.2
"""Waiting requests, as a share of running ones."""
QUEUE_FLOOR: Final = 10
"""Waiting requests that are ignored."""
FULL_CACHE: Final = 0.95
PREEMPTIONS_PER_ENGINE: Final = 1 / 60
"""Preemptions a second: one a minute."""
SERVING_SHARE: Final = 0.9
"""Minimum share of declared replicas: one missing of twelve does not page, one of four does. Assumed."""
UNEQUAL: Final = 2
"""Allowed load of one engine, as a multiple of its pod's mean. With two engines, 2 is the maximum."""
UNEQUAL_OF_TWO: Final = 1.5
UNEQUAL_REPLICAS: Final = 2
"""Allowed load of one replica, as a multiple of the mean of the others. Assumed."""
BUSY_ENGINE: Final = 8
"""Requests per engine from which the spread is evaluated."""
TRAFFIC_LEFT: Final = 0.1
"""Share of the requests of a day before: Saturdays and nights have more. Assumed."""
TRAFFIC_FLOOR: Final = 1
"""Requests a second of the day before, below which missing traffic is not evaluated. Assumed."""
CANNOT_START: Final = ("ImagePullBackOff", "InvalidImageName", "CreateContainerConfigError", "CreateContainerError")
"""Reasons of a waiting container that waiting does not end. Source: kubelet, pkg/kubelet/images and kuberuntime. Without ErrImagePull,
which turns into ImagePullBackOff."""
PULLED_SECONDS: Final = 300
"""In which a pod that has a node pulls its images and runs its init containers."""
LOOPS: Final = 3
"""Restarts of one pod within `LOOP_HOURS` that are a loop. Assumed: one crash a day is a ticket, not a loop. A rate's extrapolation may
give a little less than the whole number."""
LOOP_HOURS: Final = 6
FELL_TO: Final = 0.8
"""Share of the value of the day before."""
COMPUTED_PER_REQUEST: Final = 8
"""Prompt tokens that a decode engine computes itself per request. One is right, a prompt whose transfer fails counts in full. Measured:
exactly one (vLLM 0.33.0 on H200). Assumed: more than a failure in a hundred of the article's prompts is worth a ticket."""
TRANSFER_FLOOR_GB_S: Final = 2
"""Bytes by seconds of the transfers. Measured: 6.7 to 60 over NVLink, 0.5 over TCP (facts/data/disaggregation.yaml)."""
DRAFTS_FLOOR: Final = 10
"""Draft or prompt tokens a second below which ratios are not evaluated."""
HOT_CELSIUS: Final = 88
"""Assumed: data-centre GPUs slow down around 90 degrees; NVIDIA publishes no figure for B200."""
DEAR: Final = 2
"""Multiple of the planned price of a token."""
HOUR: Final = 3600
UNWATCHED_SECONDS: Final = 900
"""Time to replace the guard's node; it then counts the gap in full."""
BEFORE_HOURS: Final = 24
"""In which a program was there before it is missed: with `UNWATCHED_SECONDS` within the 25 hours of a policy."""
LATE_TOKENS: Final = "Late first tokens"
SLOW_OUTPUT: Final = "Slow output"
FULLEST: Final = "KV cache of the fullest engine"
HOTTEST: Final = "Hottest GPU"
COMPUTED: Final = "Prompt tokens that decode computes, per request"
TRANSFERRED: Final = "Caches from prefill, bytes by seconds"
BATCH: Final = "Documents a second"
BATCH_USD: Final = "USD of the batch so far"
AFTER_PAUSE_MINUTES: Final = 8
"""From the guard's last entry `paused`: it writes every five minutes, and Cloud Logging counts within two or three (assumed)."""
_SPENDING: Final[Mapping[str, tuple[tuple[str, Severity, str], ...]]] = {
    "pause": (
        ("warned", "ticket", "passed a step of its spending limit"),
        ("paused", "page", "is paused: its spending limit is reached"),
        ("blind", "page", "has no spending limit in force: its spend guard cannot count, or its sum was changed"),
    ),
    "warn": (
        ("warned", "ticket", "passed a step of its spending limit"),
        ("over", "ticket", "is over its spending limit, and nothing pauses it"),
        ("blind", "ticket", "is not warned about its spending: its spend guard cannot count, or its sum was changed"),
    ),
}
"""By what the guard does at the limit: step, severity and what is told. A guard that only warns leaves the users as they are."""
_UNWATCHED: Final[Mapping[str, tuple[Severity, str]]] = {
    "pause": ("page", "has no spending limit in force"),
    "warn": ("ticket", "is not warned about its spending"),
}
OF_USERS: Final = frozenset(
    {
        *("FirstTokenSlow", "FirstTokenBudget", "OutputSlow", "OutputBudget"),
        *("Backlog", "CacheFull", "AtMaximum", "TrafficStopped"),
    }
)
"""Alerts about what a batch does on purpose: it fills each server up to its queue, waits for all of them, and ends."""
_BATCH: Final[tuple[tuple[str, Question, str], ...]] = (
    ("stalled", "serving", "stands still: servers are ready, and no document ended for ten minutes"),
    ("late", "serving", "will end after its deadline"),
    ("failing", "serving", "ends more than 5% of its documents with errors"),
    ("blind", "serving", "is blind: its clients cannot read their bucket or the servers' queues"),
    ("limit", "cost", "stopped before its end: its maxUsd is reached"),
)
"""Step of the clients' log, question and what is told."""
_FELL: Final = (
    (
        "AcceptanceFell",
        *("spec_decode_num_accepted_tokens", "spec_decode_num_draft_tokens"),
        *("accepted draft tokens", "Accepted drafts"),
    ),
    (
        "PrefixHitsFell",
        *("prefix_cache_hits", "prefix_cache_queries"),
        *("prompt tokens found in the prefix cache", "Prefix cache hits"),
    ),
)


def alerts(watched: Watched) -> Iterator[Alert]:
    """Alerts of one fleet, only for features that it has. A fleet that serves only batches has no pages: no user waits for it."""
    for alert in _alerts(watched):
        if not watched.only_batches:
            yield alert
        elif alert.name not in OF_USERS:
            yield replace(alert, severity="ticket")


def _alerts(watched: Watched) -> Iterator[Alert]:
    of = Series(watched)
    yield from _serving(watched, of)
    yield from _fast(watched, of)
    yield from _full(watched, of)
    yield from _fair(watched, of)
    yield from _itself(watched, of)
    yield from _healthy(watched)
    yield from _cost(watched, of)
    if watched.batch:
        yield from _batch(watched)


def _serving(watched: Watched, of: Series) -> Iterator[Alert]:
    available, start = of.declared("kube_deployment_status_replicas_available"), f"{watched.start_seconds // 60}m"
    pauses = watched.spending == "pause"
    unless_paused = f" unless on () ({_paused(watched)})" if pauses else ""
    served = f"max(last_over_time({of.of(SERVED)}[1h])) > 0"
    # A fleet resumed within the hour gets the time of a start.
    wanted = of.declared("kube_deployment_spec_replicas", f"min_over_time({{}}[{start}])")
    meant = f"{wanted} > 0 and {served}{unless_paused}"
    yield Alert(
        name="NothingServes",
        expr=f"{available} == 0 and {meant}",
        # The guard's log entry is counted a minute or two after its pause.
        for_seconds=180 if pauses else 60,
        severity="page",
        question="serving",
        summary=f"{watched.server}: no replica is available; one served before",
        panel="Replicas",
    )
    # A progressing rolling update has one replica missing; one without progress for the time of a start gets no allowance.
    updated, spec = (of.declared(f"kube_deployment_{kind}") for kind in ("status_replicas_updated", "spec_replicas"))
    progress = of.declared("kube_deployment_status_replicas_updated", f"changes({{}}[{start}])")
    moving = f"((({updated} < bool {spec}) * ({progress} > bool 0)) or vector(0))"
    yield Alert(
        name="ReplicasMissing",
        expr=f"{available} + {moving} < {SERVING_SHARE:g} * {wanted}{unless_paused}",
        for_seconds=watched.start_seconds,
        severity="page",
        question="serving",
        summary=f"{watched.server}: declared replicas have been missing for longer than a start takes",
        panel="Replicas",
    )
    yield Alert(
        name="ReplicaUnseen",
        expr=f"{available} > ({of.pods} or vector(0))",
        for_seconds=600,
        severity="ticket",
        question="serving",
        summary=f"{watched.server}: a replica is not scraped, so other alerts do not cover it",
        panel="Replicas",
    )
    if watched.engines_per_pod > 1:
        running = of.of("vllm:num_requests_running")
        yield Alert(
            name="EngineMissing",
            expr=f"count by (pod) ({running}) < {watched.engines_per_pod}",
            for_seconds=120,
            severity="page",
            question="serving",
            summary=f"{watched.server}: a pod reports fewer than {watched.engines_per_pod} engines",
            panel="Engines by pod",
        )
    # A long prompt that is read in chunks returns no token, but its cache grows.
    tokens, cache = of.of("vllm:generation_tokens_total"), of.of("vllm:kv_cache_usage_perc")
    window = f"[{STALLED_MINUTES}m]"
    # Only engines that are still scraped: series of a deleted pod last five more minutes, with requests and no tokens.
    scraped = f"[{4 * watched.interval_seconds}s]"
    busy = " + ".join(
        f"sum by (pod, engine) (last_over_time({of.of(f'vllm:num_requests_{state}')}{scraped}))"
        for state in ("running", "waiting")
    )
    yield Alert(
        name="EngineStalled",
        expr=f"({busy}) > 0 and sum by (pod, engine) (increase({tokens}{window})) == 0"
        f" unless sum by (pod, engine) (changes({cache}{window})) > 0",
        for_seconds=120,
        severity="page",
        question="serving",
        summary=f"{watched.server}: an engine has requests but takes no step",
        panel="Output tokens by engine",
    )
    finished = of.rate("vllm:request_success_total", "5m")
    errors = of.rate("vllm:request_success_total", "5m", 'finished_reason="error"')
    answered = of.rate("http_requests_total", "5m")
    refused = of.rate("http_requests_total", "5m", 'status="5xx"')
    yield Alert(
        name="RequestsFail",
        expr=f"{errors} / ({finished} > {REQUESTS_FLOOR:g}) > {FAILED_SHARE:g}"
        f" or {refused} / ({answered} > {REQUESTS_FLOOR:g}) > {FAILED_SHARE:g}",
        for_seconds=120,
        severity="page",
        question="serving",
        summary=f"{watched.server}: more than {FAILED_SHARE:.0%} of requests fail",
        panel="Failed and aborted requests",
    )
    aborted = of.rate("vllm:request_success_total", "15m", 'finished_reason="abort"')
    yield Alert(
        name="RequestsAborted",
        expr=f"{aborted} / ({of.rate('vllm:request_success_total', '15m')} > {REQUESTS_FLOOR:g}) > {ABORTED_SHARE:g}",
        for_seconds=600,
        severity="ticket",
        question="serving",
        summary=f"{watched.server}: clients abort more than {ABORTED_SHARE:.0%} of requests",
        panel="Failed and aborted requests",
    )
    yield _stopped(watched, of)
    if watched.routers:
        yield from _routers(of, meant)
    if watched.gateway_pool is not None:
        yield _picker(watched, watched.gateway_pool, meant)
    if watched.gateway:
        yield _balancer(of, meant)


def _paused(watched: Watched) -> str:
    """The guard pauses the fleet, or did until so recently that its replicas still start; SpendingPaused alone reports that.

    Read from its log: GKE's package of kube-state-metrics has no series of quotas.
    """
    window = f"{watched.start_seconds // 60 + AFTER_PAUSE_MINUTES}m"
    return _entries(logs.spending(watched).series(step="paused"), window)


def _stopped(watched: Watched, of: Series) -> Alert:
    """Traffic of the day before and of the last hours, none now: a name, a certificate or a client broke, and no server sees it."""
    now, before = (of.of("vllm:request_success_total"), f"{TRAFFIC_LEFT:g} * (sum(rate({{}})) > {TRAFFIC_FLOOR:g})")
    yesterday, lately = (before.format(f"{now}[{window}") for window in ("30m] offset 1d", "4h] offset 15m"))
    finished = f"sum(rate({now}[15m]))"
    return Alert(
        name="TrafficStopped",
        expr=f"{finished} < {yesterday} and {finished} < {lately}",
        for_seconds=300,
        severity="page",
        question="serving",
        summary=f"{watched.server}: requests stopped, with traffic in the last hours and at this time of the day before",
        panel="Requests finished",
    )


def _balancer(of: Series, meant: str) -> Alert:
    """A fleet that is not `meant` to serve has no backend: every client gets HTTP 503."""
    failed, every = (f"sum(rate({of.balanced(*matchers)}[5m]))" for matchers in (('response_code_class="500"',), ()))
    return Alert(
        name="BalancerFails",
        expr=f"{failed} / ({every} > {REQUESTS_FLOOR:g}) > {FAILED_SHARE:g} and {meant}",
        for_seconds=180,
        severity="page",
        question="serving",
        summary=f"{of.watched.server}: the gateway's load balancer answers more than {FAILED_SHARE:.0%} of requests with HTTP 5xx",
        panel="Load balancer",
    )


def _routers(of: Series, meant: str) -> Iterator[Alert]:
    """A fleet that is not `meant` to serve has no server to choose."""
    server = of.watched.server
    yield Alert(
        name="RoutersGone",
        expr=f"({_gone(of.watched.namespace, ROUTER_APP)}) and on () ({meant})",
        for_seconds=180,
        severity="page",
        question="serving",
        summary=f"{server}: no router is available, so no client reaches the replicas",
        panel="Routers",
    )
    failed, every = (
        f"sum(rate({of.routed('haproxy_frontend_http_responses_total', ROUTER_FRONTEND, *matchers)}[5m]))"
        for matchers in (('code="5xx"',), ())
    )
    chosen_from = of.routed("haproxy_backend_active_servers", ROUTER_BACKEND)
    yield Alert(
        name="RoutersFail",
        expr=f"(max({chosen_from}) == 0 or {failed} / ({every} > {REQUESTS_FLOOR:g}) > {FAILED_SHARE:g}) and {meant}",
        for_seconds=180,
        severity="page",
        question="serving",
        summary=f"{server}: the routers see no replica or answer more than {FAILED_SHARE:.0%} of requests with HTTP 5xx",
        panel="Routers",
    )


def _picker(watched: Watched, pool: str, meant: str) -> Alert:
    """A fleet that is not `meant` to serve has no pod to pick."""
    ours, picker = f'namespace="{watched.namespace}"', SERIES[watched.picker]
    # A single value without a regular expression: the article's stack keeps its rule.
    others = "!~" if "|" in picker.clients_errors else "!="
    asked = f"sum(rate({picker.requests}{{{ours}}}[5m]))"
    failed = f'sum(rate({picker.errors}{{{ours},error_code{others}"{picker.clients_errors}"}}[5m]))'
    return Alert(
        name="PickerFails",
        expr=f'(max({picker.ready}{{{ours},name="{pool}"}}) == 0'
        f" or {failed} / ({asked} > {REQUESTS_FLOOR:g}) > {FAILED_SHARE:g}) and {meant}",
        for_seconds=180,
        severity="page",
        question="serving",
        summary=f"{watched.server}: the gateway's endpoint picker sees no replica or fails more than {FAILED_SHARE:.0%} of requests",
        panel="Endpoint picker",
    )


def _fast(watched: Watched, of: Series) -> Iterator[Alert]:
    budget = 1 - watched.objective
    ttft, tpot = watched.ttft_seconds, watched.tpot_seconds

    def burns(histogram: str, seconds: float, factor: float, *windows: str) -> str:
        late = (of.late(histogram, seconds, window) for window in windows)
        return " and ".join(f"{one} > {factor * budget:.6g}" for one in late)

    for name, histogram, seconds, what, panel in (
        ("FirstToken", TTFT, ttft, f"first tokens take longer than {ttft:g} s", LATE_TOKENS),
        ("Output", TPOT, tpot, f"output tokens take longer than {tpot * 1000:g} ms", SLOW_OUTPUT),
    ):
        yield Alert(
            name=f"{name}Slow",
            expr=f"{burns(histogram, seconds, 14.4, '1h', '5m')} or {burns(histogram, seconds, 6, '6h', '30m')}",
            for_seconds=120,
            severity="page",
            question="fast",
            summary=f"{watched.server}: {what}, and the error budget of {budget:.1%} burns fast",
            panel=panel,
        )
        yield Alert(
            name=f"{name}Budget",
            expr=burns(histogram, seconds, 3, "1d", "2h"),
            for_seconds=1800,
            severity="ticket",
            question="fast",
            summary=f"{watched.server}: {what}, and the error budget of {budget:.1%} lasts ten days at this rate",
            panel=panel,
            every_seconds=300,
        )


def _full(watched: Watched, of: Series) -> Iterator[Alert]:
    yield Alert(
        name="Backlog",
        expr=f"{of.waiting} > {QUEUE_SHARE:g} * {of.running} and {of.waiting} > {QUEUE_FLOOR}",
        for_seconds=300,
        severity="page",
        question="full",
        summary=f"{watched.server}: requests queue, more than {QUEUE_SHARE:.0%} of the running ones",
        panel="Requests in flight",
    )
    if watched.routers:
        yield Alert(
            name="RoutersQueue",
            expr=f"sum({of.routed('haproxy_backend_current_queue', ROUTER_BACKEND)}) > {QUEUE_FLOOR}",
            for_seconds=300,
            severity="page",
            question="full",
            summary=f"{watched.server}: requests queue in the routers, because every replica has as many as a router may send",
            panel="Waiting in routers",
        )
    cache, waiting = (of.of(f"vllm:{name}") for name in ("kv_cache_usage_perc", "num_requests_waiting"))
    yield Alert(
        name="CacheFull",
        expr=f"max by (pod, engine) ({cache}) > {FULL_CACHE:g} and sum by (pod, engine) ({waiting}) > 0",
        for_seconds=600,
        severity="ticket",
        question="full",
        summary=f"{watched.server}: an engine has a full KV cache and a queue",
        panel=FULLEST,
    )
    preempted, most = of.of("vllm:num_preemptions_total"), watched.engines_per_pod * PREEMPTIONS_PER_ENGINE
    yield Alert(
        name="Preempting",
        expr=f"sum by (pod) (rate({preempted}[5m])) > {most:.6g}",
        for_seconds=600,
        severity="ticket",
        question="full",
        summary=f"{watched.server}: a pod preempts and recomputes more than one request a minute per engine",
        panel="Preemptions",
    )
    if watched.autoscaler is not None:
        desired, most_replicas = (
            of.autoscaler(f"kube_horizontalpodautoscaler_{name}_replicas") for name in ("status_desired", "spec_max")
        )
        yield Alert(
            name="AtMaximum",
            expr=f"{desired} >= {most_replicas} and on () {of.waiting} > 0",
            for_seconds=900,
            severity="ticket",
            question="full",
            summary=f"{watched.server}: the autoscaler is at its maximum, and requests queue",
            panel="Autoscaler",
        )
        inactive = of.autoscaler(
            "kube_horizontalpodautoscaler_status_condition", 'condition="ScalingActive"', 'status="false"'
        )
        blind = f"(sum({inactive}) == 1 or {_entries(logs.fallbacks(watched).series(), '10m')})"
        # A fleet that starts or resumes has no series yet, which KEDA logs at each poll.
        serves = of.declared("kube_deployment_status_replicas_available", "min_over_time({}[15m])")
        yield Alert(
            name="ScalingBlind",
            expr=f"{blind} and on () {serves} > 0",
            for_seconds=300,
            # The fallback removes no replica: users wait only if the load grows, and Backlog pages then.
            severity="ticket",
            question="full",
            summary=f"{watched.server}: the autoscaler has no metric",
            panel="Autoscaler",
        )


def _fair(watched: Watched, of: Series) -> Iterator[Alert]:
    running, sharing = of.of("vllm:num_requests_running"), watched.engines_per_pod - watched.prefill_engines
    floor = BUSY_ENGINE * sharing
    if watched.max_replicas != 1:
        pods = f"sum by (pod) ({running})"
        others = f"(sum({pods}) - max({pods})) / (count({pods}) - 1 > 0)"
        yield Alert(
            name="ReplicasUnequal",
            expr=f"max({pods}) > {UNEQUAL_REPLICAS:g} * {others} and max({pods}) > {floor}",
            for_seconds=900,
            severity="ticket",
            question="fair",
            summary=f"{watched.server}: one replica has more than {UNEQUAL_REPLICAS} times the requests of the others",
            panel="Requests by pod",
        )
    if sharing == 1:
        return
    running, most = of.of("vllm:num_requests_running", *of.role("decode")), unequal(watched)
    yield Alert(
        name="EnginesUnequal",
        expr=f"max by (pod) ({running}) > {most:g} * avg by (pod) ({running}) and sum by (pod) ({running}) > {floor}",
        for_seconds=600,
        severity="ticket",
        question="fair",
        summary=f"{watched.server}: one engine of a pod has more than {most:g} times its share of requests",
        panel="Busiest engine / mean",
    )


def _itself(watched: Watched, of: Series) -> Iterator[Alert]:
    there = (watched.speculative, watched.prefix_caching)
    for name, above, below, what, panel in (one for one, is_there in zip(_FELL, there, strict=True) if is_there):
        now = of.ratio(f"vllm:{above}_total", f"vllm:{below}_total", "15m", floor=DRAFTS_FLOOR)
        # Eighteen hours, ending four hours ago: detects a slow decline within the look-back of 25 hours.
        before = " / ".join(f"sum(rate({of.of(f'vllm:{counter}_total')}[18h] offset 4h))" for counter in (above, below))
        yield Alert(
            name=name,
            expr=f"{now} < {FELL_TO:g} * {before}",
            for_seconds=1800,
            severity="ticket",
            question="itself",
            summary=f"{watched.server}: the share of {what} fell below {FELL_TO:.0%} of the day before",
            panel=panel,
            every_seconds=300,
        )
    if not watched.is_apart:
        return
    yield Alert(
        name="DecodeReadsPrompts",
        expr=f"{of.computed_per_request} > {COMPUTED_PER_REQUEST}",
        for_seconds=600,
        severity="ticket",
        question="itself",
        summary=f"{watched.server}: decode engines read prompts that prefill has read: caches do not arrive",
        panel=COMPUTED,
    )
    yield Alert(
        name="TransfersSlow",
        expr=f"{of.transferred_per_second} < {TRANSFER_FLOOR_GB_S * 10**9}",
        for_seconds=600,
        severity="ticket",
        question="itself",
        summary=f"{watched.server}: caches move from prefill to decode at less than {TRANSFER_FLOOR_GB_S} GB/s",
        panel=TRANSFERRED,
    )


def unequal(watched: Watched) -> float:
    """Allowed load of one engine, as a multiple of the mean of its pod's engines that share requests."""
    return UNEQUAL if watched.engines_per_pod - watched.prefill_engines > 2 else UNEQUAL_OF_TWO


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


def _stuck(watched: Watched) -> Iterator[Alert]:
    """Containers that do not start, or end again after each start."""
    # A crashing server runs for minutes between two waits.
    waits = f"max by (pod) (max_over_time({waiting_containers(watched, 'CrashLoopBackOff')}[15m])) > 0"
    # The back-off forgets a server that ran for ten minutes. By pod: an update's new pods count from zero, and a deleted one's past ends.
    counter = restarts(watched)
    often = f"sum by (pod_name) (increase({counter}[{LOOP_HOURS}h])) > {LOOPS - 0.5:g} and on (pod_name) {counter}"
    yield Alert(
        name="CrashLoop",
        expr=f'{waits} or max by (pod) (label_replace({often}, "pod", "$1", "pod_name", "(.*)"))',
        for_seconds=120,
        severity="ticket",
        question="healthy",
        summary=f"{watched.server}: vLLM in a pod ends again and again",
        panel="Restarts",
    )
    stuck = f"max_over_time({waiting_containers(watched, '|'.join(CANNOT_START))}[5m])"
    # The reasons are those of main containers: an init container whose image cannot be pulled only keeps its pod Pending, on a node.
    nodeless = f"kube_pod_status_unschedulable{{{_its_pods(watched)}}}"
    on_a_node = f"sum by (pod) ({pending(watched)}) > 0 unless on (pod) {nodeless} > 0"
    yield Alert(
        name="CannotStart",
        expr=f"max by (pod, reason) ({stuck}) > 0 or {on_a_node}",
        for_seconds=PULLED_SECONDS,
        severity="ticket",
        question="healthy",
        summary=f"{watched.server}: a pod has an image or a setting that it cannot start with",
        panel="Waiting containers",
    )


def _healthy(watched: Watched) -> Iterator[Alert]:
    yield Alert(
        name="Restarted",
        expr=f"sum by (pod_name) (increase({restarts(watched)}[30m])) > 0",
        for_seconds=0,
        severity="ticket",
        question="healthy",
        summary=f"{watched.server}: vLLM restarted in a pod",
        panel="Restarts",
    )
    yield from _stuck(watched)
    yield Alert(
        name="PodLate",
        expr=f"sum by (pod) ({pending(watched)}) > 0",
        for_seconds=watched.node_seconds,
        severity="ticket",
        question="healthy",
        summary=f"{watched.server}: a pod has been Pending for longer than a node and its image take",
        panel="Pending pods",
    )
    yield _counted(
        logs.stock_outs(watched),
        name="StockOut",
        question="healthy",
        summary=f"{watched.server}: Google Cloud has no node for a pod of its cluster, and a pod of the server waits",
        panel="Scale-up failures and preemptions",
        # A ladder's active migration asks for earlier rungs again and again while every replica serves.
        only=f"sum({pending(watched)}) > 0",
    )
    if watched.spot:
        yield _counted(
            logs.preemptions(watched),
            name="SpotTaken",
            question="healthy",
            summary=f"{watched.server}: a Spot node in one of its zones was preempted",
            panel="Scale-up failures and preemptions",
        )
    yield _counted(
        logs.gpu_faults(watched),
        name="GpuFault",
        question="healthy",
        summary=f"{watched.server}: a GPU of its cluster reported an Xid error",
        panel=HOTTEST,
        by="node",
    )
    yield Alert(
        name="GpuHot",
        expr=f"max by (Hostname, gpu) {Series(watched).gpus('DCGM_FI_DEV_GPU_TEMP')} > {HOT_CELSIUS}",
        for_seconds=300,
        severity="ticket",
        question="healthy",
        summary=f"{watched.server}: a GPU is hotter than {HOT_CELSIUS} degrees Celsius",
        panel=HOTTEST,
    )


def usd_per_hour_panel(watched: Watched) -> str:
    """Title of the chart of the cost: on a ladder without the guard's count it says that its price is an upper bound."""
    return "USD an hour, by the dearest rung" if watched.ladder and not watched.priced_by_guard else "USD an hour"


def _cost(watched: Watched, of: Series) -> Iterator[Alert]:
    at = "at most" if watched.ladder else "at"
    hourly = "" if watched.node_usd_per_hour is None else f", {at} ${watched.node_usd_per_hour:g} an hour per node"
    running = of.of("vllm:num_requests_running")
    yield Alert(
        name="GpusIdle",
        # A new fleet has not been idle for longer than it has been there.
        expr=f"sum(max_over_time({running}[{watched.idle_hours}h])) == 0 and count({running} offset {watched.idle_hours}h)",
        for_seconds=HOUR,
        severity="ticket",
        question="cost",
        summary=f"{watched.server}: no request for {watched.idle_hours + 1} hours{hourly}",
        panel=usd_per_hour_panel(watched) if hourly else "Replicas",
        every_seconds=300,
    )
    planned = watched.planned_usd_per_million_output
    if hourly and planned is not None:
        if watched.priced_by_guard:
            # Dollars and tokens of the same day, idle hours and an idle reservation included: each entry stands for a minute.
            entries = logs.spending_rate(watched).part("_sum")
            spent = f"{logs.RATE_SECONDS / 3600:.6g} * sum(increase({entries}[1d]))"
            millions = f"(sum(increase({of.of('vllm:generation_tokens_total')}[1d])) / 1e6 > 0)"
        else:
            spent = f"sum(avg_over_time({of.of(USD_PER_HOUR)}[1d]))"
            # Both are means over the time with reporting replicas: a rate over a day would be too low for a new or paused fleet.
            millions = f"(sum(avg_over_time({of.of(OUTPUT)}[1d])) * 3600 / 1e6 > 0)"
        yield Alert(
            name="TokensDear",
            expr=f"{spent} / {millions} > {DEAR * planned:.6g}",
            for_seconds=HOUR,
            severity="ticket",
            question="cost",
            summary=f"{watched.server}: a day's output tokens cost more than {DEAR} times the planned ${planned:.4g} a million",
            panel="USD per million output tokens",
            every_seconds=300,
        )
    if watched.spending:
        for step, severity, what in _SPENDING[watched.spending]:
            yield _counted(
                logs.spending(watched),
                name=f"Spending{step.capitalize()}",
                question="cost",
                severity=severity,
                summary=f"Stack {watched.stack} {what}",
                panel="Spend guard",
                labels={"step": step},
            )
        urgency, lacks = _UNWATCHED[watched.spending]
        yield Alert(
            name="SpendingUnwatched",
            expr=_gone(spending_namespace(watched.namespace), logs.SPENDING_CONTAINER),
            for_seconds=UNWATCHED_SECONDS,
            severity=urgency,
            question="cost",
            summary=f"Stack {watched.stack} {lacks}: its spend guard is not running",
            panel="Spend guard",
        )


def _batch(watched: Watched) -> Iterator[Alert]:
    """What a batch's clients find. Without a batch they write nothing."""
    for step, question, what in _BATCH:
        yield _counted(
            logs.batch(watched),
            name=f"Batch{step.capitalize()}",
            question=question,
            summary=f"{watched.server}: a batch {what}",
            panel=BATCH if question == "serving" else BATCH_USD,
            labels={"step": step},
        )


def _gone(namespace: str, app: str) -> str:
    """One of the stack's small programs is not there. A deleted Deployment takes its series with it; one that a slow first update has not
    made yet was never there.
    """
    ready = f'kube_deployment_status_replicas_available{{namespace="{namespace}",deployment="{app}"}}'
    return f"sum({ready}) == 0 or absent({ready}) and on () count(count_over_time({ready}[{BEFORE_HOURS}h]))"


def _counted(
    signal: LogSignal,
    *,
    name: str,
    question: Question,
    summary: str,
    panel: str,
    severity: Severity = "ticket",
    labels: Mapping[str, str] | None = None,
    by: str = "",
    only: str = "",
) -> Alert:
    """An alert on new entries of a log, for each value of the label `by`; `only` while something else holds, too."""
    entries = _entries(signal.series(**(labels or {})), "10m", by)
    return Alert(
        name=name,
        expr=f"({entries}) and on () {only}" if only else entries,
        for_seconds=0,
        severity=severity,
        question=question,
        summary=summary,
        panel=panel,
    )


def _entries(series: str, window: str, by: str = "") -> str:
    """New entries of a log. The counter starts with the first entry, so its first value counts too."""
    total = f"sum by ({by}) " if by else "sum"
    return f"{total}(increase({series}[{window}])) > 0 or {total}({series} unless {series} offset {window}) > 0"
