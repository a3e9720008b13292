"""Every case of a resource, judged by its rule alone. What the pack's own process says of it is in `test_mutants`."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest

import money
from facts.lessons.engine_lessons import ENGINE_LESSONS
from facts.lessons.verdict import REPEATED_ON_PURPOSE
from fleet.preview.record.recording import RecordedResource, Recording
from fleet.preview.record.values import reveal
from rule import Resource, ResourceRule, with_defaults
from tests.policy.case import Case
from tests.policy.cases import CASES
from tests.policy.mutation import mutated
from tests.policy.samples import message, rule_named
from tests.support.stacks import recorded_stack

ELSEWHERE = {REPEATED_ON_PURPOSE, *(one.name for one in ENGINE_LESSONS)}
"""No rule of its own, and the lessons, whose table has tests of its own: `test_lessons`."""
OF_RESOURCES = {
    subject: [case for case in cases if case.through == "resource" and case.rule not in ELSEWHERE]
    for subject, cases in CASES.items()
}


def seen(recording: Recording, *, by_inputs: bool) -> list[Resource]:
    """A stack as rules see it: by its inputs in a rule about a resource, by its outputs in one about a stack."""
    return [_seen(one, by_inputs=by_inputs) for one in recording.resources]


_SEEN: dict[tuple[int, bool], tuple[RecordedResource, Resource]] = {}
"""By identity: a mutant shares the unchanged stack's resources but for one or two. Kept alive, so that no identity returns."""


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
                dependencies=(*one.dependencies, one.parent),
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
    return sorted(told(case, mutated(case)) - usual(case.rule, case.stack, json.dumps(case.limits, sort_keys=True)))


@cache
def usual(rule: str, stack: str, limits: str) -> set[str]:
    """What a rule says of the unchanged stack."""
    case = Case(rule=rule, what="", through="resource", stack=stack, limits=json.loads(limits))
    return told(case, recorded_stack(stack))


@pytest.mark.parametrize("subject", sorted(OF_RESOURCES))
def test_a_rule_finds_what_breaks_it_and_nothing_else(golden: Callable[[str, str], None], subject: str) -> None:
    """The golden text has each finding, and of why and fix what it has beyond its rule's own text, which policy/README.md shows."""
    lines = []
    for case in OF_RESOURCES[subject]:
        said = verdicts(case)
        assert bool(said) is case.broken, (case.label, said)
        if case.unspeakable:
            assert case.unspeakable not in "".join(said)
        if case.limits:
            assert bool(verdicts(replace(case, limits={}))) is not case.broken, case.label
        rule = rule_named(case.rule)
        for one in said if case.broken else ():
            own = [line for line in one.splitlines() if line not in (f"why: {rule.evidence}", f"write: {rule.fix}")]
            lines += [f"# {case.label}", *own, ""]
    golden(f"policy/{subject}.txt", "\n".join(lines))
