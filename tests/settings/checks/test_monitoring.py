"""Alerts that would tell nobody, or that nobody could count, are refused before they are made."""

from __future__ import annotations

from typing import Any

import pytest

from settings.load import check
from settings.problems import SettingsError
from tests.support.rows import each_row
from tests.support.settings import make_settings

EMAIL = {"type": "email", "address": "oncall@example.com"}


def refused(monitoring: dict[str, Any], **secrets: str) -> dict[str, str]:
    found = check(make_settings(monitoring=monitoring, **secrets))
    return {one.id: one.subject for one in found if one.severity == "error"}


def alerts(*channels: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"alerts": {"channels": list(channels or (EMAIL,)), **more}}


@each_row(
    ("monitoring", "id_", "path"),
    [
        ({"enabled": False, **alerts()}, "without-effect", "monitoring.alerts"),
        ({"enabled": False, "dashboard": True}, "without-effect", "monitoring.dashboard"),
        (alerts(ttftSeconds=3), "no-bucket", "monitoring.alerts.ttftSeconds"),
        (alerts(tpotMs=60), "no-bucket", "monitoring.alerts.tpotMs"),
        (alerts({**EMAIL, "severities": ["page"]}), "alert-to-nobody", "monitoring.alerts.channels"),
        (alerts({"type": "slack", "channel": "#llm"}), "channel-without-secret", "slackToken"),
        (alerts({"type": "pagerduty"}), "channel-without-secret", "pagerdutyKey"),
    ],
)
def test_what_would_stay_silent_is_refused(monitoring: dict[str, Any], id_: str, path: str) -> None:
    assert refused(monitoring) == {id_: f"vllm-fleet:{path}"}


def test_nothing_is_refused_of_an_address_a_dashboard_and_a_channel_with_its_secret() -> None:
    for monitoring in (alerts(), {"dashboard": True}, alerts({"type": "slack", "channel": "#llm"})):
        assert refused(monitoring, slackToken="made-up") == {}


@pytest.mark.parametrize(
    "alert",
    [
        {"channels": []},
        {"channels": [{"type": "carrier-pigeon"}]},
        {"channels": [EMAIL], "objective": 0.9},
        {"channels": [EMAIL], "objective": 1},
    ],
)
def test_a_section_that_says_nothing_useful_is_no_section(alert: dict[str, Any]) -> None:
    with pytest.raises(SettingsError):
        make_settings(monitoring={"alerts": alert})


def test_a_dashboard_comes_with_alerts_unless_it_is_refused() -> None:
    assert not make_settings().monitoring.has_dashboard
    assert make_settings(monitoring=alerts()).monitoring.has_dashboard
    assert not make_settings(monitoring={**alerts(), "dashboard": False}).monitoring.has_dashboard
