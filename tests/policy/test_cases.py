"""Every case, judged by its rule alone; and one that breaks and one that is sound of each rule, by the pack's own process."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

import money
from facts.lessons.engine_lessons import ENGINE_LESSONS
from fleet.preview.policy import Violation, start
from fleet.preview.record.recording import RecordedResource, Recording
from fleet.preview.record.values import reveal
from rule import Resource, ResourceRule, all_rules, with_defaults
from tests.inventory import ROOT
from tests.policy.case import DEPLOYMENT, Case, broken, put
from tests.policy.cases import CASES, EVERY
from tests.policy.samples import message, rule_named
from tests.support.stacks import recorded_stack

LESSONS = {one.name for one in ENGINE_LESSONS}


def seen(recording: Recording, *, by_inputs: bool) -> list[Resource]:
    """A stack as rules see it: by its inputs in a rule about a resource, by its outputs in one about a stack."""
    return [_seen(one, by_inputs=by_inputs) for one in recording.resources]


_SEEN: dict[tuple[int, bool], tuple[RecordedResource, Resource]] = {}
"""By identity: a changed stack shares the unchanged one's resources but for one or two. Kept alive, so that no identity returns."""


def _seen(one: RecordedResource, *, by_inputs: bool) -> Resource:
    if (id(one), by_inputs) not in _SEEN:
        _SEEN[id(one), by_inputs] = (
            one,
            Resource(
                type=one.type,
                name=one.name,
                urn=one.urn,
                props=reveal(dict(one.inputs if by_inputs else one.outputs)),
                protect=one.protect,
                ignore_changes=one.ignore_changes,
            ),
        )
    return _SEEN[id(one), by_inputs][1]


def told(case: Case, recording: Recording) -> set[str]:
    rule = rule_named(case.rule)
    limits = with_defaults(rule, case.limits)
    if not isinstance(rule, ResourceRule):
        stack = money.with_region(seen(recording, by_inputs=False))
        names = {one.urn: one.name for one in stack}
        return {f"{names.get(one.subject, '')}: {message(rule, one)}" for one in rule.judge(stack, limits)}
    return {
        f"{one.name}: {message(rule, finding, at_stake=money.at_stake(one))}"
        for one in seen(recording, by_inputs=True)
        for finding in rule.judge(one, limits)
    }


def verdicts(case: Case) -> list[str]:
    """What the rule says that it does not say of the unchanged stack."""
    return sorted(told(case, case.recording) - usual(case))


@cache
def _usual(rule: str, stack: str, limits: str) -> set[str]:
    case = Case(rule=rule, what="", stack=stack, limits=json.loads(limits))
    return told(case, recorded_stack(stack))


def usual(case: Case) -> set[str]:
    """What a rule says of the unchanged stack."""
    return _usual(case.rule, case.stack, json.dumps(case.limits, sort_keys=True))


def test_every_rule_has_a_case_that_breaks_it_and_one_that_is_sound() -> None:
    judged = Counter((case.rule, case.broken) for case in EVERY)
    assert {rule for rule, _ in judged} == {one.name for one in all_rules()}
    assert [one.name for one in all_rules() if not (judged[one.name, True] and judged[one.name, False])] == []


@pytest.mark.parametrize("subject", sorted(CASES))
def test_a_rule_finds_what_breaks_it_and_nothing_else(golden: Callable[[str, str], None], subject: str) -> None:
    """The golden text has each finding, and of why and fix what it has beyond its rule's own text, which policy/README.md shows."""
    lines = []
    for case in CASES[subject]:
        said = verdicts(case)
        assert bool(said) is case.broken, (case.label, said)
        if case.unspeakable:
            assert case.unspeakable not in "".join(said)
        if case.limits:
            assert bool(verdicts(replace(case, limits={}))) is not case.broken, case.label
        rule = rule_named(case.rule)
        for one in said if case.broken and case.rule not in LESSONS else ():
            own = [line for line in one.splitlines() if line not in (f"why: {rule.evidence}", f"write: {rule.fix}")]
            lines += [f"# {case.label}", *own, ""]
    golden(f"policy/{subject}.txt", "\n".join(lines))


def test_an_edit_that_changes_nothing_is_an_error() -> None:
    same = broken("image-not-pinned", "as it was", put(DEPLOYMENT, "spec.replicas", value=1))
    with pytest.raises(ValueError, match="changes nothing"):
        assert same.recording


# By the pack's own process.

ONE_OF_EACH = {(case.rule, case.broken): case for case in reversed(EVERY)}
"""The first case of each rule that breaks it, and the first that is sound."""


def asked(stack: str, limits: Mapping[str, Any], cases: list[Case]) -> dict[str, set[Violation]]:
    """What the process says of each changed stack that it does not say of the unchanged one, by the case's label."""
    with start(ROOT / "policy", project="vllm-fleet", stack=stack, config=limits) as run:
        before = set(run.judge(recorded_stack(stack)))
        return {case.label: set(run.judge(case.recording)) - before for case in cases}


@pytest.mark.slow
@pytest.mark.parametrize("stack", sorted({case.stack for case in EVERY}))
def test_the_packs_process_finds_what_its_rules_find(stack: str) -> None:
    levels = {one.name: one.level for one in all_rules()}
    mine = [case for case in ONE_OF_EACH.values() if case.stack == stack]
    for limits in {json.dumps(case.config) for case in mine}:
        cases = [case for case in mine if json.dumps(case.config) == limits]
        for label, found in asked(stack, json.loads(limits), cases).items():
            (case,) = (case for case in cases if case.label == label)
            at = {one.level for one in found if one.policy == case.rule}
            assert at == ({levels[case.rule]} if case.broken else set()), label
            if case.unspeakable:
                assert all(case.unspeakable not in one.message for one in found), label
