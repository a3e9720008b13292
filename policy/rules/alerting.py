"""Alerts that fire and help nobody."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rule import Finding, Resource, Rule, Settings, dig

_POLICY: Final = "gcp:monitoring/alertPolicy:AlertPolicy"
_PAGE: Final = "CRITICAL"


def _tells_nobody(resource: Resource, _: Settings) -> Iterator[Finding]:
    if _is_on(resource) and not dig(resource.props, "notificationChannels"):
        yield Finding(what="notificationChannels is empty, so an incident opens in the console and nobody hears of it")


def _page_without_runbook(resource: Resource, _: Settings) -> Iterator[Finding]:
    page = str(dig(resource.props, "severity") or "") == _PAGE
    if _is_on(resource) and page and not str(dig(resource.props, "documentation", "content") or "").strip():
        yield Finding(what=f"severity is {_PAGE} and documentation.content is empty")


def _is_on(resource: Resource) -> bool:
    return resource.type == _POLICY and dig(resource.props, "enabled") is not False


RULES: Final = (
    Rule(
        name="alert-to-nobody",
        subject="alerting",
        statement="An alert policy has a notification channel.",
        evidence="Cloud Monitoring takes a policy without one, opens an incident and is silent. Advisory: some are for a dashboard",
        fix="notification_channels with at least one channel, or enabled: false",
        level="advisory",
        severity="medium",
        judge=_tells_nobody,
    ),
    Rule(
        name="page-without-runbook",
        subject="alerting",
        statement="An alert that wakes somebody says what to do.",
        evidence="the message is what somebody has at two in the morning; Cloud Monitoring sends the policy's documentation with it. "
        "Advisory: a pager may add its own",
        fix="documentation.content: the command to type first, then what it may show",
        level="advisory",
        severity="low",
        judge=_page_without_runbook,
    ),
)
