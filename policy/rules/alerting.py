"""Rules for alert policies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rule import Finding, Resource, Rule, Settings, dig

_POLICY: Final = "gcp:monitoring/alertPolicy:AlertPolicy"
_PAGE: Final = "CRITICAL"


def _without_channel(resource: Resource, _: Settings) -> Iterator[Finding]:
    if _is_on(resource) and not dig(resource.props, "notificationChannels"):
        yield Finding(what="notificationChannels is empty: an incident opens in the console and no one is notified")


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
        evidence="without one Cloud Monitoring opens an incident and notifies no one. Advisory: some alerts are only for a dashboard",
        fix="notification_channels with at least one channel, or enabled: false",
        level="advisory",
        severity="medium",
        judge=_without_channel,
    ),
    Rule(
        name="page-without-runbook",
        subject="alerting",
        statement="A page includes instructions.",
        evidence="Cloud Monitoring sends the policy's documentation with the message. Advisory: a pager may add its own",
        fix="documentation.content: first the command to type, then how to read its output",
        level="advisory",
        severity="low",
        judge=_page_without_runbook,
    ),
)
