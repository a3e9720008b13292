"""A first preview of a stack that makes its cluster: the engine sends no outputs of Kubernetes objects, only their inputs.

Source: pulumi 3.259.0, pkg/resource/plugin/provider_plugin.go (Create); pkg/resource/deploy/step_generator.go (AnalyzeResources).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fleet.preview.policy import PolicyRun, find_pack, start
from fleet.preview.record.recording import Recording
from fleet.preview.record.values import UNKNOWN, merge
from rule import Resource, StackRule, with_defaults
from tests.inventory import ROOT
from tests.policy.case import Case, delete, edited
from tests.policy.cases import EVERY
from tests.policy.samples import message, rule_named
from tests.policy.test_cases import seen
from tests.policy.test_server import Pack, pack, started  # noqa: F401 - fixtures
from tests.support.rows import each_row
from tests.support.stacks import recorded_stack

OF_STACKS = [case for case in EVERY if isinstance(rule_named(case.rule), StackRule)]
CANNOT_BE_KNOWN = {"public-grant", "broad-roles"}
"""They ask who gets a role: service accounts that Google has still to name."""
DENY = "NetworkPolicy/default-deny"


def judged_by(rule: str, recording: Recording, limits: Mapping[str, Any], *, by_inputs: bool) -> set[str]:
    stack_rule = rule_named(rule)
    assert isinstance(stack_rule, StackRule)
    outputs = {one.urn: one for one in seen(recording, by_inputs=False)}
    inputs = {one.urn: one for one in seen(recording, by_inputs=True)}
    stack = [inputs[urn] if by_inputs and one.is_kubernetes else one for urn, one in outputs.items()]
    return {
        f"{one.subject}: {message(stack_rule, one)}"
        for one in stack_rule.judge(stack, with_defaults(stack_rule, limits))
    }


@each_row("case", OF_STACKS)
def test_a_stack_rule_finds_in_inputs_what_it_finds_in_outputs(case: Case) -> None:
    recording = case.recording
    by_outputs = judged_by(case.rule, recording, case.limits, by_inputs=False)
    assert judged_by(case.rule, recording, case.limits, by_inputs=True) == by_outputs


def run(stack: str, **config: Any) -> PolicyRun:
    pack_folder = find_pack(ROOT)
    assert pack_folder is not None
    return start(pack_folder, project="vllm-fleet", stack=stack, config=config)


def mandatory(recording: Recording, **config: Any) -> set[str]:
    with run(recording.stack, **config) as asked:
        return {one.policy for one in asked.judge(recording) if one.level == "mandatory"}


def test_no_shipped_stack_is_blocked_and_its_weakenings_are() -> None:
    assert mandatory(recorded_stack("dev")) == set()
    ceiling = {"hourly-cost-above-ceiling": {"maxUsdPerHour": 1}}
    assert mandatory(edited("dev", delete(DENY)), **ceiling) == {
        "namespace-without-network-policy",
        "hourly-cost-above-ceiling",
    }


def test_only_rules_about_accounts_wait_for_the_update() -> None:
    with run("prod") as asked:  # which makes what smoke and spot make, and more
        found = asked.judge(recorded_stack("prod", "preview"))
    waiting = {
        one.policy for one in found if one.message.startswith("can't run policy") and "during preview" in one.message
    }
    assert waiting
    assert waiting <= CANNOT_BE_KNOWN


def test_a_warm_pack_judges_by_the_inputs_of_now() -> None:
    sound, weak = recorded_stack("dev"), edited("dev", delete(DENY))
    unknown = replace(sound, resources=tuple(_without_name(one) for one in sound.resources))
    with run("dev") as asked:
        for recording in (sound, unknown, weak, unknown, sound, weak):
            found = {one.policy for one in asked.judge(recording)}
            assert recording is unknown or ("namespace-without-network-policy" in found) == (recording is weak)


def _without_name(resource: Any) -> Any:
    if resource.inputs.get("metadata", {}).get("name") != "default-deny":
        return resource
    return replace(resource, inputs=merge(dict(resource.inputs), {"metadata": {"namespace": UNKNOWN}}))


def test_in_a_preview_the_program_knows_every_namespace() -> None:
    for stack in ("smoke", "prod"):
        recording = recorded_stack(stack, "preview")
        spaces = [one.inputs["metadata"].get("namespace") for one in recording.resources if "metadata" in one.inputs]
        assert spaces
        assert UNKNOWN not in spaces


def test_objects_of_an_unconfigured_provider_have_no_outputs_in_a_preview() -> None:
    recording = recorded_stack("smoke", "preview")
    assert {bool(one.outputs) for one in recording.resources if one.is_kubernetes} == {False}
    assert all(one.outputs for one in recording.resources if one.custom and one.type.startswith("gcp:compute"))


def test_a_stacks_own_estimate_counts_against_its_ceiling(pack: Pack) -> None:  # noqa: F811 - the fixture
    stack = Resource(type="pulumi:pulumi:Stack", urn="urn:stack", props={"usdPerHour": 12.5})
    for ceiling, blocked in ((12, True), (13, False)):
        for price in ({}, {"usdPerNodeHour": 1}):
            pack.configure({"hourly-cost-above-ceiling": {"maxUsdPerHour": ceiling, **price}})
            assert ("hourly-cost-above-ceiling" in pack.judge_stack(stack)) == blocked


def test_objects_that_no_policy_was_asked_about_are_not_taken_for_sound(pack: Pack) -> None:  # noqa: F811 - the fixture
    unseen = Resource(type="kubernetes:core/v1:Namespace", urn="urn:never-asked-about", name="space", props={})
    level, text = pack.judge_stack(unseen)["namespace-without-network-policy"]
    assert level == "mandatory"
    assert "1 Kubernetes objects" in text
