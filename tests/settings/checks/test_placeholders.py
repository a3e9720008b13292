"""Values of examples: refused once a stack has a project of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from facts.finding import Finding
from settings.checks.placeholders import PLACEHOLDER_PROJECT, STAND_IN_PROJECT, is_placeholder, placeholders
from tests.support.rows import each_row
from tests.support.settings import make_settings


def alerts(*channels: dict[str, Any]) -> dict[str, Any]:
    return {"monitoring": {"alerts": {"channels": tuple(channels)}}}


EMAIL = alerts({"type": "email", "address": "oncall@example.com"})


@each_row(
    ("value", "is_one"),
    [
        ("oncall@example.com", True),
        ("llm-oncall@alerts.EXAMPLE.org", True),
        ("https://alerts.example.com/vllm", True),
        ("https://hooks.acme.test:8443/x", True),
        ("user:ada@example.net", True),
        ("llm.example.com", True),
        ("projects/your-project-id/topics/pages", True),
        ("projects/PROJECT/notificationChannels/ID", True),
        ("your-bucket", True),
        ("012345-567890-ABCDEF", True),
        ("billingAccounts/000000-000000-000000", True),
        ("changeme", True),
        ("oncall@acme.com", False),
        ("oncall@example.company.com", False),
        ("https://hooks.acme.com/?to=a@example.com", False),
        ("acme/my-model", False),
        ("my-reservation", False),
        ("01A2B3-C4D5E6-F7A8B9", False),
        ("as in oncall@example.com", False),
        ("registry/testament", False),
    ],
)
def test_a_value_of_an_example_is_one(value: str, is_one: bool) -> None:
    assert is_placeholder(value) is is_one


@each_row(
    ("project", "sections", "told"),
    [
        ("acme-prod", EMAIL, {"vllm-fleet:monitoring.alerts.channels[0].address": "error"}),
        (STAND_IN_PROJECT, EMAIL, {"vllm-fleet:monitoring.alerts.channels[0].address": "note"}),
        (
            PLACEHOLDER_PROJECT,
            EMAIL,
            {"gcp:project": "error", "vllm-fleet:monitoring.alerts.channels[0].address": "error"},
        ),
        (
            "acme-prod",
            alerts({"type": "existing", "name": "projects/your-project-id/notificationChannels/1"}),
            {"vllm-fleet:monitoring.alerts.channels[0].name": "error"},
        ),
        ("acme-prod", {"platform": {"stack": "your-org/vllm-fleet/base"}}, {"vllm-fleet:platform.stack": "error"}),
        ("acme-prod", {"labels": {"team": "your-team"}}, {}),
        ("acme-prod", {}, {}),
    ],
)
def test_placeholders_are_refused_where_they_would_do_harm(
    project: str, sections: dict[str, Any], told: dict[str, str]
) -> None:
    found: Iterator[Finding] = placeholders(make_settings(project=project, **sections))
    assert {finding.subject: finding.severity for finding in found} == told
