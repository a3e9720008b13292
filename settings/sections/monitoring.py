"""Section `monitoring`: managed Prometheus, dashboard, alerts and notification channels."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from settings.sections.section import HOST_PATTERN, Section, like

_WORD = r"[A-Za-z0-9!#\x24%&'*+/=?^_`{|}~-]{1,64}"
_EMAIL = rf"^{_WORD}(\.{_WORD}){{0,10}}@{HOST_PATTERN}\.[A-Za-z][A-Za-z0-9-]{{0,61}}[A-Za-z0-9]$"
"""Source: RFC 5321 and HTML, "Valid e-mail address", with a domain of two parts or more."""
_PROJECT = r"([a-z0-9.-]{1,60}:)?[a-z0-9][a-z0-9-]{0,62}"
"""A project's id, with a domain's, or its number."""
Severity = Literal["page", "ticket"]


class Channel(Section):
    """A notification channel."""

    severities: Annotated[tuple[Severity, ...], Field(min_length=1)] = ("page", "ticket")
    """Severities sent to this channel: `page` (users are affected now), `ticket` (can wait), or both."""


class Email(Channel):
    """Email."""

    type: Literal["email"]
    """Type of the channel."""
    address: Annotated[str, like(_EMAIL, "an address, such as oncall@example.com"), Field(max_length=254)]
    """Recipient; use a group address, so that alerts do not depend on one person."""


class Slack(Channel):
    """A Slack channel. Its token is the secret key `vllm-fleet:slackToken`."""

    type: Literal["slack"]
    """Type of the channel."""
    channel: Annotated[
        str, like(r"^#[^\sA-Z#@.,:;!?'\"`(){}\[\]<>/\\|]{1,80}$", 'a channel in lowercase, such as "#llm-oncall"')
    ]
    """Name of the channel, with #."""


class PagerDuty(Channel):
    """A PagerDuty service. Its integration key is the secret key `vllm-fleet:pagerdutyKey`."""

    type: Literal["pagerduty"]
    """Type of the channel."""


class Existing(Channel):
    """An existing channel of any kind, such as a webhook or a Pub/Sub topic: created in the console, as is best for Slack, or by another
    stack.
    """

    type: Literal["existing"]
    """Type of the channel."""
    name: Annotated[
        str,
        like(
            rf"^projects/{_PROJECT}/notificationChannels/[A-Za-z0-9_-]{{1,64}}$",
            "projects/PROJECT/notificationChannels/ID",
        ),
    ]
    """Full name of the channel; `gcloud beta monitoring channels list --format='value(name)'` lists them."""


AnyChannel = Annotated[Email | Slack | PagerDuty | Existing, Field(discriminator="type")]


class Objectives(Section):
    """Service level objectives, used by alerts."""

    ttft_seconds: Annotated[float, Field(gt=0)] = 2.5
    """Maximum time to first token of a good request in seconds, a bound of vLLM's histogram (facts/signals/series.py). The default is
    an assumption for chat."""
    tpot_ms: Annotated[float, Field(gt=0)] = 100
    """Maximum mean time per output token of a good request in milliseconds, a bound of vLLM's histogram. The default, an assumption, is
    faster than people read."""
    objective: Annotated[float, Field(ge=0.95, le=0.9999)] = 0.99
    """Share of requests that must be good over 30 days. Below 0.95 a burn rate of 14.4 would need nearly all requests to fail; Cloud
    Monitoring's maximum is 0.9999."""


class Alerts(Objectives):
    """Alerts. Cloud Monitoring bills each alert; docs/monitoring.md has the amount."""

    channels: Annotated[tuple[AnyChannel, ...], Field(min_length=1)]
    """Notification channels. Each of page and ticket needs at least one."""


class Monitoring(Section):
    """Managed Prometheus, dashboard and alerts."""

    enabled: bool = True
    """Scrape metrics of the servers and the endpoint picker."""
    interval_seconds: Annotated[int, Field(ge=5, le=300)] = 15
    """Scrape interval in seconds."""
    dashboard: bool | None = None
    """Create a dashboard in Cloud Monitoring, free of charge. Default: only with alerts."""
    alerts: Alerts | None = None
    """Alerts and the log-based metrics they need. Default: none."""

    @property
    def objectives(self) -> Objectives:
        """The objectives of the alerts, else the defaults."""
        return self.alerts or Objectives()

    @property
    def has_dashboard(self) -> bool:
        """Whether the stack has a dashboard."""
        return self.alerts is not None if self.dashboard is None else self.dashboard
