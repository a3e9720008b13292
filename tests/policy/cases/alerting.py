"""Cases of alerts, channels and budgets that tell no one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from settings.checks.placeholders import STAND_IN_PROJECT
from tests.policy.case import (
    Case,
    Edit,
    Resources,
    append,
    new,
    of_resource,
    put,
    sound,
    twin,
)

_ALERT, _TICKET, _CHANNEL = "alerting-NothingServes", "alerting-GpusIdle", "alerting-email-llm-oncall-example-com"
_RULES, _BUDGET = "monitoring-rules", "gcp:billing/budget:Budget"
_ASKS = "conditions.0.conditionPrometheusQueryLanguage"
_NEVER = {"displayName": "never", "conditionPrometheusQueryLanguage": {"query": "vector(0) > 1", "duration": "0s"}}


def _policy(**props: Any) -> Edit:
    whole = {
        "displayName": "an alert",
        "combiner": "OR",
        "conditions": [{"displayName": "a condition", "conditionPrometheusQueryLanguage": {"query": "up == 0"}}],
        "severity": "CRITICAL",
        "notificationChannels": [f"projects/{STAND_IN_PROJECT}/notificationChannels/1"],
        "documentation": {"content": "kubectl get pods"},
    }
    return new("an-alert", "gcp:monitoring/alertPolicy:AlertPolicy", whole | props, beside="network-vpc")


def _everywhere(path: str, value: Any, *, severity: str = "CRITICAL") -> Edit:
    def edit(resources: Resources) -> None:
        for name, one in tuple(resources.items()):
            if one.type.endswith(":AlertPolicy") and one.inputs["severity"] == severity:
                put(name, path, value=value)(resources)

    return edit


def _without_alerts(resources: Resources) -> None:
    for name, one in tuple(resources.items()):
        if one.type.endswith(":AlertPolicy"):
            del resources[name]


def _budget(**props: Any) -> Edit:
    whole = {"billingAccount": "a", "thresholdRules": [{"thresholdPercent": 0.5}]}
    return new("a-budget", _BUDGET, whole | props, beside="network-vpc")


_SILENT = {
    "disabled": put(_ALERT, "enabled", value=False),
    "only its end is told": put(_ALERT, "alertStrategy.notificationPrompts", value=["CLOSED"]),
    "another project's channel": put(_ALERT, "notificationChannels", value=["projects/x/notificationChannels/1"]),
    "no channel's name": put(_ALERT, "notificationChannels", value=["oncall"]),
    "the channel is disabled": put(_CHANNEL, "enabled", value=False),
    "the channel has no address": put(_CHANNEL, "labels", value={}),
    "an address that is reserved": put(_CHANNEL, "labels.email_address", value="oncall@example.invalid"),
    "a type that tells no one": put(_CHANNEL, "type", value="none"),
    "an address without a host": put(_CHANNEL, "labels.email_address", value="oncall"),
    "a topic that is none": lambda resources: [
        put(_CHANNEL, "type", value="pubsub")(resources),
        put(_CHANNEL, "labels", value={"topic": "pages"})(resources),
    ],
}


def _pages() -> Iterator[Case]:
    for what, edit in _SILENT.items():
        yield of_resource("page-to-nobody", what, edit, stack="prod")
    yield of_resource("alert-to-nobody", "disabled", _policy(enabled=False))
    yield of_resource("alert-to-nobody", "no channel's name", _policy(notificationChannels=["oncall"]))
    for what, edit in {
        "lowered": put(_ALERT, "severity", value="WARNING"),
        "all lowered": _everywhere("severity", "WARNING"),
        "all without a condition": _everywhere("conditions", []),
    }.items():
        yield of_resource("page-to-nobody", what, edit, stack="prod")
    yield sound("page-to-nobody", "a ticket disabled", put(_TICKET, "enabled", value=False), stack="prod")
    yield of_resource("page-to-nobody", "no alert, and it needs some", _without_alerts, stack="prod", required=True)
    yield sound("page-to-nobody", "no alert at all", _without_alerts, stack="prod")
    yield sound("page-to-nobody", "one page of two in a test stack", _policy(), _second_policy)
    yield of_resource("page-to-nobody", "its only page disabled", _policy(enabled=False))


def _second_policy(resources: Resources) -> None:
    twin("another", "an-alert", lambda props: props.update(enabled=False))(resources)


_EXPRESSIONS = {
    "a constant": "vector(0) > 1",
    "no expression": " ",
    "beyond every count": "sum(kube_pod_status_ready) > 1e9",
    "beyond every rate": "sum(rate(vllm:generation_tokens_total[5m])) > 1e9",
    "a count below zero": "sum(vllm:num_requests_waiting) < 0",
    "on the eighth day of the week": "up == 0 and on () day_of_week() > 6",
    "times zero": "up * 0 > 0",
    "and never": "up == 0 and on () vector(0) == 1",
    "unless always": "up == 0 unless on () vector(1)",
    "unless itself": "up == 0 unless up == 0",
    "more than all of it": "1 - sum(a) / sum(b) > 1.5",
}


def _never() -> Iterator[Case]:
    for what, query in _EXPRESSIONS.items():
        yield of_resource("alert-never-fires", what, put(_ALERT, f"{_ASKS}.query", value=query), stack="prod")
    rule = {"alert": "ServerDown", "expr": "up == 0"}
    for what, edit in {
        "an hour and more for a page": put(_ALERT, f"{_ASKS}.duration", value="7200s"),
        "days for a ticket": put(_TICKET, f"{_ASKS}.duration", value="259200s"),
        "asked once a day": put(_ALERT, f"{_ASKS}.evaluationInterval", value="86400s"),
        "one more condition that never holds": append(_ALERT, "conditions", _NEVER),
        "no condition": put(_ALERT, "conditions", value=[]),
        "a threshold out of reach": put(
            _ALERT, "conditions", value=[{"conditionThreshold": {"filter": "metric.type=x", "thresholdValue": 1e18}}]
        ),
        "told once a day": put(_ALERT, "alertStrategy.notificationRateLimit", value={"period": "86400s"}),
        "no rule": put(_RULES, "spec.groups", value=[]),
        "a recording of nothing": put(_RULES, "spec.groups.0.rules.0.expr", value="vector(0)"),
        "rules once a day": put(_RULES, "spec.groups.0.interval", value="1d"),
        "a rule's month": append(_RULES, "spec.groups", {"name": "a", "rules": [rule | {"for": "30d"}]}),
    }.items():
        yield of_resource("alert-never-fires", what, edit, stack="prod")
    for what, query in {"bytes": "process_resident_memory_bytes > 60e9", "absent": "absent(up)"}.items():
        yield sound("alert-never-fires", what, put(_ALERT, f"{_ASKS}.query", value=query), stack="prod")
    yield sound(
        "alert-never-fires", "a rule of five minutes", append(_RULES, "spec.groups", {"rules": [rule | {"for": "5m"}]})
    )


CASES = (
    of_resource("alert-to-nobody", "no channels at all", _policy(notificationChannels=None)),
    sound("alert-to-nobody", "a channel", _policy()),
    *_pages(),
    *_never(),
    of_resource("budget-warns-late", "ten times the amount", _budget(thresholdRules=[{"thresholdPercent": 10}])),
    of_resource("budget-warns-late", "no recipient", _budget(allUpdatesRule={"disableDefaultIamRecipients": True})),
    sound(
        "budget-warns-late",
        "a topic instead of people",
        _budget(allUpdatesRule={"disableDefaultIamRecipients": True, "pubsubTopic": "projects/p/topics/t"}),
    ),
)
