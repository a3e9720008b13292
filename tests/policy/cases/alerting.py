"""Cases of alerts, budgets and metrics that tell no one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.policy.case import DEPLOYMENT, SCALER, Edit, Resources, Rule, broken, delete, drop, new, put, sound
from tokens import ALERT_POLICY, BUDGET

_PAGE, _TICKET, _CHANNEL = "AlertPolicy/NothingServes", "AlertPolicy/GpusIdle", "NotificationChannel"
_QUERY = "conditions.0.conditionPrometheusQueryLanguage.query"
_MONITOR, _RULES = "PodMonitoring/qwen35-server", "Rules"


def _pages(**changes: Any) -> Edit:
    """Every page with other properties."""

    def edit(resources: Resources) -> None:
        for name, one in resources.items():
            if one.type == ALERT_POLICY and one.inputs["severity"] == "CRITICAL":
                resources[name] = replace(one, inputs=one.inputs | changes, outputs=one.outputs | changes)

    return edit


def _without_alerts(resources: Resources) -> None:
    for name, one in tuple(resources.items()):
        if one.type == ALERT_POLICY:
            del resources[name]


def _budget(share: float) -> Edit:
    return new("a-budget", BUDGET, {"thresholdRules": [{"thresholdPercent": share}]})


_TICKET_OF_A_BATCH = new("a-ticket", ALERT_POLICY, {"severity": "WARNING"})

_SERIES = Rule("series-not-exported", stack="prod")

CASES = (
    broken("page-to-nobody", "one page disabled", put(_PAGE, "enabled", value=False), stack="prod"),
    broken("page-to-nobody", "no channel", put(_PAGE, "notificationChannels", value=[]), stack="prod"),
    broken("page-to-nobody", "the channel is disabled", put(_CHANNEL, "enabled", value=False), stack="prod"),
    broken("page-to-nobody", "all lowered", _pages(severity="WARNING"), stack="prod"),
    broken("page-to-nobody", "no alert, and it needs some", _without_alerts, stack="prod", required=True),
    sound("page-to-nobody", "no alert at all", _without_alerts, stack="prod"),
    sound("page-to-nobody", "a ticket disabled", put(_TICKET, "enabled", value=False), stack="prod"),
    sound("page-to-nobody", "tickets of a fleet that serves batches only", _TICKET_OF_A_BATCH, stack="batch"),
    broken(
        "page-to-nobody",
        "tickets of a fleet with users",
        _TICKET_OF_A_BATCH,
        put(SCALER, "spec.triggers.0.type", value="prometheus"),
        stack="batch",
    ),
    broken("budget-warns-late", "90 times the amount", _budget(90)),
    sound("budget-warns-late", "90 % of it", _budget(0.9)),
    _SERIES.broken("a page", put(_PAGE, _QUERY, value="vllm:gpu_cache_usage_perc > 1")),
    _SERIES.broken("no _total", put(_PAGE, _QUERY, value="vllm:num_preemptions > 1")),
    _SERIES.broken("a trigger", put(SCALER, "spec.triggers.0.metadata.query", value="sum(vllm:num_requests_active)")),
    _SERIES.broken(
        "a recording", put(_RULES, "spec.groups.0.rules.0.expr", value="vllm:avg_prompt_throughput_toks_per_s")
    ),
    _SERIES.broken(
        "a panel",
        put("Dashboard", "dashboardJson", value='{"prometheusQuery": "vllm:time_per_output_token_seconds_sum"}'),
    ),
    _SERIES.broken("another release's", put(_PAGE, _QUERY, value="vllm:prompt_tokens_recomputed_total > 1")),
    *(
        _SERIES.sound(query, put(_PAGE, _QUERY, value=query))
        for query in (
            "rate(vllm:e2e_request_latency_seconds_sum[5m]) > 60",
            "vllm:mine:rate5m > 1",
            '{__name__=~"vllm:num_requests_.*"} > 1',
        )
    ),
    broken("server-unscraped", "no PodMonitoring", delete(_MONITOR)),
    broken("server-unscraped", "other pods", put(_MONITOR, "spec.selector.matchLabels.app", value="other")),
    broken("server-unscraped", "another namespace", put(_MONITOR, "metadata.namespace", value="other")),
    broken("server-unscraped", "another port", put(_MONITOR, "spec.endpoints.0.port", value="metrics")),
    broken("server-unscraped", "another path", put(_MONITOR, "spec.endpoints.0.path", value="/health")),
    broken("server-unscraped", "another label", put(DEPLOYMENT, "spec.template.metadata.labels.app", value="other")),
    sound("server-unscraped", "the default path", drop(_MONITOR, "spec.endpoints.0.path")),
    sound(
        "server-unscraped",
        "Prometheus Operator scrapes",
        delete(_MONITOR),
        new("a-monitor", "kubernetes:monitoring.coreos.com/v1:PodMonitor", {"metadata": {"name": "a"}, "spec": {}}),
    ),
)
