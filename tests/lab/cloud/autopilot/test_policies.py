"""Autopilot's rules as they are written down: whole, sourced, bound to the right objects."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from lab.cloud.autopilot.policies import SYSTEM_NAMESPACES, Policy, policies
from tests.lab.cloud.autopilot.broken import BROKEN

BY_NAME = {one.name: one for one in policies()}


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


@pytest.mark.parametrize("policy", policies(), ids=lambda one: one.name)
def test_googles_own_namespaces_are_left_alone(policy: Policy) -> None:
    for binding in policy.bindings:
        (expression,) = binding["spec"]["matchResources"]["namespaceSelector"]["matchExpressions"]
        assert expression["operator"] == "NotIn"
        assert tuple(expression["values"]) == SYSTEM_NAMESPACES
        assert binding["spec"]["policyName"] == policy.name


def test_what_gke_refuses_is_refused_as_a_template_too() -> None:
    assert actions("autopilot-security") == {"pods": ["Deny"], "templates": ["Deny"]}


def test_what_gke_takes_and_never_runs_is_a_warning_on_the_template_and_refused_as_a_pod() -> None:
    assert actions("autopilot-no-node-comes") == {"pods": ["Deny"], "templates": ["Warn"]}


def test_what_autopilot_changes_is_never_refused() -> None:
    for policy in policies():
        if policy.effect in ("changed", "advised"):
            assert all(binding["spec"]["validationActions"] == ["Warn"] for binding in policy.bindings), policy.name


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


def test_pods_of_templates_have_the_variables_that_the_rules_use() -> None:
    for policy in policies():
        names = [variable["name"] for variable in policy.manifest["spec"].get("variables", ())]
        assert len(names) == len(set(names)), f"{policy.name}: a variable is declared twice"


def actions(name: str) -> dict[str, list[str]]:
    return {
        binding["metadata"]["name"].rpartition("-")[2]: binding["spec"]["validationActions"]
        for binding in BY_NAME[name].bindings
    }
