"""For every alert of the catalogue, series over which it fires and series over which it does not.

Labels as the exporters and managed Prometheus write them: vLLM 0.18.1 and 0.33.0 have `model_name` and `engine` on all of their series
(v1/metrics/loggers.py), GKE's scraper adds the target's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

from facts.pickers import LLM_D, SERIES
from facts.signals.alerts import DRAFTS, PREFIXES
from facts.signals.model import Front, Price, Watched
from tests.facts.signals.fleets import EVERYTHING

EIGHT = replace(
    EVERYTHING,
    server="qwen",
    namespace="fleet",
    stack="test",
    autoscaler="keda-hpa-qwen",
    gateway=Front(pool="pool"),
    cluster="cluster",
    price=Price(per_node=40.0, by_guard=True, planned_per_million=0.5),
)
BY_REPLICAS = replace(EIGHT, price=Price(per_node=40.0, planned_per_million=0.5))
APART = "prefill apart, 0.33.0"
"""Asked about alerts on the engines of one role only: the others are the same."""
SHAPES = {
    "eight engines, 0.18.1": EIGHT,
    "one engine, 0.33.0, warned, external": replace(
        BY_REPLICAS,
        engines_per_pod=1,
        release=(0, 33, 0),
        spending="warn",
        gateway=Front(is_external=True, pool="pool", picker=LLM_D),
    ),
    APART: replace(EIGHT, release=(0, 33, 0), engines_per_pod=12, prefill_engines=4),
}
PODS = ("7c9d5f6b8-abcde", "7c9d5f6b8-fghij")
_GMP = {"project_id": "p", "location": "us-central1", "cluster": "cluster", "namespace": "{namespace}"}
_POD = {**_GMP, "app": "{server}", "pod": "{pod}", "container": "vllm", "node": "gk3-{pod}", "job": "{server}"}
_TARGET = {**_POD, "instance": "{pod}:8000"}
_OWN = {
    "vllm:": {**_TARGET, "model_name": "m", "engine": "{engine}"},
    "http_requests": {**_TARGET, "handler": "/v1/completions", "method": "POST"},
    "kube_deployment": {**_GMP, "deployment": "{server}"},
    "kube_pod": {**_GMP, "pod": "{pod}"},
    "kube_horizontalpodautoscaler": {**_GMP, "horizontalpodautoscaler": "keda-hpa-{server}"},
    "inference_": {**_GMP, "container": "epp"},
    "llm_d_epp": {**_GMP, "container": "epp"},
    "kubernetes_io:container": {
        "monitored_resource": "k8s_container",
        "namespace_name": "{namespace}",
        "pod_name": "{pod}",
        "container_name": "vllm",
    },
    "loadbalancing_googleapis_com:https_internal": {
        "monitored_resource": "internal_http_lb_rule",
        "forwarding_rule_name": "gkegw1-x4f2-{namespace}-gateway-78qnvyiusmha",
    },
    "loadbalancing_googleapis_com:https_external": {
        "monitored_resource": "http_external_regional_lb_rule",
        "forwarding_rule_name": "gkegw1-x4f2-{namespace}-gateway-78qnvyiusmha",
    },
    "haproxy_": {**_GMP, "container": "haproxy", "job": "router"},
    "logging_googleapis_com:": {},
}


@dataclass(frozen=True)
class Of:
    """One metric of every pod and engine, or of one; a later one with the same labels replaces it."""

    metric: str
    values: str
    labels: dict[str, str]
    pod: int | None
    engine: int | None
    role: str | None = None
    """Of the engines, where prefill is apart; by default of those that the alerts ask."""

    @property
    def asked(self) -> str:
        """The role of the engines that alerts ask about this metric."""
        return self.role or ("prefill" if self.metric.startswith(TTFT) else "decode")

    def series(self, watched: Watched) -> Iterator[tuple[str, str]]:
        """Names with labels, and values; the same name several times where pod or engine is not part of it."""
        labels = next(own for prefix, own in _OWN.items() if self.metric.startswith(prefix)) | self.labels
        if watched.prefill_engines and self.metric.startswith("vllm:"):
            labels["role"] = self.asked
        for pod, engine in product(range(len(PODS)), range(watched.engines_per_pod - watched.prefill_engines)):
            if self.pod in (None, pod) and self.engine in (None, engine):
                known = {"server": watched.server, "namespace": watched.namespace, "engine": engine}
                name = ",".join(
                    f'{key}="{value.format(pod=f"{watched.server}-{PODS[pod]}", **known)}"'
                    for key, value in labels.items()
                )
                yield f"{self.metric}{{{name}}}", self.values


def of(metric: str, values: str, *, pod: int | None = None, engine: int | None = None, **labels: str) -> Of:
    """See `Of`."""
    return Of(metric, values, labels, pod, engine)


def one(metric: str, values: str, **labels: str) -> list[Of]:
    """Of one engine; the others have nothing to do, or no series yet."""
    idle = [of(metric, "0x300", **labels)] if metric in (RUNNING, WAITING) else []
    return [*idle, of(metric, values, pod=0, engine=0, **labels)]


@dataclass(frozen=True)
class Case:
    """Series at whose end an alert fires, or over which it never does."""

    alert: str
    fires: bool
    series: Sequence[Of]
    minutes: int = 60
    every: int = 30
    """Seconds between two samples."""
    since: int = 0
    """Minutes; what fires before does not count: nothing is known of the time before the first sample."""
    spending: str | None = None
    """Only where the guard does this at the limit; None for all."""
    apart: bool | None = None
    """Only where prefill is apart, or only where it is not; None for both."""
    engines: bool = False
    """Only where a pod has several engines."""
    decoys: bool = True
    """Whether another server of the namespace may do the opposite. Not where series tell servers of a namespace apart by nothing."""


RUNNING, WAITING, TOKENS = "vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:generation_tokens_total"
DONE, HTTP, CACHE = "vllm:request_success_total", "http_requests_total", "vllm:kv_cache_usage_perc"
CONDITION = "kube_horizontalpodautoscaler_status_condition"
SPENT, GUARD = "logging_googleapis_com:user_test_spending", {"monitored_resource": "k8s_container"}
PRICED = "logging_googleapis_com:user_test_machines_usd_per_hour"
WAITS = "kube_pod_container_status_waiting_reason"
TTFT, TPOT = "vllm:time_to_first_token_seconds", "vllm:request_time_per_output_token_seconds"


def sources(computed: float, requests: float) -> list[Of]:
    """Per half minute: prompt tokens that decode computes, and its requests, whose prompts came from prefill."""
    by_source = "vllm:prompt_tokens_by_source_total"
    return [
        of(by_source, f"0+{computed}x120", source="local_compute"),
        of(by_source, f"0+{768 * requests}x120", source="external_kv_transfer"),
        replace(of(f"{TTFT}_count", f"0+{requests}x120"), role="decode"),
    ]


def transfers(gb: float, seconds: float) -> list[Of]:
    """What comes each half minute, and how long it takes."""
    moved, took = ("vllm:nixl_bytes_transferred_sum", "vllm:nixl_xfer_time_seconds_sum")
    return [of(moved, f"0+{gb * 1e9:.0f}x120"), of(took, f"0+{seconds}x120")]


def deployment(spec: str, available: str) -> list[Of]:
    return [of("kube_deployment_spec_replicas", spec), of("kube_deployment_status_replicas_available", available)]


def moving(spec: str, available: str, updated: str) -> list[Of]:
    return [*deployment(spec, available), of("kube_deployment_status_replicas_updated", updated)]


def rollout(replicas: int, *, minutes: int = 16, stuck: bool = False) -> list[Of]:
    """One replica after the other goes and comes back in so many minutes, or the first never does."""
    if stuck:
        return moving(f"{replicas}x300", f"{replicas}x40 {replicas - 1}x260", f"{replicas}x40 1x260")
    steps = 2 * minutes * replicas
    updated = " ".join(f"{done}x{2 * minutes - 1}" for done in range(1, replicas + 1))
    return moving(
        f"{replicas}x{steps + 100}",
        f"{replicas}x40 {replicas - 1}x{steps} {replicas}x60",
        f"{replicas}x40 {updated} {replicas}x60",
    )


def done(good: str, bad: str, reason: str) -> list[Of]:
    return [*one(DONE, good, finished_reason="length"), *one(DONE, bad, finished_reason=reason)]


def answered(good: str, bad: str) -> list[Of]:
    return [*one(HTTP, good, status="2xx"), *one(HTTP, bad, status="5xx")]


def histogram(name: str, le: str, good: str, every: str) -> list[Of]:
    buckets = [one(f"{name}_bucket", values, le=bound) for bound, values in ((le, good), ("+Inf", every))]
    return [*buckets[0], *buckets[1], *one(f"{name}_count", every)]


def picker(ready: str, failed: str, asked: str) -> list[Of]:
    """By the names of every release: pods of another pool, and requests that were wrong themselves, say nothing."""
    other = "0x120" if ready.endswith("1x120") else "1x120"
    return [
        one
        for series in SERIES.values()
        for one in (
            *(of(series.ready, values, name=name) for name, values in (("pool", ready), ("other", other))),
            of(series.errors, failed, error_code="Internal"),
            *(of(series.errors, asked, error_code=code) for code in series.clients_errors.split("|")),
            of(series.requests, asked),
        )
    ]


def routed(active: str, good: str, failed: str) -> list[Of]:
    """The routers' page for operations says nothing, nor does another backend."""
    responses = "haproxy_frontend_http_responses_total"
    return [
        of("haproxy_backend_active_servers", "1x140", proxy="another"),
        *one("haproxy_backend_active_servers", active, proxy="servers"),
        *(of(responses, values, proxy="requests", code=code) for code, values in (("2xx", good), ("5xx", failed))),
        of(responses, good, proxy="operations", code="5xx"),
    ]


def log(signal: str, resource: str, values: str, **labels: str) -> list[Of]:
    return [of(f"logging_googleapis_com:user_test_{signal}", values, monitored_resource=resource, **labels)]


def conditions(inactive: str) -> list[Of]:
    named = (
        ("ScalingActive", "false", inactive),
        ("ScalingActive", "true", "1x120"),
        ("ScalingLimited", "false", "1x120"),
    )
    return [of(CONDITION, values, condition=name, status=status) for name, status, values in named]


def steps(paused: str, resumed: str = "") -> list[Of]:
    """What the spend guard logged."""
    said = {"paused": paused, "resumed": resumed}
    return [of(SPENT, values, **GUARD, step=step) for step, values in said.items() if values]


def dear(usd_per_hour: float, running: str, tokens: int) -> list[Of]:
    """What the guard logs every minute, and tokens of each half minute."""
    entries = [of(f"{PRICED}_sum", f"0+{usd_per_hour / 2}x160", **GUARD), of(f"{PRICED}_count", "0+0.5x160", **GUARD)]
    return [of(RUNNING, running), *one(TOKENS, f"0+{tokens}x160"), *entries]


def lasting(before: str, number: int, lines: int) -> str:
    """A step that the guard logs every five minutes while it lasts, from a number of entries on."""
    return f"{before} {' '.join(f'{number + line}x9' for line in range(lines))} {number + lines}x300"


def balanced(good: str, failed: str) -> list[Of]:
    """What both kinds of load balancer count: a gateway has one of them."""
    return [
        of(f"loadbalancing_googleapis_com:https_{kind}_request_count", values, response_code_class=code)
        for kind in ("internal", "external_regional")
        for code, values in (("200", good), ("500", failed))
    ]


def finished(*rates: tuple[float, float]) -> list[Of]:
    """Requests a second, each for some hours, a sample every five minutes."""
    parts, total = [], 0.0
    for hours, each in rates:
        samples = int(hours * 12)
        parts.append(f"{total:g}+{each * 300:g}x{samples - 1}")
        total += each * 300 * samples
    return one(DONE, " ".join(parts), finished_reason="length")


def waits(values: str, reason: str) -> list[Of]:
    return [of(WAITS, values, container="vllm", reason=reason)]


def _serving() -> Iterator[Case]:
    went = [of(RUNNING, "5x20 _x100")]
    yield Case("NothingServes", True, [*deployment("2x120", "2x20 0x100"), *went])
    yield Case("NothingServes", False, [*deployment("2x20 0x100", "2x20 0x100"), *went])  # paused
    yield Case("NothingServes", False, deployment("2x120", "0x120"))  # its first start
    resumed = [*deployment("2x20 0x20 2x60", "2x20 0x80"), *went]
    yield Case("NothingServes", False, resumed, minutes=50)
    down = [*deployment("2x140", "2x20 0x120"), of(RUNNING, "5x20 _x120")]
    for hours, every in ((3, 30), (30, 300)):
        samples = hours * 3600 // every
        gone = [*deployment(f"2x{samples}", f"2x20 0x{samples}"), *went]
        yield Case("NothingServes", True, gone, minutes=60 * hours, every=every)  # until something serves
    # Its Deployment is deleted, and all of its series go: at work, while the guard pauses, at zero replicas, and only in the collector.
    ended = deployment("2x20 _x100", "2x20 _x100")
    yield Case("NothingServes", True, [*ended, *went])
    long_ago = [*deployment("2x20 _x340", "2x20 _x340"), of(RUNNING, "5x20 _x340")]
    yield Case("NothingServes", True, long_ago, minutes=1800, every=300)
    yield Case("NothingServes", False, [*ended, *went, *steps(lasting("_x20", 1, 11))], spending="pause")
    yield Case("NothingServes", False, [*deployment("2x20 0x20 _x80", "2x20 0x20 _x80"), *went])
    yield Case("NothingServes", False, [*ended, of(RUNNING, "5x120")])
    yield Case("NothingServes", False, [of("kube_deployment_spec_replicas", "2x120", deployment="router")])  # none yet
    back = [*deployment("2x400", "2x20 0x200 2x180"), *went]
    yield Case("NothingServes", False, back, minutes=190, since=111)
    # The guard paused it for the first time, again, and until so recently that its replicas still start.
    for paused_steps in (lasting("_x20", 1, 11), lasting("3x20", 4, 11), lasting("_x20", 1, 6)):
        yield Case("NothingServes", False, [*down, *steps(paused_steps)], spending="pause")
    yield Case("NothingServes", True, [*down, *steps("_x20 1x120", "_x40 1x100")])  # resumed, and not back
    yield Case("NothingServes", True, [*down, *steps("_x20 1x120", "2x40 3x100")])
    yield Case("NothingServes", True, [*down, of(SPENT, "_x20 1x120", **GUARD, step="warned")])
    yield Case("ReplicasMissing", False, deployment("12x140", "12x20 11x120"), minutes=70)  # a ticket of PodLate's
    for replicas, missing in ((2, 1), (4, 1), (12, 2)):
        lost = f"{replicas}x20 {replicas - missing}x120"
        yield Case("ReplicasMissing", True, deployment(f"{replicas}x140", lost), minutes=70)
        yield Case("ReplicasMissing", True, moving(f"{replicas}x140", lost, f"{replicas}x140"), minutes=70)
    yield Case("ReplicasMissing", False, deployment("10x140", "10x20 9x50 10x70"), minutes=70)  # a slow start
    for replicas in (4, 8, 12):
        yield Case("ReplicasMissing", False, rollout(replicas), minutes=20 + 16 * replicas + 25)
    yield Case("ReplicasMissing", False, rollout(4, minutes=42), minutes=190)  # slow starts after long drains
    yield Case("ReplicasMissing", True, rollout(4, stuck=True), minutes=67)  # a drain and a slow start later
    yield Case("ReplicasMissing", True, moving("4x300", "4x40 2x260", "4x40 1x31 2x31 3x31 3x167"), minutes=145)
    # By load, a replica each 15 minutes that takes 18; and four at once.
    ramp = deployment("4x19 5x29 6x29 7x29 8x119", "4x55 5x29 6x29 7x29 8x83")
    yield Case("ReplicasMissing", False, ramp, minutes=110)
    yield Case("ReplicasMissing", False, deployment("4x19 8x200", "4x55 8x164"), minutes=100)
    paused = deployment("2x200", "2x20 0x180")
    for paused_steps in (lasting("_x20", 1, 17), lasting("3x20", 4, 17)):
        yield Case("ReplicasMissing", False, [*paused, *steps(paused_steps)], minutes=90, spending="pause")
    # The first pause ended before its second line, and the replicas still start.
    yield Case("ReplicasMissing", False, [*paused, *steps("_x20 1x180")], minutes=60, spending="pause")
    yield Case("ReplicasMissing", True, [*paused, *steps("_x20 1x180", "_x40 1x160")], minutes=90)
    yield Case("ReplicasMissing", True, [*paused, *steps("_x20 1x180", "2x40 3x160")], minutes=90)
    yield Case("ReplicasMissing", True, [*paused, of(SPENT, "_x20 1x180", **GUARD, step="warned")], minutes=90)
    there = deployment("2x120", "2x120")
    yield Case("EngineStalled", True, [*there, of(RUNNING, "0x120", pod=0)])
    yield Case("EngineStalled", True, there)
    yield Case("EngineStalled", False, [*there, of(RUNNING, "0x120")])
    yield Case("EngineStalled", False, deployment("0x120", "0x120"))
    # Scraped five minutes after it is ready.
    yield Case(
        "EngineStalled",
        False,
        [*deployment("2x120", "1x60 2x60"), of(RUNNING, "0x120"), of(RUNNING, "_x70 0x50", pod=1)],
    )
    lost = of(RUNNING, "0x20 _x100", pod=0, engine=3)
    yield Case("EngineStalled", True, [of(RUNNING, "0x120"), lost], engines=True)
    yield Case("EngineStalled", False, [of(RUNNING, "0x120"), of(RUNNING, "0x20 _x100", pod=0)])  # a scale-down
    works, stands = of(TOKENS, "0+900x120"), of(TOKENS, "0+900x20 18000x100", pod=0, engine=0)
    yield Case("EngineStalled", True, [works, stands, of(RUNNING, "3x120"), of(WAITING, "0x120")])
    yield Case("EngineStalled", True, [works, stands, *one(RUNNING, "0x120"), *one(WAITING, "3x120")])
    yield Case("EngineStalled", False, [works, stands, *one(RUNNING, "0x120"), *one(WAITING, "0x120")])  # idle
    # One prompt, read in chunks for fifty minutes.
    reads = [works, stands, *one(RUNNING, "1x120"), *one(WAITING, "0x120")]
    yield Case("EngineStalled", False, [*reads, of(CACHE, "0.1+0.002x120", pod=0, engine=0)])
    yield Case("EngineStalled", True, [*reads, of(CACHE, "0.1+0.002x30 0.16x90", pod=0, engine=0)])
    # Hung for most of an hour, with a client that gave up: vLLM repeats its last figures, so it stays open.
    yield Case(
        "EngineStalled", True, [works, stands, *one(RUNNING, "3x120"), *one(WAITING, "2x120"), of(CACHE, "0.5x120")]
    )
    # Its container starts again, which takes twelve minutes and has no metrics; then it is busy at once.
    gap = [of(TOKENS, "0+900x20 _x24 0+900x76", pod=0, engine=0), of(WAITING, "0x20 _x24 0x76", pod=0)]
    yield Case("EngineStalled", False, [works, *gap, of(RUNNING, "3x20 _x24 3x76", pod=0)])
    went_busy = [of(TOKENS, "5x20 _x100"), of(RUNNING, "0x18 3x1 _x100"), of(WAITING, "0x20 _x100")]
    yield Case("EngineStalled", False, went_busy)
    for share, shape in (
        ("RequestsFail", lambda good, bad: done(good, bad, "error")),
        ("RequestsFail", answered),
    ):
        yield Case(share, True, shape("0+92x120", "0+8x120"))
        yield Case(share, False, shape("0+97x120", "0+3x120"))
        yield Case(share, True, shape("0+2x120", "0+2x120"))
        yield Case(share, False, shape("0+1x120", "0+1x120"))  # too few to tell
    serving = deployment("2x312", "2x312")
    for fires, hours in (
        (True, ((25, 4), (1, 0))),
        (True, ((25, 1.5), (1, 0))),
        (True, ((25, 4), (1, 0.28))),
        (False, ((25, 4), (1, 0.6))),
        (False, ((25, 0.7), (1, 0))),  # too few to tell
        (False, ((20, 4), (6, 0.3))),  # a quiet day after a busy one
        (False, ((20, 0.3), (5, 4), (1, 0))),  # a benchmark
    ):
        yield Case("NothingServes", fires, [*serving, *finished(*hours)], minutes=1555, every=300)
    # It is paused on purpose.
    stops = [*deployment("2x300 0x12", "2x300 0x12"), *finished((25, 4), (1, 0))]
    yield Case("NothingServes", False, stops, minutes=1555, every=300)
    serves = deployment("2x140", "2x140")
    for fires, good, bad in ((True, 92, 8), (False, 97, 3), (True, 2, 2), (False, 1, 1)):
        yield Case("BalancerFails", fires, [*serves, *balanced(f"0+{good}x120", f"0+{bad}x120")], decoys=False)
    yield Case("RoutersGone", True, [*serves, *routed("0x120", "0x120", "0x120")], decoys=False)
    for fires, good, bad in ((True, 92, 8), (False, 97, 3), (True, 2, 2), (False, 1, 1)):
        yield Case("RoutersGone", fires, [*serves, *routed("2x120", f"0+{good}x120", f"0+{bad}x120")], decoys=False)
    available = "kube_deployment_status_replicas_available"
    for fires, routers in ((True, "2x20 0x100"), (False, "2x20 1x100"), (False, "2x20 0x4 2x96")):
        yield Case("RoutersGone", fires, [*serves, of(available, routers, deployment="router")], decoys=False)
    # Deleted, a day ago too; and an update has not made it yet.
    always = deployment("2x360", "2x360")
    routers_end = [replace(each, labels={"deployment": "router"}) for each in deployment("2x20 _x340", "2x20 _x340")]
    for every, minutes in ((30, 60), (300, 1800)):
        yield Case("RoutersGone", True, [*always, *routers_end], minutes=minutes, every=every, decoys=False)
        yield Case("RoutersGone", False, always, minutes=120, every=every, decoys=False)
    yield Case("PickerFails", True, [*serves, *picker("1x20 0x100", "0x120", "0x120")], decoys=False)
    for fires, bad, every in ((True, 8, 100), (False, 3, 100), (True, 2, 4), (False, 1, 2)):
        seen = picker("1x120", f"0+{bad}x120", f"0+{every}x120")
        yield Case("PickerFails", fires, [*serves, *seen], decoys=False)
    # Clients of a fleet without replicas get HTTP 503, and the picker sees none even without clients.
    for name, fails in (
        ("BalancerFails", balanced("0x140", "0x20 0+9x120")),
        ("PickerFails", picker("1x20 0x120", "0x140", "0x140")),
        ("RoutersGone", routed("2x20 0x120", "0x140", "0x20 0+9x120")),
        ("RoutersGone", [of(available, "2x20 0x120", deployment="router")]),
        ("PickerFails", picker("1x20 0x120", "0x20 0+9x120", "0x20 0+9x120")),
    ):
        canary = [replace(each, labels={"deployment": "{server}-canary"}) for each in serves]
        for replicas in (
            deployment("2x20 0x120", "2x20 0x120"),  # paused, or outside its windows
            deployment("2x20 0x60 2x60", "2x20 0x120"),  # and back, while the replicas start
            deployment("2x140", "0x140"),  # a first start
        ):
            yield Case(name, False, [*replicas, *canary, *fails], decoys=False)
        shut = [*down, *fails]
        for paused_steps in (lasting("_x20", 1, 11), lasting("3x20", 4, 11)):
            yield Case(name, False, [*shut, *steps(paused_steps)], decoys=False, spending="pause")
        first = [*shut, *steps("_x20 1x120")]
        yield Case(name, False, first, minutes=40, decoys=False, spending="pause")
        yield Case(name, True, [*shut, *steps("_x20 1x120", "_x40 1x100")], decoys=False)  # resumed, and not back
        yield Case(name, True, [*shut, *steps("_x20 1x120", "2x40 3x100")], decoys=False)
        yield Case(name, True, [*shut, of(SPENT, "_x20 1x120", **GUARD, step="warned")], decoys=False)


def _fast() -> Iterator[Case]:
    for name, histogram_, le in (("FirstToken", TTFT, "2.5"), ("Output", TPOT, "0.1")):
        slow = f"{name}Slow"

        def seen(good: str, every: str, histogram_: str = histogram_, le: str = le) -> list[Of]:
            return histogram(histogram_, le, good, every)

        good = "0+60x370 22220+20"
        yield Case(slow, True, seen(f"{good}x19", "0+60x390"), minutes=390, every=60)  # much, for twenty minutes
        yield Case(slow, False, seen("0+60x380 22820+20x9", "0+60x390"), minutes=390, every=60)  # for ten
        over = seen(f"{good}x19 22660+60x50", "0+60x440")  # and then as before: the hour still has it
        yield Case(slow, False, over, minutes=420, since=400, every=60)
        over = seen("0+60x240 14420+20x59 15660+60x100", "0+60x400")  # an hour, and an hour ago
        yield Case(slow, False, over, minutes=380, since=366, every=60)
        yield Case(slow, True, seen("0+92x240", "0+100x240"), minutes=240, every=60)  # some, for hours
        yield Case(slow, False, seen("0+955x240", "0+1000x240"), minutes=240, every=60)
        yield Case(slow, True, seen("0+6x240", "0+8x240"), minutes=240, every=60)
        yield Case(slow, False, seen("0+2x240", "0+4x240"), minutes=240, every=60)  # too few to tell
    over = histogram(TTFT, "2.5", "0+900x30 28000+1000x60", "0+1000x91")  # hours, and hours ago
    yield Case("FirstTokenBudget", False, over, minutes=300, since=285, every=300)
    for fires, good, every, minutes in (
        (True, 955, 1000, 300),
        (False, 980, 1000, 300),
        (True, 30, 40, 1500),
        (False, 15, 20, 1500),  # too few to tell
    ):
        late = histogram(TTFT, "2.5", f"0+{good}x{minutes // 5}", f"0+{every}x{minutes // 5}")
        yield Case("FirstTokenBudget", fires, late, minutes=minutes, every=300)


def _full() -> Iterator[Case]:
    for fires, waiting, at_work in ((True, 30, 100), (False, 15, 100), (True, 15, 50), (False, 8, 10)):
        yield Case("Backlog", fires, [*one(WAITING, f"{waiting}x120"), *one(RUNNING, f"{at_work}x120")])
    for fires, proxy, waiting in ((True, "servers", 12), (False, "servers", 8), (False, "operations", 12)):
        queue = [of("haproxy_backend_current_queue", f"{waiting}x120", pod=0, engine=0, proxy=proxy)]
        yield Case("Backlog", fires, queue, decoys=False)
    yield Case("ScalingBlind", True, [*conditions("1x120"), *deployment("2x120", "2x120")])
    yield Case("ScalingBlind", False, [*conditions("0x120"), *deployment("2x120", "2x120")])
    yield Case("ScalingBlind", False, [*conditions("1x120"), *deployment("0x120", "0x120")])  # at zero by intent
    # KEDA logs at each poll while a first fleet starts, and after a resume.
    for available in ("0x120", "0x100 2x20"):
        told = log("scaling_fallbacks", "k8s_container", "0+1x120")
        yield Case("ScalingBlind", False, [*conditions("1x120"), *deployment("2x120", available), *told])
    # On its fallback: the condition says that all is well.
    well = [*conditions("0x120"), *deployment("2x120", "2x120")]
    yield Case("ScalingBlind", True, [*well, *log("scaling_fallbacks", "k8s_container", "_x100 1+2x20")])
    yield Case("ScalingBlind", True, [*well, *log("scaling_fallbacks", "k8s_container", "_x104 1x16")])
    yield Case("ScalingBlind", True, [*well, *log("scaling_fallbacks", "k8s_container", "3x80 3+2x40")])
    yield Case("ScalingBlind", False, [*well, *log("scaling_fallbacks", "k8s_container", "3x120")], since=15)


def _rest() -> Iterator[Case]:
    for above, below in (DRAFTS, PREFIXES):
        for fires, later, every in ((True, 2700, 4500), (False, 3375, 4500), (False, 1260, 2100)):
            early = every * 85 // 100
            saved = [*one(above, f"0+{early}x240 {early * 241}+{later}x47"), *one(below, f"0+{every}x288")]
            yield Case("SpeedupLost", fires, saved, minutes=1440, every=300, apart=False)
    # Each of eight engines, in half a minute. Both limits from both sides, and too few requests to tell.
    for fires, computed, each in ((True, 12, 1), (False, 6, 1), (True, 9, 0.6), (False, 500, 0.3), (False, 1, 1)):
        yield Case("SpeedupLost", fires, sources(computed * each, each), apart=True)
    for fires, gb, seconds in ((True, 1, 2), (True, 1.5, 1), (False, 3, 1), (False, 20, 2), (False, 0, 0)):
        yield Case("SpeedupLost", fires, transfers(gb, seconds), apart=True)
    restarted = "kubernetes_io:container_restart_count"
    for name, reason in (
        ("CrashLoop", "CrashLoopBackOff"),
        ("CannotStart", "ImagePullBackOff"),
        ("CannotStart", "CreateContainerConfigError"),
    ):
        yield Case(name, True, waits("_x60 1x60", reason))
        yield Case(name, False, waits("1x120", "ContainerCreating"))
        yield Case(name, False, waits("1x10 _x110", reason), since=25)
    yield Case("CrashLoop", True, waits(" ".join(["1x4 _x20"] * 5), "CrashLoopBackOff"))
    # Every half hour, with more than ten minutes of serving between: the kubelet's back-off forgets.
    loops, hours = "0x30 1x15 2x15 3x120", {"minutes": 360, "every": 120}
    yield Case("CrashLoop", True, [of(restarted, "0x180"), of(restarted, loops, pod=0)], **hours)
    two = [of(restarted, "0x30 1x150"), of(restarted, "0x30 1x30 2x120", pod=0)]
    yield Case("CrashLoop", False, [*two, of(restarted, loops, container_name="sidecar")], **hours)
    # Three in more than six hours, and a pod that was deleted after its third: its last sample is seen for five more minutes.
    yield Case("CrashLoop", False, [of(restarted, "0x100 1x110 2x110 3x40")], minutes=720, every=120)
    yield Case("CrashLoop", False, [of(restarted, "0x15 1x15 2x15 3x15 _x120")], since=132, **hours)
    phase = "kube_pod_status_phase"
    yield Case("PodLate", True, [of(phase, "0x140"), of(phase, "1x140", pod=0, phase="Pending")], minutes=70)
    others = of(phase, "1x140", phase="Running")
    yield Case("PodLate", False, [others, of(phase, "0x20 1x20 0x100", phase="Pending")], minutes=70)
    # An image that is pulled for the first time, or that of an init container, whose reasons no series has.
    yield Case("CannotStart", False, [others, of(phase, "1x140", pod=0, phase="Pending")])
    waits_for_node = [of(phase, "1x140", pod=0, phase="Pending")]
    # A ComputeClass's late priority serves while active migration asks for an earlier one again and again.
    served = [of(phase, "1x140", phase="Running"), of(phase, "0x140", phase="Pending")]
    yield Case("StockOut", False, [*served, *log("scale_up_failures", "k8s_cluster", "0+1x120")])
    for name, signal, resource, labels in (
        ("StockOut", "scale_up_failures", "k8s_cluster", {}),
        ("GpuFault", "gpu_faults", "k8s_container", {"node": "gk3-1"}),
        ("SpendingPaused", "spending", "k8s_container", {"step": "paused"}),
        ("SpendingOver", "spending", "k8s_container", {"step": "warned"}),
        ("BatchLimit", "batch", "k8s_container", {"step": "limit"}),
        *(("BatchStalled", "batch", "k8s_container", {"step": step}) for step in ("stalled", "failing", "blind")),
    ):
        around = waits_for_node if name == "StockOut" else []
        yield Case(name, True, [*around, *log(signal, resource, "_x110 1x10", **labels)])  # the first ever
        yield Case(name, True, [*around, *log(signal, resource, "3x110 4x10", **labels)])
        yield Case(name, False, [*around, *log(signal, resource, "3x120", **labels)], since=15)
        if "step" in labels:
            yield Case(name, False, log(signal, resource, "_x110 1x10", step="started"))
    over = {"resource": "k8s_container", "step": "over"}
    yield Case("SpendingOver", True, log("spending", values="_x110 1x10", **over), spending="warn")
    available, namespace = "kube_deployment_status_replicas_available", "{namespace}-spending"
    guard = {"metric": available, "deployment": "spending-guard", "namespace": namespace}
    another = [
        of(values="2x360", **{**guard, "deployment": "another"}),
        of("kube_deployment_spec_replicas", "2x360", deployment="another"),
    ]
    there = [*another, *deployment("2x360", "2x360")]
    for values in ("1x60 0x60", "1x60 _x60", "_x120"):  # scaled to nothing, deleted, and never made beside servers
        yield Case("SpendingUnwatched", True, [of(values=values, **guard), *there], decoys=False)
    yield Case("SpendingUnwatched", False, another, decoys=False)  # a first update that has made neither yet
    for fires, others in ((True, there), (False, another)):  # deleted a day ago, beside servers
        a_day_ago = [of(values="1x60 _x300", **guard), *others]
        yield Case("SpendingUnwatched", fires, a_day_ago, minutes=1800, every=300, decoys=False)
    back = [of(values="1x60 0x20 1x40", **guard), *deployment("0x120", "0x120")]
    yield Case("SpendingUnwatched", False, back, decoys=False)
    # An entry holds for longer than the guard's node takes to be replaced.
    for blind in ("_x80 1x40", "3x80 4x40"):
        yield Case("SpendingUnwatched", True, log("spending", "k8s_container", blind, step="blind"), decoys=False)
    for step, entries in (("blind", "3x120"), ("warned", "_x80 1x40")):
        told = log("spending", "k8s_container", entries, step=step)
        yield Case("SpendingUnwatched", False, told, since=30, decoys=False)
    yield Case("GpusIdle", True, [of(RUNNING, "0x312")], minutes=1560, every=300)
    once = [of(RUNNING, "0x312"), *one(RUNNING, "0x200 1x1 0x111")]  # at noon of a new fleet, then a night without
    yield Case("GpusIdle", False, once, minutes=1560, every=300)
    for fires, tokens in ((True, 450_000), (False, 900_000)):  # 80 dollars an hour, by the guard as well
        yield Case("GpusIdle", fires, [*dear(80, "5x160", tokens)], minutes=80)


CASES = (*_serving(), *_fast(), *_full(), *_rest())
