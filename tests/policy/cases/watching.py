"""Cases of metrics and logs that nobody collects, and of queries for what is not there."""

from __future__ import annotations

from typing import Any, Final

from tests.policy.case import (
    DEPLOYMENT,
    Edit,
    append,
    change,
    delete,
    drop,
    new,
    of_resource,
    put,
    sound,
)

_MONITOR, _RULES, _CLUSTER = "monitoring-server", "monitoring-rules", "platform-cluster-autopilot"
_LOG, _ALERT = "alerting-prod_spending", "alerting-NothingServes"
_PRICE, _WARNED = "alerting-prod_machines_usd_per_hour", "alerting-SpendingOver"
_ENDPOINT: Final = "spec.endpoints.0"
_SCALED, _TRIGGER, _RUNNING = "autoscaling-scaled-object", "spec.triggers.0.metadata.query", "sum(vllm:{})"
_QUERY: Final = "conditions.0.conditionPrometheusQueryLanguage.query"


def _in(name: str, path: str, old: str, other: str) -> Edit:
    def how(props: Any) -> None:
        *way, last = path.split(".")
        for step in way:
            props = props[int(step) if step.isdigit() else step]
        props[last] = props[last].replace(old, other)

    return change(name, how)


_NOTHING = {
    "another namespace": _in(_ALERT, _QUERY, "vllm-prod", "vllm-old"),
    "every namespace but its own": _in(_ALERT, _QUERY, 'namespace="vllm-prod"', 'namespace!~"vllm-prod.*|keda"'),
    "a pattern of none": _in(_ALERT, _QUERY, 'namespace="vllm-prod"', 'namespace=~"vllm-old|chat-.*"'),
    "rules in another namespace": put(_RULES, "metadata.namespace", value="keda"),
    "another Deployment": _in(_ALERT, _QUERY, 'deployment="qwen35', 'deployment="qwen36'),
    "other pods": _in("alerting-GpusIdle", _QUERY, 'app="qwen35', 'app="qwen36'),
    "the guard is gone, its alert is not": delete("spending-deployment"),
    "the autoscaler is gone": delete("autoscaling-scaled-object"),
    "the log-based metric is gone": delete(_LOG),
    "it is disabled": put(_LOG, "disabled", value=True),
    "it counts another resource": _in(_LOG, "filter", '"k8s_container"', '"gce_instance"'),
    "it counts another namespace": _in(_LOG, "filter", "vllm-prod", "vllm-old"),
    "it counts another cluster": _in(_LOG, "filter", "cluster-prod", "cluster-old"),
    "the number in a log is not extracted any more": put(_PRICE, "metricDescriptor.valueType", value="INT64"),
    "a distribution by its plain name": _in(_WARNED, _QUERY, "prod_spending{", "prod_machines_usd_per_hour{"),
    "a counter's sum": _in(_WARNED, _QUERY, "prod_spending{", "prod_spending_sum{"),
    "the dashboard's recordings are gone": delete(_RULES),
    "no series of Deployments": put(_CLUSTER, "monitoringConfig.enableComponents", value=["SYSTEM_COMPONENTS"]),
}
_BLIND = {
    "no PodMonitoring": delete(_MONITOR),
    "other pods": put(_MONITOR, "spec.selector.matchLabels.app", value="other"),
    "another namespace": put(_MONITOR, "metadata.namespace", value="other"),
    "once an hour": put(_MONITOR, f"{_ENDPOINT}.interval", value="1h"),
    "everything dropped": append(
        _MONITOR, f"{_ENDPOINT}.metricRelabeling", {"action": "drop", "sourceLabels": ["__name__"], "regex": "vllm:.*"}
    ),
    "its servers dropped": append(
        _MONITOR, f"{_ENDPOINT}.metricRelabeling", {"action": "drop", "sourceLabels": ["app"], "regex": "qwen.*"}
    ),
    "labels dropped": append(_MONITOR, f"{_ENDPOINT}.metricRelabeling", {"action": "labeldrop", "regex": "app|pod"}),
    "no label of the pods": drop(_MONITOR, "spec.targetLabels"),
    "one series kept": put(_MONITOR, f"{_ENDPOINT}.metricRelabeling.0.regex", value="vllm:num_requests_running"),
    "a port that is not there": put(_MONITOR, f"{_ENDPOINT}.port", value="metrics"),
    "a path without metrics": put(_MONITOR, f"{_ENDPOINT}.path", value="/health"),
    "one sample": put(_MONITOR, "spec.limits", value={"samples": 1}),
    "no endpoint": put(_MONITOR, "spec.endpoints", value=[]),
    "the servers' label changes alone": put(DEPLOYMENT, "spec.template.metadata.labels.app", value="other"),
    "no collector": put(_CLUSTER, "monitoringConfig.managedPrometheus.enabled", value=False),
    "no monitoring": put(_CLUSTER, "monitoringService", value="none"),
}

_GONE = {
    "a page": _in(_ALERT, _QUERY, "kube_deployment_status_replicas_available", "vllm:gpu_cache_usage_perc"),
    "a counter without its ending": put(_ALERT, _QUERY, value='vllm:num_preemptions{namespace="vllm-prod"} > 1'),
    "a trigger": put(_SCALED, _TRIGGER, value=_RUNNING.format("num_requests_active")),
    "a recording": put(_RULES, "spec.groups.0.rules.0.expr", value=_RUNNING.format("avg_prompt_throughput_toks_per_s")),
    "a series of another release than the stack's": put(
        _ALERT, _QUERY, value="vllm:prompt_tokens_recomputed_total > 1"
    ),
}
_THERE = {
    "a histogram's sum": "rate(vllm:e2e_request_latency_seconds_sum[5m]) > 60",
    "a recording of the stack's own": "vllm:mine:rate5m > 1",
    "a pattern": '{__name__=~"vllm:num_requests_.*"} > 1',
}

CASES = (
    *(of_resource("asked-of-nothing", what, edit, stack="prod") for what, edit in _NOTHING.items()),
    *(of_resource("server-unscraped", what, edit) for what, edit in _BLIND.items()),
    sound("asked-of-nothing", "GKE's own namespace", _in(_ALERT, _QUERY, "vllm-prod", "kube-system"), stack="prod"),
    sound(
        "server-unscraped",
        "Prometheus Operator scrapes",
        delete(_MONITOR),
        new("a-monitor", "kubernetes:monitoring.coreos.com/v1:PodMonitor", {"metadata": {"name": "a"}, "spec": {}}),
    ),
    *(of_resource("series-not-exported", what, edit, stack="prod") for what, edit in _GONE.items()),
    *(
        sound("series-not-exported", what, put(_ALERT, _QUERY, value=query), stack="prod")
        for what, query in _THERE.items()
    ),
)
