"""Section `monitoring`: managed Prometheus, the dashboard, alerts and where they go."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from settings.sections.section import Section, like

Severity = Literal["page", "ticket"]


class Channel(Section):
    """Where alerts go."""

    severities: Annotated[tuple[Severity, ...], Field(min_length=1)] = ("page", "ticket")
    """Which alerts: `page` (users are hurt now), `ticket` (a cause or a cost that can wait), or both."""


class Email(Channel):
    """Mail."""

    type: Literal["email"]
    """Which kind of channel."""
    address: Annotated[str, like(r"^[^@\s]+@[^@\s]+$", "an address, such as oncall@example.com")]
    """Who is written to; a group, so that nobody's holiday hides an alert."""


class Slack(Channel):
    """A channel of Slack. Its token is the secret key `vllm-fleet:slackToken`."""

    type: Literal["slack"]
    """Which kind of channel."""
    channel: Annotated[str, like(r"^#[^\s#]{1,80}$", 'a channel, such as "#llm-oncall"')]
    """Name of the channel, with its #."""


class PagerDuty(Channel):
    """A service of PagerDuty. Its integration key is the secret key `vllm-fleet:pagerdutyKey`."""

    type: Literal["pagerduty"]
    """Which kind of channel."""


class PubSub(Channel):
    """A topic of Pub/Sub, for programs."""

    type: Literal["pubsub"]
    """Which kind of channel."""
    topic: Annotated[str, like(r"^projects/[^/]+/topics/[^/]+$", "projects/PROJECT/topics/TOPIC")]
    """The topic. Cloud Monitoring's notification service agent needs roles/pubsub.publisher on it."""


class Webhook(Channel):
    """A web server that takes a POST with basic authentication. The password is the secret key `vllm-fleet:webhookPassword`."""

    type: Literal["webhook"]
    """Which kind of channel."""
    url: Annotated[str, like(r"^https://[^\s?@]+$", "an https address without user, password or query")]
    """Its address."""
    username: Annotated[str, Field(min_length=1)]
    """The user of that password."""


class Existing(Channel):
    """A channel that is there already: made in the console, as Slack's is best, or another stack's."""

    type: Literal["existing"]
    """Which kind of channel."""
    name: Annotated[
        str,
        like(r"^projects/[^/]+/notificationChannels/[^/]+$", "projects/PROJECT/notificationChannels/ID"),
    ]
    """Its full name: `gcloud beta monitoring channels list --format='value(name)'`."""


AnyChannel = Annotated[Email | Slack | PagerDuty | PubSub | Webhook | Existing, Field(discriminator="type")]


class Objectives(Section):
    """What is promised to users: alerts and SLOs are about it."""

    ttft_seconds: Annotated[float, Field(gt=0)] = 2.5
    """Latest good first token, seconds: a bound of vLLM's histogram (settings/signals/series.py). Default: assumed, for chat."""
    tpot_ms: Annotated[float, Field(gt=0)] = 100
    """Slowest good mean time per output token, milliseconds: a bound of vLLM's histogram. Default: assumed, faster than people read."""
    objective: Annotated[float, Field(ge=0.95, le=0.9999)] = 0.99
    """Share of requests that must be good, over 30 days. Below 0.95 a burn of 14.4 would be nearly all requests; Cloud Monitoring
    takes no more than 0.9999."""


class Alerts(Objectives):
    """Alerts, and SLOs if asked for. Cloud Monitoring bills each alert; docs/monitoring.md has the sum."""

    channels: Annotated[tuple[AnyChannel, ...], Field(min_length=1)]
    """Where they go. Pages and tickets each need one."""
    slos: bool = False
    """SLOs of what is promised, beside the alerts. To be turned on after the first scrape: Cloud Monitoring refuses an SLO on a metric
    that was never written in the project, and a first `pulumi up` would fail."""


class Monitoring(Section):
    """Managed Prometheus, and what is made of its series."""

    enabled: bool = True
    """Scrape the server (and the endpoint picker)."""
    interval_seconds: Annotated[int, Field(ge=5, le=300)] = 15
    """Seconds between two scrapes."""
    dashboard: bool | None = None
    """A dashboard in Cloud Monitoring, free of charge. Default: where there are alerts."""
    alerts: Alerts | None = None
    """Alerts and the log-based metrics that they need. Default: none."""

    @property
    def objectives(self) -> Objectives:
        """What is promised to users, said or by default."""
        return self.alerts or Objectives()

    @property
    def has_dashboard(self) -> bool:
        """Whether there is a dashboard."""
        return self.alerts is not None if self.dashboard is None else self.dashboard
