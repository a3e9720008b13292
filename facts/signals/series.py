"""Names of the series that the catalogue reads, with their sources, and shared expressions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from facts import pickers
from facts.releases import at
from facts.signals.model import Watched

VLLM: Final = (
    "vllm:num_requests_running",
    "vllm:num_requests_waiting",
    "vllm:num_requests_waiting_by_reason",
    "vllm:kv_cache_usage_perc",
    "vllm:num_preemptions_total",
    "vllm:prompt_tokens_total",
    "vllm:prompt_tokens_by_source_total",
    "vllm:generation_tokens_total",
    "vllm:request_success_total",
    "vllm:prefix_cache_queries_total",
    "vllm:prefix_cache_hits_total",
    "vllm:spec_decode_num_draft_tokens_total",
    "vllm:spec_decode_num_accepted_tokens_total",
    "vllm:time_to_first_token_seconds_bucket",
    "vllm:time_to_first_token_seconds_count",
    "vllm:request_time_per_output_token_seconds_bucket",
    "vllm:request_time_per_output_token_seconds_count",
)
"""Series of vLLM's engines; `has` knows in which releases. `make vllm-check` checks names and buckets against both."""
NIXL: Final = (
    "vllm:nixl_bytes_transferred_sum",
    "vllm:nixl_xfer_time_seconds_sum",
    "vllm:nixl_num_failed_transfers_total",
    "vllm:nixl_num_kv_expired_reqs_total",
)
"""Series of engines that hand caches to others: bytes and seconds of what came to decode, failures there, and caches that prefill gave
up because nobody fetched them. Source: distributed/kv_transfer/kv_connector/v1/nixl/stats.py of the wheel 0.33.0; `make vllm-check`."""
STEPS: Final = (
    "vllm:num_requests_running",
    "vllm:num_requests_waiting",
    "vllm:kv_cache_usage_perc",
    "vllm:iteration_tokens_total_count",
)
"""Series of one engine that only its steps change. The last alone does not do: it counts only steps that return tokens, and a long prompt
read in chunks returns none for minutes, while the blocks of its cache grow. Source: vLLM 0.18.1 and 0.33.0, v1/metrics/loggers.py,
PrometheusStatLogger.record: the first three are set in every step, the last only in steps with outputs; `make vllm-check`."""
SLEEP: Final = "vllm:engine_sleep_state"
"""State of an engine, by label `sleep_state`: running requests of one that is not `awake` wait. Source as above."""
SERVER: Final = ("http_requests_total",)
"""Series of vLLM's web server, with status groups such as `5xx`. Source: prometheus-fastapi-instrumentator 8.1.0, metrics.py."""
KUBERNETES: Final = (
    "kube_deployment_spec_replicas",
    "kube_deployment_status_replicas_available",
    "kube_deployment_status_replicas_updated",
    "kube_pod_status_phase",
    "kube_pod_container_status_waiting_reason",
    "kube_horizontalpodautoscaler_spec_max_replicas",
    "kube_horizontalpodautoscaler_status_desired_replicas",
    "kube_horizontalpodautoscaler_status_condition",
)
"""Series of GKE's kube-state-metrics package. Source: GKE docs, "Collect and view kube state metrics"; kube-state-metrics, docs/metrics."""
GOOGLE: Final = (
    "kubernetes_io:container_restart_count",
    "loadbalancing_googleapis_com:https_internal_request_count",
    "loadbalancing_googleapis_com:https_external_regional_request_count",
)
"""Series of Google Cloud. Sources: Cloud Monitoring, "Kubernetes metrics", container/restart_count; "Google Cloud metrics",
loadbalancing: https/internal/request_count and https/external/regional/request_count."""
DCGM: Final = ("DCGM_FI_PROF_SM_ACTIVE",)
"""Series of GKE's DCGM package. Source: monitoring-dashboard-samples, dashboards/nvidia-gpu/nvidia-dcgm-prometheus.json."""
PICKER: Final = tuple(name for picker in pickers.SERIES.values() for name in picker.every)
"""Series of the endpoint pickers."""
ROUTER: Final = (
    "haproxy_frontend_http_responses_total",
    "haproxy_backend_active_servers",
    "haproxy_backend_current_queue",
)
"""Series of the routers. Source: HAProxy 2.6, its Prometheus exporter."""

Role = Literal["prefill", "decode"]
TTFT_BOUNDS: Final = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0),
    *(2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0),
)
"""Buckets of vllm:time_to_first_token_seconds, seconds. Source as above, both releases."""
TPOT_BOUNDS: Final = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0),
    *(2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0),
)
"""Buckets of vllm:request_time_per_output_token_seconds, seconds. Source as above, both releases."""
TTFT: Final = "vllm:time_to_first_token_seconds"
TPOT: Final = "vllm:request_time_per_output_token_seconds"
REQUESTS_FLOOR: Final = 0.1
"""Requests a second below which ratios are not evaluated: one failure of three in five minutes would be a third."""


def has(release: tuple[int, int, int], name: str) -> bool:
    """Whether a release of vLLM exports that series, as far as it is known."""
    return name in at(release).series


def bound(seconds: float) -> str:
    """Matcher of one bucket. prometheus_client writes 1.0; whether Cloud Monitoring returns 1.0 or 1 is not documented."""
    text = f"{seconds:g}"
    return f'le="{text}"' if "." in text else f'le=~"{text}|{text}[.]0"'


@dataclass(frozen=True, slots=True)
class Series:
    """Selectors and shared expressions of one fleet."""

    watched: Watched

    def of(self, metric: str, *matchers: str) -> str:
        """A series of the fleet's pods."""
        watched = self.watched
        ours = (f'app="{watched.server}"', f'namespace="{watched.namespace}"')
        return f"{metric}{{{','.join((*ours, *matchers))}}}"

    def declared(self, metric: str, over: str = "{}") -> str:
        """Sum of a series of the Deployment, or of a function of it."""
        watched = self.watched
        series = f'{metric}{{namespace="{watched.namespace}",deployment="{watched.server}"}}'
        return f"sum({over.format(series)})"

    def autoscaler(self, metric: str, *matchers: str) -> str:
        """A series of the fleet's HorizontalPodAutoscaler."""
        watched = self.watched
        named = (f'namespace="{watched.namespace}"', f'horizontalpodautoscaler="{watched.autoscaler}"')
        return f"{metric}{{{','.join((*named, *matchers))}}}"

    def balanced(self, *matchers: str) -> str:
        """Requests at the gateway's load balancer. GKE names it gkegw1-ID-NAMESPACE-GATEWAY-HASH and shortens long names in it;
        public examples keep at least seven characters of the namespace.
        """
        front, begins = self.watched.gateway, self.watched.namespace[:7]
        kind, resource = (
            ("external_regional", "http_external_regional_lb_rule")
            if front is not None and front.is_external
            else ("internal", "internal_http_lb_rule")
        )
        named = (f'monitored_resource="{resource}"', f'forwarding_rule_name=~"gkegw1-[^-]+-{begins}.*"')
        return f"loadbalancing_googleapis_com:https_{kind}_request_count{{{','.join((*named, *matchers))}}}"

    def routed(self, metric: str, proxy: str, *matchers: str) -> str:
        """A series of the routers, of one of their two sides."""
        ours = (f'namespace="{self.watched.namespace}"', f'proxy="{proxy}"')
        return f"{metric}{{{','.join((*ours, *matchers))}}}"

    def own(self, label: str) -> str:
        """Matcher of the Deployment's pods, excluding servers with this name as a prefix, such as a canary."""
        return f'{label}=~"{self.watched.server}-[^-]+-[^-]+"'

    def gpus(self, metric: str) -> str:
        """A series of the fleet's GPUs; its labels have the prefix `exported_` or none, depending on the collector."""
        namespace = self.watched.namespace
        each = (f'{metric}{{{at}namespace="{namespace}",{self.own(f"{at}pod")}}}' for at in ("", "exported_"))
        return f"({' or '.join(each)})"

    def role(self, role: Role) -> tuple[str, ...]:
        """Matcher of the engines of one role; empty where every engine reads prompts and answers."""
        return (f'role="{role}"',) if self.watched.prefill_engines else ()

    def _users(self, histogram: str) -> tuple[str, ...]:
        """Matcher of the engines whose times users feel. Decode's first token is fetched, and prefill's only token has no next."""
        return self.role("prefill" if histogram == TTFT else "decode")

    def rate(self, metric: str, window: str, *matchers: str) -> str:
        """Rate a second over the whole fleet."""
        return f"sum(rate({self.of(metric, *matchers)}[{window}]))"

    def ratio(self, above: str, below: str, window: str, *, floor: float = 0) -> str:
        """Ratio of two counters over the whole fleet; empty where the divisor's rate is at most the floor."""
        return f"{self.rate(above, window)} / ({self.rate(below, window)} > {floor:g})"

    def late(self, histogram: str, seconds: float, window: str) -> str:
        """Share of requests above a bound; empty while there are too few requests."""
        users = self._users(histogram)
        good = self.rate(f"{histogram}_bucket", window, *users, bound(seconds))
        every = self.rate(f"{histogram}_count", window, *users)
        return f"1 - {good} / ({every} > {REQUESTS_FLOOR:g})"

    def quantile(self, share: float, histogram: str) -> str:
        """A percentile over the whole fleet."""
        buckets = self.of(f"{histogram}_bucket", *self._users(histogram))
        return f"histogram_quantile({share:g}, sum by (le) (rate({buckets}[5m])))"

    def of_pods(self, above: str, below: str, window: str, *, floor: float) -> str:
        """Ratio of two of decode's counters by pod; empty where the divisor's rate is at most the floor."""
        over, under = (f"sum by (pod) (rate({series}[{window}]))" for series in (above, below))
        return f"{over} / ({under} > {floor:g})"

    @property
    def computed_per_request(self) -> str:
        """Prompt tokens that decode engines computed themselves, per request."""
        decode = self.role("decode")
        computed = self.of("vllm:prompt_tokens_by_source_total", *decode, 'source="local_compute"')
        return self.of_pods(computed, self.of(f"{TTFT}_count", *decode), "15m", floor=REQUESTS_FLOOR)

    @property
    def transferred_per_second(self) -> str:
        """Bytes that came to decode engines, by the seconds of their transfers."""
        names = ("vllm:nixl_bytes_transferred_sum", "vllm:nixl_xfer_time_seconds_sum")
        moved, seconds = (self.of(name, *self.role("decode")) for name in names)
        return self.of_pods(moved, seconds, "15m", floor=0)

    @property
    def running(self) -> str:
        """Running requests."""
        return f"sum({self.of('vllm:num_requests_running')})"

    @property
    def waiting(self) -> str:
        """Waiting requests."""
        return f"sum({self.of('vllm:num_requests_waiting')})"

    @property
    def pods(self) -> str:
        """Number of reporting pods; empty where none reports."""
        return f"count(count by (pod) ({self.of('vllm:num_requests_running')}))"
