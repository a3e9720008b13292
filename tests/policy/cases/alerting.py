"""Cases of alerts that help nobody."""

from __future__ import annotations

from typing import Any

from tests.policy.case import Edit, Props, arguments, new, of_program, of_resource, result, sound


def _policy(**props: Any) -> Edit:
    whole = {
        "displayName": "an alert",
        "combiner": "OR",
        "conditions": [{"displayName": "a condition", "conditionPrometheusQueryLanguage": {"query": "up == 0"}}],
        "severity": "CRITICAL",
        "notificationChannels": ["projects/p/notificationChannels/1"],
        "documentation": {"content": "kubectl get pods"},
    }
    return new("an-alert", "gcp:monitoring/alertPolicy:AlertPolicy", whole | props, beside="platform-network-vpc")


def _told_to_nobody(props: Props) -> None:
    props["notification_channels"] = []


CASES = (
    of_program(
        "alert-to-nobody",
        "nobody is told",
        arguments("infra.alerting.monitoring.AlertPolicy", _told_to_nobody),
        stack="prod",
    ),
    of_program(
        "page-without-runbook", "no section", result("infra.alerting.runbook.section", lambda _: " "), stack="prod"
    ),
    of_resource("alert-to-nobody", "no channel", _policy(notificationChannels=[])),
    of_resource("alert-to-nobody", "no channels at all", _policy(notificationChannels=None)),
    sound("alert-to-nobody", "a channel", _policy()),
    sound("alert-to-nobody", "switched off", _policy(notificationChannels=[], enabled=False)),
    of_resource("page-without-runbook", "no words", _policy(documentation={"content": " "})),
    of_resource("page-without-runbook", "no documentation", _policy(documentation=None)),
    sound("page-without-runbook", "a command", _policy()),
    sound("page-without-runbook", "a ticket", _policy(severity="WARNING", documentation=None)),
)
