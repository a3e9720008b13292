"""The article's lessons, held against stack files."""

from __future__ import annotations

from typing import Any

import pytest

from settings.checks.declared_server import DeclaredServer, stack_file
from settings.checks.lessons import lesson_named
from settings.load import check
from settings.problems import Problem
from settings.rules.engine_lessons import ENGINE_LESSONS
from tests.support.lessons import CASES, PROFILES, Case
from tests.support.settings import make_settings

LEVELS = {"mandatory": "refused", "advisory": "finding"}


def found(**sections: Any) -> dict[str, Problem]:
    server = {"replicas": 1, "profile": "record", **sections.pop("server", {})}
    return {problem.id: problem for problem in check(make_settings(server=server, **sections))}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)
def test_a_stack_file_breaks_the_lesson_or_does_not(case: Case) -> None:
    told = lesson_named(case.lesson)
    settings = make_settings(server={"replicas": 1, "profile": PROFILES[case.stack], **case.server})
    repeated = [one for one in check(settings) if (one.id, one.level) == (told.id, LEVELS[told.level])]
    on_purpose = [one for one in repeated if one.on_purpose]
    assert bool(set(repeated) - set(on_purpose)) is case.broken
    for problem in repeated:
        assert problem.path.startswith("vllm-fleet:server.")
        assert problem.allowed
        assert problem.why
        assert problem.write
        assert "{VLLM" not in problem.text()
        assert "--" not in problem.write


@pytest.mark.parametrize("case", [case for case in CASES if case.broken], ids=lambda case: case.label)
def test_what_it_says_to_write_mends_it(case: Case) -> None:
    lesson = next(one for one in ENGINE_LESSONS if one.name == case.lesson)
    (broken,) = lesson.judge(case.declared, lesson.defaults)
    if not broken.changes:
        return
    cpu: Any = broken.changes.get("cpu", case.cpu)
    options = {**case.options, **{name: value for name, value in broken.changes.items() if name != "cpu"}}
    drafts = options.pop("speculative-config.num_speculative_tokens", None)
    if drafts:
        options["speculative-config"] = {"method": "mtp", "num_speculative_tokens": drafts}
    mended = Case(
        lesson=case.lesson, what="", stack=case.stack, options=options, tag=case.tag, cpu=cpu, needs=case.needs
    )
    assert list(lesson.judge(mended.declared, lesson.defaults)) == []


def test_every_lesson_has_cases_of_both_kinds() -> None:
    assert {(one.lesson, one.broken) for one in CASES} == {
        (lesson.name, broken) for lesson in ENGINE_LESSONS for broken in (True, False)
    }


def test_every_option_that_a_lesson_names_is_one_of_the_stack_file() -> None:
    for lesson in ENGINE_LESSONS:
        assert stack_file().text(lesson.evidence + lesson.fix)
        for option in lesson.reads:
            assert stack_file().path(option).startswith("server.engine.")


def test_the_record_repeats_its_lessons_on_purpose_as_findings() -> None:
    problems = found()
    assert problems["prefix-cache-never-hits"].on_purpose
    assert not [problem for problem in problems.values() if problem.level == "refused"]


def test_a_lesson_repeated_by_hand_is_refused() -> None:
    by_hand = found(server={"engine": {"enablePrefixCaching": True}})["prefix-cache-never-hits"]
    assert (by_hand.level, by_hand.on_purpose) == ("refused", False)


def test_a_release_that_refuses_to_start_reproduces_nothing() -> None:
    problems = found(server={"image": {"tag": "v0.20.2"}, "profile": "dp8-4096"})
    assert problems["max-num-seqs-refused"].level == "refused"
    assert problems["image-not-checked"].level == "finding"


def other_model(**engine: Any) -> set[str]:
    model = {"id": "meta-llama/Llama-3.1-8B", "revision": "a" * 40, "sizeGb": 16.0}
    server = {"image": {"tag": "v0.18.0"}, "engine": engine}
    return set(found(model=model, server=server))


def test_what_was_seen_of_one_family_is_not_held_against_another() -> None:
    of_the_family = {"deepgemm-accuracy", "mtp-above-one", "context-far-above-need", "prefix-cache-never-hits"}
    changed = {"speculative": {"numSpeculativeTokens": 5}, "maxModelLen": None, "enableExpertParallel": True}
    assert not other_model(**changed) & {*of_the_family, "expert-parallel-on-dense-model"}
    assert "tp8-on-one-gpu-model" in other_model(tensorParallelSize=8, dataParallelSize=1)


def test_extra_arguments_count() -> None:
    settings = make_settings(server={"profile": "record", "engine": {"extraArgs": ["--data-parallel-size-local=2"]}})
    assert DeclaredServer(settings).flags.engines == 2


@pytest.mark.parametrize("family", ["c4", "n4", "e2"])
def test_a_writer_that_cannot_attach_the_volume_is_refused(family: str) -> None:
    assert found(weights={"writer": {"machineFamily": family}})["writer-cannot-attach"].level == "refused"


def test_a_gateway_without_its_subnet_is_refused() -> None:
    problems = found(gateway={"enabled": True}, network={"proxyOnly": {"enabled": False}})
    assert problems["gateway-without-proxy-only-subnet"].level == "refused"
    assert "gateway-without-proxy-only-subnet" not in found(gateway={"enabled": True})


@pytest.mark.parametrize(("replicas", "cpu", "level"), [(4, 4, "refused"), (3, 4, None), (4, 10, None)])
def test_a_small_endpoint_picker_is_judged_by_its_connections(replicas: int, cpu: int, level: str | None) -> None:
    gateway = {"enabled": True, "epp": {"cpu": cpu}}
    problem = found(gateway=gateway, server={"replicas": replicas}).get("epp-undersized")
    assert (problem and problem.level) == level


def test_endpoint_picker_replicas_are_standby_and_said_to_be() -> None:
    assert found(gateway={"enabled": True, "epp": {"replicas": 2}})["epp-replicas-are-standby"].level == "finding"


def test_a_benchmark_client_that_saturates_is_refused() -> None:
    problem = found(benchmark={"enabled": True, "connectionsPerClient": 4000})["client-saturates"]
    assert problem.level == "refused"
    assert "242K" in problem.why
