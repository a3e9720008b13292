"""The mutation test works: a sample of mutants of real stacks, judged by the pack's own process."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.policy.case import DEPLOYMENT, drop, of_program, of_resource, put
from tests.policy.cases import CASES, MUTANTS
from tests.policy.mutation import (
    STACKS,
    Outcome,
    Pack,
    judge_mutants,
    judge_stack,
    kill_rate,
    mutated,
    table,
)
from tests.support.stacks import recorded_stack

pytestmark = pytest.mark.slow

HARMLESS = of_resource(MUTANTS[0].rule, "another label", put(DEPLOYMENT, "metadata.labels.team", value="inference"))

SECRETS = [one for one in MUTANTS if one.unspeakable]


@pytest.fixture(scope="module")
def pack() -> Iterator[Pack]:
    with Pack() as running:
        yield running


@pytest.fixture(scope="module")
def outcomes(pack: Pack) -> dict[str, Outcome]:
    """A sample, one mutant of each subject and all with a secret; `make mutants` reports on every one."""
    sample = [next(one for one in cases if one.broken) for cases in CASES.values()]
    return {one.mutant.label: one for one in judge_mutants(pack, [*sample, *SECRETS])}


@pytest.mark.parametrize("stack", STACKS)
def test_an_unchanged_stack_breaks_no_mandatory_rule(pack: Pack, stack: str) -> None:
    assert [one for one in judge_stack(pack, stack) if one.level == "mandatory"] == []


def test_every_mutant_is_about_a_rule_of_the_pack(pack: Pack) -> None:
    assert {one.rule for one in MUTANTS} <= pack.rules.keys()


def test_their_rules_catch_the_sample(outcomes: dict[str, Outcome]) -> None:
    assert [one.explanation for one in outcomes.values() if not one.killed] == []
    assert f"{len(outcomes)} of {len(outcomes)} killed (100%)" in kill_rate(list(outcomes.values()))


def test_no_verdict_repeats_a_secret(outcomes: dict[str, Outcome]) -> None:
    assert SECRETS
    for mutant in SECRETS:
        for one in outcomes[mutant.label].verdicts:
            assert mutant.unspeakable not in one.message, one.policy


def test_a_mutant_that_no_rule_catches_is_reported_alive(pack: Pack) -> None:
    (outcome,) = judge_mutants(pack, [HARMLESS])
    assert not outcome.killed
    assert "no rule did" in outcome.explanation
    assert "ALIVE" in table([outcome])
    assert "0 of 1 killed (0%)" in kill_rate([outcome])


def test_a_mutant_that_another_rule_catches_is_alive(outcomes: dict[str, Outcome]) -> None:
    caught = next(one for one in outcomes.values() if one.killed)
    renamed = replace(caught, mutant=replace(caught.mutant, rule="another-rule"))
    assert not renamed.killed
    assert caught.mutant.rule in renamed.explanation


def test_a_verdict_at_another_level_does_not_count(outcomes: dict[str, Outcome]) -> None:
    caught = next(one for one in outcomes.values() if one.level == "mandatory" and one.killed)
    softened = tuple(replace(one, level="advisory") for one in caught.verdicts)
    assert not replace(caught, verdicts=softened).killed


def test_an_edit_that_changes_nothing_is_no_mutant(pack: Pack) -> None:
    replicas = recorded_stack("dev").by_urn[_urn(DEPLOYMENT)].inputs["spec"]["replicas"]
    same = of_resource(MUTANTS[0].rule, "as it was", put(DEPLOYMENT, "spec.replicas", value=replicas))
    gone = of_resource(MUTANTS[0].rule, "not there", drop(DEPLOYMENT, "spec.notThere"))
    nothing = of_program(MUTANTS[0].rule, "the stack file as it is")
    found = judge_mutants(pack, [same, gone, nothing])
    assert [one.killed for one in found] == [False, False, False]
    assert "changes nothing" in found[0].problem
    assert "notThere" in found[1].problem
    assert found[2].problem


def test_an_edit_leaves_the_stack_itself_alone() -> None:
    before = recorded_stack("dev").by_urn[_urn(DEPLOYMENT)]
    other = mutated(HARMLESS).by_urn[before.urn]
    assert other.inputs["metadata"]["labels"]["team"] == other.outputs["metadata"]["labels"]["team"] == "inference"
    assert "team" not in before.inputs["metadata"]["labels"]


def _urn(name: str) -> str:
    return next(one.urn for one in recorded_stack("dev").resources if one.name == name)
