"""Rules for alert policies, channels and budgets: someone is told."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from environment import ENVIRONMENT, why_production
from facts.finding import Finding
from google_provider import projects
from objects import number
from promql import never_fires, seconds
from rule import Resource, ResourceRule, Setting, Settings, StackRule, dig, finding, has, known_items, listed
from scalers import serves_pods_only

POLICY: Final = "gcp:monitoring/alertPolicy:AlertPolicy"
CHANNEL: Final = "gcp:monitoring/notificationChannel:NotificationChannel"
BUDGET: Final = "gcp:billing/budget:Budget"
RULES_OBJECTS: Final = ("Rules", "ClusterRules", "GlobalRules", "PrometheusRule")
_PAGE: Final = "CRITICAL"
_CHANNEL_ID: Final = re.compile(r"projects/([^/]+)/notificationChannels/[^/]+")
_DESTINATIONS: Final = {
    "email": ("email_address", r"[^@\s]+@[^@\s]+\.(?!invalid$|test$|localhost$)[^@\s.]+"),
    "slack": ("channel_name", r".+"),
    "sms": ("number", r"\+?[0-9 ()-]{5,}"),
    "pubsub": ("topic", r"projects/[^/]+/topics/.+"),
    "webhook_basicauth": ("url", r"https://.+"),
    "webhook_tokenauth": ("url", r"https://.+"),
    **dict.fromkeys(("pagerduty", "google_chat", "campfire", "hipchat"), ("", "")),
}
"""Label of a channel's address by type. Source: Cloud Monitoring API v3, notificationChannelDescriptors."""
_LONGEST_EVALUATION: Final = 3600.0
_MOST_SERIES: Final = 1000
_UNREACHABLE: Final = 1e15
"""Above every metric in bytes or nanoseconds. Assumed."""


def _to_nobody(resources: Sequence[Resource], _: Settings) -> Iterator[Finding]:
    for resource in resources:
        if resource.type == POLICY and (why := _untold(resource, resources)):
            yield finding(f"{resource.label}: {why}", urn=resource.urn)


def _untold(policy: Resource, resources: Sequence[Resource]) -> str:
    """Why an alert policy tells no one; empty where it does."""
    if dig(policy.props, "enabled") is False:
        return "enabled is false"
    prompts = tuple(listed(dig(policy.props, "alertStrategy", "notificationPrompts")))
    if prompts and "OPENED" not in prompts:
        return f"alertStrategy.notificationPrompts has {', '.join(map(str, prompts))} without OPENED"
    written = dig(policy.props, "notificationChannels")
    if not written:
        return "notificationChannels is empty: an incident opens in the console and no one is notified"
    foreign = [why for id_ in known_items(written) if (why := _foreign(id_, policy, resources))]
    if len(foreign) == len(written):
        return foreign[0]
    # By dependencies: before the first update, the ids of this stack's channels are unknown.
    mine = [
        _dead(resource) for resource in resources if resource.type == CHANNEL and resource.urn in policy.dependencies
    ]
    return mine[0] if mine and "" not in mine and len(written) <= len(mine) else ""


def _foreign(id_: Any, policy: Resource, resources: Sequence[Resource]) -> str:
    match = _CHANNEL_ID.fullmatch(str(id_))
    project = str(dig(policy.props, "project") or next(iter(projects(resources)), ""))
    if match is None:
        return f"notificationChannels has {id_}, which is no channel"
    # A project has an id and a number.
    other = project and not match[1].isdigit() and not project.isdigit() and match[1] != project
    return f"notificationChannels has {id_}, and the policy is in project {project}" if other else ""


def _dead(channel: Resource) -> str:
    """Why a channel reaches no one; empty where it does."""
    if dig(channel.props, "enabled") is False:
        return f"{channel.label}: enabled is false"
    kind = str(dig(channel.props, "type") or "")
    if kind not in _DESTINATIONS:
        return f"{channel.label}: type is {kind}"
    label, pattern = _DESTINATIONS[kind]
    if label and re.fullmatch(pattern, str(dig(channel.props, "labels", label) or "")) is None:
        return f"{channel.label}: labels.{label} is no address of type {kind}"
    return ""


def _no_page(resources: Sequence[Resource], settings: Settings) -> Iterator[Finding]:
    policies = [resource for resource in resources if resource.type == POLICY]
    lowered = [policy for policy in policies if _is_marked(policy) and dig(policy.props, "severity") != _PAGE]
    for one in lowered:
        yield finding(
            f"{one.label}: severity is {dig(one.props, 'severity') or 'missing'}, and a label of it is severity: page",
            write=f"severity: {_PAGE}, or another label",
            urn=one.urn,
        )
    if not policies and not settings["required"]:
        return
    pages = [policy for policy in policies if dig(policy.props, "severity") == _PAGE]
    if not pages and not settings["required"] and serves_pods_only(resources):
        return
    working = [page for page in pages if not _untold(page, resources) and not any(_silences(page, _NO_LIMIT))]
    if not working:
        yield finding(f"{len(policies)} alert policies, {len(pages)} of them {_PAGE}, and none pages anyone")
    elif len(working) < len(pages) and (because := why_production(resources, settings)):
        for page in pages:
            if page not in working:
                yield finding(f"{page.label} is a page of production ({because}) and reaches no one", urn=page.urn)


def _is_marked(policy: Resource) -> bool:
    conditions = listed(dig(policy.props, "conditions"))
    marks = (dig(condition, "conditionPrometheusQueryLanguage", "labels", "severity") for condition in conditions)
    return "page" in (dig(policy.props, "userLabels", "severity"), *marks)


def _never(resource: Resource, settings: Settings) -> Iterator[Finding]:
    if resource.type == POLICY:
        for what in _silences(resource, settings):
            yield finding(what)
    elif resource.is_kubernetes and resource.kind in RULES_OBJECTS:
        groups = tuple(listed(dig(resource.props, "spec", "groups")))
        rules = [
            (f"spec.groups[{index}].rules[{place}]", rule)
            for index, group in enumerate(groups)
            for place, rule in enumerate(listed(dig(group, "rules")))
        ]
        if not rules:
            yield finding("spec.groups has no rule")
        for index, group in enumerate(groups):
            if seconds(dig(group, "interval")) > _LONGEST_EVALUATION:
                yield finding(f"spec.groups[{index}].interval is {dig(group, 'interval')}")
        for path, one in rules:
            if why := never_fires(str(dig(one, "expr") or "")):
                yield finding(f"{path}.expr {why}")
            if seconds(dig(one, "for")) > float(settings["mostSeconds"]):
                yield finding(f"{path}.for is {dig(one, 'for')}")


_KINDS: Final = (
    "conditionPrometheusQueryLanguage",
    "conditionThreshold",
    "conditionAbsent",
    "conditionMonitoringQueryLanguage",
    "conditionMatchedLog",
    "conditionSql",
)
_NO_LIMIT: Final[Settings] = {"mostSeconds": 86_400, "mostPageSeconds": 3600}


def _silences(policy: Resource, settings: Settings) -> Iterator[str]:
    """Why conditions of an alert policy are never met."""
    conditions = tuple(listed(dig(policy.props, "conditions")))
    if not conditions:
        yield "conditions is empty"
    page = dig(policy.props, "severity") == _PAGE
    most = float(settings["mostPageSeconds" if page else "mostSeconds"])
    if seconds(dig(policy.props, "alertStrategy", "notificationRateLimit", "period")) > _LONGEST_EVALUATION:
        yield f"alertStrategy.notificationRateLimit.period is {dig(policy.props, 'alertStrategy', 'notificationRateLimit', 'period')}"
    for index, whole in enumerate(conditions):
        for kind in _KINDS:
            if not has(whole, kind):
                continue
            one, where = dig(whole, kind), f"conditions[{index}].{kind}"
            for key in ("duration", "evaluationInterval"):
                longest = most if key == "duration" else _LONGEST_EVALUATION
                if seconds(dig(one, key)) > longest:
                    yield f"{where}.{key} is {dig(one, key)}"
            text = next((key for key in ("query", "filter") if has(one, key)), "query")
            written = str(dig(one, text) or "").strip()
            if not written:
                yield f"{where}.{text} is empty"
            elif kind == _KINDS[0] and (why := never_fires(written)):
                yield f"{where}.query {why}"
            if (number(dig(one, "trigger", "count")) or 0) > _MOST_SERIES:
                yield f"{where}.trigger.count is {dig(one, 'trigger', 'count'):g}"
            threshold = number(dig(one, "thresholdValue"))
            below = dig(one, "comparison") == "COMPARISON_LT"
            if threshold is not None and (threshold < 0 if below else threshold >= _UNREACHABLE):
                yield f"{where}.thresholdValue is {threshold:g}"


def _late_budget(resource: Resource, _: Settings) -> Iterator[Finding]:
    if resource.type != BUDGET:
        return
    shares = [number(dig(rule, "thresholdPercent")) for rule in listed(dig(resource.props, "thresholdRules"))]
    if not any(share is not None and share <= 1 for share in shares):
        yield finding("thresholdRules has no share of 1 (100 %) or less")
    told = dig(resource.props, "allUpdatesRule")
    others = (dig(told, "pubsubTopic"), dig(told, "monitoringNotificationChannels"))
    if dig(told, "disableDefaultIamRecipients") is True and not any(others):
        yield finding("allUpdatesRule.disableDefaultIamRecipients is true, and no channel or topic is told instead")


RULES: Final = (
    StackRule(
        name="alert-to-nobody",
        subject="alerting",
        statement="An alert policy tells someone.",
        evidence="without a working channel Cloud Monitoring opens an incident and notifies no one; a disabled policy opens none. "
        "Advisory: some alerts are only for a dashboard",
        fix="at least one enabled channel with an address, in the policy's project; remove a policy that no one needs",
        level="advisory",
        severity="medium",
        judge=_to_nobody,
    ),
    StackRule(
        name="page-to-nobody",
        subject="alerting",
        statement="A stack with alerts pages someone, unless it serves batches only; in production every page does.",
        evidence="pages that are disabled, lowered, without a working channel or never true are noticed at the next outage. Mandatory: "
        "nothing else watches at night",
        fix=f"an alert policy of severity {_PAGE} with an enabled channel",
        level="mandatory",
        severity="high",
        settings=(
            ENVIRONMENT,
            Setting(
                name="required", type="boolean", default=False, why="Whether a stack without alerts is a violation"
            ),
        ),
        judge=_no_page,
    ),
    ResourceRule(
        name="alert-never-fires",
        subject="alerting",
        statement="An alert or recording rule can be true, soon enough to matter.",
        evidence="an expression that no series can fulfil, and one that must hold for days, read like an alert and stay silent. Source: "
        "Prometheus documentation, operators; Cloud Monitoring API v3, AlertPolicy.Condition. Mandatory: it replaces an alert that works",
        fix="a threshold that the series can reach, and the duration of an outage that you want to hear of",
        level="mandatory",
        severity="high",
        settings=(
            Setting(name="mostSeconds", type="number", default=86_400, unit="s", why="longest duration of a condition"),
            Setting(name="mostPageSeconds", type="number", default=3600, unit="s", why="the same for a page"),
        ),
        judge=_never,
    ),
    ResourceRule(
        name="budget-warns-late",
        subject="alerting",
        statement="A budget warns someone before it is spent.",
        evidence="thresholds above 100 % and a budget without recipients warn when the money is gone, or never. Source: Cloud Billing "
        "documentation, budgets. Mandatory: it has no other effect",
        fix="thresholdRules: [{thresholdPercent: 0.5}, {thresholdPercent: 0.9}], and its default recipients or a channel",
        level="mandatory",
        severity="medium",
        judge=_late_budget,
    ),
)
