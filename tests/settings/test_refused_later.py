"""What an API would refuse after the update has begun is refused, or found, by the settings."""

from __future__ import annotations

from typing import Any

import pytest

from facts.names import STACK_NAME
from settings.load import check
from settings.problems import SettingsError
from settings.stack import PROGRAM_LABELS
from settings.stack_file import read
from tests.support.rows import each_row
from tests.support.settings import make_settings


def problems(stack: str = "test", **sections: Any) -> dict[str, str]:
    """Paths of refusals and findings, with their ids."""
    try:
        found = check(make_settings(stack, **sections))
    except SettingsError as error:
        found = error.problems
    return {one.subject.removeprefix("vllm-fleet:"): one.id for one in found if one.severity != "note"}


def alerts(*channels: dict[str, Any]) -> dict[str, Any]:
    return {"monitoring": {"alerts": {"channels": list(channels)}}}


def networks(*given: dict[str, str]) -> dict[str, Any]:
    return {"cluster": {"ipEndpoint": {"enabled": True, "authorizedNetworks": list(given)}}}


OFFICES = [{"name": f"office {i}", "cidr": f"203.0.{i}.0/24"} for i in range(101)]


@each_row(
    ("sections", "path"),
    [
        ({"server": {"name": "a\n"}}, "server.name"),
        ({"server": {"name": "a\u200b"}}, "server.name"),
        (networks({"name": "a\n", "cidr": "10.0.0.0/8"}), "cluster.ipEndpoint.authorizedNetworks[0].name"),
        ({"server": {"image": {"repository": "a..b"}}}, "server.image.repository"),
        ({"server": {"image": {"repository": "a/b.-c"}}}, "server.image.repository"),
        ({"server": {"image": {"repository": "a___b"}}}, "server.image.repository"),
        ({"platform": {"kubeconfig": "a", "imagePrefix": "host..name/a"}}, "platform.imagePrefix"),
        ({"platform": {"kubeconfig": "a", "imagePrefix": "host/a..b"}}, "platform.imagePrefix"),
        ({"platform": {"kubeconfig": "a", "resultsBucket": "goog-mine"}}, "platform.resultsBucket"),
        ({"platform": {"kubeconfig": "a", "resultsBucket": "10.0.0.1"}}, "platform.resultsBucket"),
        ({"platform": {"kubeconfig": "a/"}}, "platform.kubeconfig"),
        (alerts({"type": "slack", "channel": "#A b"}), "monitoring.alerts.channels[0].channel"),
        (alerts({"type": "email", "address": "a@b"}), "monitoring.alerts.channels[0].address"),
        (alerts({"type": "email", "address": "a..b@example.com"}), "monitoring.alerts.channels[0].address"),
        (alerts({"type": "existing", "name": "projects/p/notificationChannels/1 2"}), "monitoring.alerts.channels[0].name"),
        (networks(*OFFICES), "cluster.ipEndpoint.authorizedNetworks"),
        ({"network": {"podCidr": "10.0.0.1/14"}}, "network.podCidr"),
        ({"network": {"nodeCidr": "8.8.0.0/20"}}, "network.nodeCidr"),
        ({"region": "europe-west99", "zones": ["europe-west99-a"]}, "gcp:region"),
        ({"region": "mars-east1", "zones": ["mars-east1-a"]}, "gcp:region"),
        ({"model": {"id": "a/b--c", "revision": "0" * 40, "sizeGb": 1}}, "model.id"),
        ({"model": {"id": "a/b..c", "revision": "0" * 40, "sizeGb": 1}}, "model.id"),
        ({"model": {"id": "a/b-", "revision": "0" * 40, "sizeGb": 1}}, "model.id"),
        ({"model": {"id": "a/b.git", "revision": "0" * 40, "sizeGb": 1}}, "model.id"),
        ({"model": {"id": "a/b", "revision": "0" * 40, "sizeGb": 1e12}}, "model.sizeGb"),
        ({"budget": {"billingAccount": "01ABCD-234567-89EFAB", "usdPerMonth": 10**30}}, "budget.usdPerMonth"),
        ({"labels": {"goog-mine": "a"}}, "labels.goog-mine"),
        *(({"labels": {label: "mine"}}, f"labels.{label}") for label in PROGRAM_LABELS),
    ],
)  # fmt: skip
def test_it_is_told_at_its_key(sections: dict[str, Any], path: str) -> None:
    assert path in problems(**sections)


@pytest.mark.parametrize(
    "sections",
    [
        {
            "server": {
                "image": {"repository": "my-team/vllm_0.1__b", "tag": "v0.18.0-cu130", "digest": f"sha256:{'0' * 64}"}
            }
        },
        {"server": {"engine": {"extraEnv": {"NOTE": "two\nlines"}}}},
        {"network": {"nodeCidr": "100.64.0.0/20"}},
        {"region": "us-central1", "zones": ["us-central1-f"]},
        {"labels": {"team": "inference"}},
        {"model": {"id": "Qwen/Qwen3.5-27B-FP8"}},
        alerts(
            {"type": "email", "address": "on.call+gpu@ops.example.com"},
            {"type": "existing", "name": "projects/my-project/notificationChannels/1234567890123456789"},
        ),
    ],
)
def test_what_the_apis_accept_is_accepted(sections: dict[str, Any]) -> None:
    allowed = {"zone-without-machine", "profile-of-another-model"}
    assert set(problems(**sections).values()) <= set(problems().values()) | allowed


@pytest.mark.parametrize("name", ["$(touch pwn)", "a b", "a\n", "-x", "..", "é", "a" * 101, "", "a/b/c", "`id`", "a;b"])
def test_a_stack_has_a_name_that_pulumi_and_a_shell_accept(name: str, tmp_path: Any) -> None:
    assert not STACK_NAME.fullmatch(name)
    assert problems(name)["--stack"] == "stack-name"
    with pytest.raises(SettingsError) as error:
        read(tmp_path, name)
    assert [one.id for one in error.value.problems] == ["stack-name"]
    assert all(name not in one.write for one in error.value.problems if name)
