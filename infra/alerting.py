"""Alert policies, notification channels and log-based metrics of the catalogue."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

import pulumi
from pulumi_gcp import logging, monitoring

from facts.signals import runbook
from facts.signals.model import Alert, Catalogue, LogSignal
from infra.naming import title
from settings.sections import monitoring as section

MAX_TITLE: Final = 512
"""Longest display name. Source: Cloud Monitoring API v3, AlertPolicy.displayName."""
MAX_SUBJECT: Final = 255
"""Source: the same, Documentation.subject."""
AUTO_CLOSE: Final = "1800s"
"""Incidents without data close after half an hour, the minimum: deleted pods report nothing."""
BUCKETS: Final = logging.MetricBucketOptionsArgs(
    exponential_buckets=logging.MetricBucketOptionsExponentialBucketsArgs(
        num_finite_buckets=12, growth_factor=2, scale=1
    )
)
"""Of a distribution, of which only sum and number are read. The API demands some: Cloud Logging, LogMetric, bucketOptions."""
SEVERITIES: Final = {"page": "CRITICAL", "ticket": "WARNING"}


class ChannelSecrets(Protocol):
    """Secrets of channels; each is required by a channel of that type."""

    @property
    def slack_token(self) -> pulumi.Input[str] | None:
        """Token of Slack."""

    @property
    def pagerduty_key(self) -> pulumi.Input[str] | None:
        """Integration key of PagerDuty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertingArgs:
    """Arguments of `Alerting`."""

    signals: Catalogue
    """The catalogue of signals."""
    alerts: section.Alerts
    """Notification channels, one or more for each severity of the alerts: an alert without one tells nobody."""
    user_labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of policies and channels, which a provider's default labels do not reach."""
    secrets: ChannelSecrets
    """Secrets for Slack and PagerDuty."""
    dashboard_url: pulumi.Input[str] | None = None
    """Linked in every message."""


class Alerting(pulumi.ComponentResource):
    """One policy with one condition for each alert; its message is the alert's section of the runbook.

    Without uptime checks or Alertmanager: Cloud Monitoring evaluates the expressions and sends the messages.
    """

    def __init__(self, name: str, args: AlertingArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("vllm-fleet:infra:Alerting", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        signals = args.signals
        counted = {log.name: _log_metric(f"{name}-{log.name}", log, child) for log in signals.logs}
        channels = list(self._channels(name, args, child))
        for alert in signals.alerts:
            # Its metric first: log entries before the metric exists are never counted.
            reads = [metric for log, metric in counted.items() if re.search(rf"user_{log}(_sum|_count)?{{", alert.expr)]
            to = [known for channel, known in channels if alert.severity in channel.severities]
            after = pulumi.ResourceOptions(parent=self, depends_on=reads)
            _policy(f"{name}-{alert.name}", args, alert, to, after)
        self.register_outputs({})

    def _channels(
        self, name: str, args: AlertingArgs, opts: pulumi.ResourceOptions
    ) -> Iterator[tuple[section.AnyChannel, pulumi.Input[str]]]:
        taken: dict[str, int] = {}
        for channel in args.alerts.channels:
            if isinstance(channel, section.Existing):
                yield channel, channel.name
                continue
            labels, secret, what = _labels_of(channel, args.secrets)
            named = f"{name}-{channel.type}-{what}" if what else f"{name}-{channel.type}"
            # Two channels may get the same name, such as a.b@ and a-b@: the first keeps the plain name.
            taken[named] = taken.get(named, 0) + 1
            unique = named if taken[named] == 1 else f"{named}-{_short(labels)}"
            yield channel, self._channel(unique, args, channel, labels, secret, what, opts)

    @staticmethod
    def _channel(
        name: str,
        args: AlertingArgs,
        channel: section.AnyChannel,
        labels: dict[str, str],
        secret: monitoring.NotificationChannelSensitiveLabelsArgs | None,
        what: str,
        opts: pulumi.ResourceOptions,
    ) -> pulumi.Input[str]:
        created = monitoring.NotificationChannel(
            name,
            type=channel.type,
            display_name=title(f"vllm-fleet {pulumi.get_stack()}: {channel.type} {what}".rstrip(), MAX_TITLE),
            labels=labels,
            sensitive_labels=secret,
            user_labels=dict(args.user_labels),
            # Manually created policies may use it too: Google then refuses to delete it.
            force_delete=False,
            opts=opts,
        )
        return created.id


def _labels_of(
    channel: section.AnyChannel, secrets: ChannelSecrets
) -> tuple[dict[str, str], monitoring.NotificationChannelSensitiveLabelsArgs | None, str]:
    """Labels, secret, and the part of its name that is unique for its type.

    Source: Cloud Monitoring API v3, notificationChannelDescriptors.
    """
    hidden = monitoring.NotificationChannelSensitiveLabelsArgs
    match channel:
        case section.Email():
            return {"email_address": channel.address}, None, _plain(channel.address)
        case section.Slack():
            return {"channel_name": channel.channel}, hidden(auth_token=secrets.slack_token), _plain(channel.channel)
        case section.PagerDuty():
            return {}, hidden(service_key=secrets.pagerduty_key), ""
        case _:
            raise ValueError(f"channel type {channel.type} cannot be created")


def _short(labels: dict[str, str]) -> str:
    return hashlib.sha256(repr(sorted(labels.items())).encode()).hexdigest()[:6]


def _plain(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def _log_metric(name: str, log: LogSignal, opts: pulumi.ResourceOptions) -> logging.Metric:
    return logging.Metric(
        name,
        # Explicit name, because expressions use it.
        name=log.name,
        description=log.why,
        filter=log.filter,
        label_extractors=dict(log.labels) or None,
        value_extractor=log.value,
        bucket_options=None if log.value is None else BUCKETS,
        metric_descriptor=logging.MetricMetricDescriptorArgs(
            metric_kind="DELTA",
            value_type="INT64" if log.value is None else "DISTRIBUTION",
            unit="1",
            labels=[
                logging.MetricMetricDescriptorLabelArgs(key=key, value_type="STRING") for key in sorted(log.labels)
            ],
        ),
        opts=opts,
    )


def _policy(
    name: str, args: AlertingArgs, alert: Alert, channels: list[pulumi.Input[str]], opts: pulumi.ResourceOptions
) -> None:
    watched = args.signals.watched
    links = None
    if args.dashboard_url is not None:
        links = [monitoring.AlertPolicyDocumentationLinkArgs(display_name="Dashboard", url=args.dashboard_url)]
    monitoring.AlertPolicy(
        name,
        display_name=title(f"vllm-fleet {pulumi.get_stack()}: {alert.name}", MAX_TITLE),
        combiner="OR",
        severity=SEVERITIES[alert.severity],
        conditions=[
            monitoring.AlertPolicyConditionArgs(
                display_name=title(alert.summary, MAX_TITLE),
                condition_prometheus_query_language=monitoring.AlertPolicyConditionConditionPrometheusQueryLanguageArgs(
                    query=alert.expr,
                    duration=f"{alert.for_seconds}s",
                    evaluation_interval=f"{alert.every_seconds}s",
                    alert_rule=alert.name,
                    labels={"severity": alert.severity},
                    # Otherwise a new stack's policies are refused: their metrics were never written.
                    disable_metric_validation=True,
                ),
            )
        ],
        notification_channels=channels,
        alert_strategy=monitoring.AlertPolicyAlertStrategyArgs(auto_close=AUTO_CLOSE),
        documentation=monitoring.AlertPolicyDocumentationArgs(
            content=runbook.section(alert.name, watched),
            mime_type="text/markdown",
            subject=title(f"{alert.severity}: {alert.summary}", MAX_SUBJECT),
            links=links,
        ),
        user_labels={**args.user_labels, "severity": alert.severity, "question": alert.question},
        opts=opts,
    )
