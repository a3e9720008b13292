"""Checks of the section `monitoring`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from facts.finding import Finding
from facts.signals.series import TPOT_BOUNDS, TTFT_BOUNDS
from settings.row import Row
from settings.sections import monitoring as section
from settings.sections.section import NAMESPACE

if TYPE_CHECKING:
    from settings.stack import Settings

_BUCKET = Row(
    "no-bucket",
    "vLLM counts requests in a histogram, which cannot be evaluated between two of its bounds",
    "one of these bounds",
)
_NOBODY = Row(
    "alert-to-nobody",
    "alerts of a severity without a channel would notify no one",
    "severities: [page, ticket] on one channel, or a channel for each",
)
_NO_SECRET = Row(
    "channel-without-secret",
    "Cloud Monitoring cannot create the channel without it",
    "pulumi config set --secret KEY",
)


def monitoring_problems(settings: Settings) -> Iterator[Finding]:
    """Every problem of the section `monitoring`."""
    alerts = settings.monitoring.alerts
    if alerts is None:
        return
    milliseconds = tuple(round(bound * 1000, 6) for bound in TPOT_BOUNDS)
    for name, value, bounds in (
        ("ttftSeconds", alerts.ttft_seconds, TTFT_BOUNDS),
        ("tpotMs", alerts.tpot_ms, milliseconds),
    ):
        if value not in bounds:
            yield _BUCKET(f"monitoring.alerts.{name}", value, ", ".join(f"{bound:g}" for bound in bounds))
    path, channels = "monitoring.alerts.channels", alerts.channels
    for severity in ("ticket",) if settings.scales_by_batch else ("page", "ticket"):
        if not any(severity in channel.severities for channel in channels):
            found = [list(channel.severities) for channel in channels]
            yield _NOBODY(path, found, f"at least one channel for {severity}")
    for kind, name, there in (
        (section.Slack, "slackToken", settings.has_slack_token),
        (section.PagerDuty, "pagerdutyKey", settings.has_pagerduty_key),
    ):
        if not there and any(isinstance(channel, kind) for channel in channels):
            yield _NO_SECRET(f"{NAMESPACE}:{name}", None, "an encrypted value, or a channel {type: existing} instead")
