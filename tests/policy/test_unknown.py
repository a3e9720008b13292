"""Rules about values that a preview cannot know: what is known is judged, and nothing is guessed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from facts.finding import Finding
from rule import Resource, ResourceRule, with_defaults
from tests.policy.samples import rule_named, server
from values import UNKNOWN_TEXT, UnknownValueError, readable

TOKEN = "hf_" + "aB3" * 11


def rule(name: str) -> ResourceRule:
    found = rule_named(name)
    assert isinstance(found, ResourceRule)
    return found


def seen(type_: str, props: Mapping[str, Any]) -> Resource:
    return Resource(type=type_, props=readable(dict(props)))


def test_an_unknown_value_hides_no_secret_beside_it() -> None:
    env = [{"name": "VLLM_API_KEY", "value": UNKNOWN_TEXT}, {"name": "ANY", "value": TOKEN}]
    secrets = rule("secret-in-plain-text")
    judged = secrets.judge(
        seen("kubernetes:apps/v1:Deployment", server(container={"env": env}).props), with_defaults(secrets, {})
    )
    first: Finding = next(judged)
    assert "env[1].value" in str(first.found)
    with pytest.raises(UnknownValueError):
        next(judged)


def test_an_unknown_value_that_nothing_calls_a_secret_is_left_to_the_update() -> None:
    router = seen("gcp:compute/router:Router", {"network": UNKNOWN_TEXT, "names": [UNKNOWN_TEXT, "a"]})
    assert list(rule("secret-in-plain-text").judge(router, {})) == []


def test_an_account_that_is_not_made_yet_is_an_account() -> None:
    defaults = {"autoProvisioningDefaults": {"serviceAccount": UNKNOWN_TEXT}}
    cluster = seen("gcp:container/cluster:Cluster", {"enableAutopilot": True, "clusterAutoscaling": defaults})
    assert list(rule("node-account-default").judge(cluster, {})) == []
