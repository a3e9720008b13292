"""Autopilot's rules as they are written down: whole, sourced, bound to the right objects."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from lab.autopilot.policies import Policy, policies
from tests.lab.autopilot.broken import BROKEN


@pytest.mark.parametrize("policy", policies(), ids=lambda one: one.name)
def test_every_policy_says_where_its_rule_is_written(policy: Policy) -> None:
    assert any(word in policy.source for word in ("docs", "autoscaler", "Warden", "driver")), policy.source
    assert len(policy.source) > 30


@pytest.mark.parametrize("policy", policies(), ids=lambda one: one.name)
def test_every_rule_says_what_it_saw_and_what_to_write(policy: Policy) -> None:
    for validation in policy.manifest["spec"]["validations"]:
        assert "messageExpression" in validation, validation
        assert "message" not in validation, "a fixed message would hide an expression that fails"
        assert validation["reason"] == "Forbidden"
        in_one_piece = re.sub(r"' \+ '", "", validation["messageExpression"])
        assert ". " in in_one_piece, "problem first, then what to write"


def test_every_rule_has_an_object_that_breaks_it() -> None:
    broken = Counter((one.policy, one.rule) for one in BROKEN)
    rules = {
        (policy.name, rule) for policy in policies() for rule in range(len(policy.manifest["spec"]["validations"]))
    }
    assert broken.keys() == rules
    assert set(broken.values()) == {1}


def test_a_controllers_pod_is_looked_at_by_one_policy_alone() -> None:
    """A thousand pods at 2 ms and policy are seconds of an API server's time; their template was looked at by all."""
    every_pod = [
        policy.name
        for policy in policies()
        if policy.subject == "pods"
        for binding in policy.bindings
        if binding["metadata"]["name"].endswith("-pods") and "objectSelector" not in binding["spec"]["matchResources"]
    ]
    assert every_pod == ["autopilot-no-node-comes"]
