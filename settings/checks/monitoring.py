"""Checks of the section `monitoring`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from facts.finding import Finding
from facts.signals.series import TPOT_BOUNDS, TTFT_BOUNDS
from settings.sections import monitoring as section
from settings.sections.section import NAMESPACE, key

if TYPE_CHECKING:
    from settings.stack import Settings


def monitoring_problems(settings: Settings) -> Iterator[Finding]:
    """Every problem of the section `monitoring`."""
    monitoring = settings.monitoring
    for name, wanted in (("alerts", monitoring.alerts is not None), ("dashboard", bool(monitoring.dashboard))):
        if wanted and not monitoring.enabled:
            yield Finding(
                id="nothing-to-watch",
                subject=key(f"monitoring.{name}"),
                found="(set)" if name == "alerts" else True,
                allowed="left out while monitoring.enabled is false",
                why="without scrapes there are no metrics, and no alert would fire",
                write=f"enabled: true, or remove {name}",
            )
    if monitoring.alerts is not None:
        yield from _bounds(monitoring.alerts)
        yield from _channels(settings, monitoring.alerts)


def _bounds(alerts: section.Alerts) -> Iterator[Finding]:
    milliseconds = tuple(round(bound * 1000, 6) for bound in TPOT_BOUNDS)
    for name, value, bounds in (
        ("ttftSeconds", alerts.ttft_seconds, TTFT_BOUNDS),
        ("tpotMs", alerts.tpot_ms, milliseconds),
    ):
        if value not in bounds:
            near = min(bounds, key=lambda bound: abs(bound - value))
            yield Finding(
                id="no-bucket",
                subject=key(f"monitoring.alerts.{name}"),
                found=value,
                allowed=", ".join(f"{bound:g}" for bound in bounds),
                why="vLLM counts requests in a histogram, which cannot be evaluated between two of its bounds",
                write=f"{name}: {near:g}",
            )


def _channels(settings: Settings, alerts: section.Alerts) -> Iterator[Finding]:
    path = key("monitoring.alerts.channels")
    for severity in ("ticket",) if settings.scales_by_batch else ("page", "ticket"):
        if (count := sum(severity in channel.severities for channel in alerts.channels)) > section.MOST_CHANNELS:
            yield Finding(
                id="too-many-channels",
                subject=path,
                found=count,
                allowed=f"up to {section.MOST_CHANNELS} channels of severity {severity}",
                why="Cloud Monitoring accepts no alerting policy with more",
                write="one group address or topic in place of several channels",
            )
        if not any(severity in channel.severities for channel in alerts.channels):
            yield Finding(
                id="alert-to-nobody",
                subject=path,
                found=[list(channel.severities) for channel in alerts.channels],
                allowed="at least one channel for each of page and ticket",
                why=f"alerts of severity {severity} would notify no one",
                write=f"severities: [page, ticket] on one channel, or a channel for {severity}",
            )
    seen: list[Any] = []
    for channel in alerts.channels:
        same = channel.model_copy(update={"severities": ()})
        if same in seen:
            yield Finding(
                id="channel-twice",
                subject=path,
                found=channel.type,
                allowed="each channel once",
                why="every alert would be sent twice",
                write="one channel with severities: [page, ticket]",
            )
        seen.append(same)
    for kind, name, there in (
        (section.Slack, "slackToken", settings.has_slack_token),
        (section.PagerDuty, "pagerdutyKey", settings.has_pagerduty_key),
        (section.Webhook, "webhookPassword", settings.has_webhook_password),
    ):
        if not there and any(isinstance(channel, kind) for channel in alerts.channels):
            yield Finding(
                id="channel-without-secret",
                subject=f"{NAMESPACE}:{name}",
                found=None,
                allowed="an encrypted value, or a channel {type: existing} instead",
                why="Cloud Monitoring cannot create the channel without it",
                write=f"pulumi config set --secret {NAMESPACE}:{name}",
            )
