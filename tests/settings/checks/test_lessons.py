"""The article's lessons, held against stack files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from facts.finding import Finding
from facts.lessons.deliberate import DELIBERATE_EXCEPTIONS
from facts.lessons.engine_lessons import ENGINE_LESSONS
from facts.lessons.serving_advisories import IN_PRODUCTION
from settings.checks.declared_server import DeclaredServer, stack_file
from settings.checks.lessons import lessons
from settings.load import check
from settings.profiles import NAMES
from tests.support.lessons import CASES, Case
from tests.support.phases import PHASES
from tests.support.rows import each_row
from tests.support.settings import make_settings

LEVELS = {"mandatory": "error", "advisory": "warning"}
NAMED = {one.name: one for one in (*ENGINE_LESSONS, IN_PRODUCTION)}

GUIDE = Path(__file__).parents[3] / "docs" / "from-the-article.md"
DIGEST = f"sha256:{'0' * 64}"


def found(**sections: Any) -> dict[str, Finding]:
    server = {"replicas": 1, "profile": "record", **sections.pop("server", {})}
    return {problem.id: problem for problem in check(make_settings(server=server, **sections))}


OF_EACH = {(case.lesson, case.is_advisory): case for case in reversed(CASES) if case.broken}
"""What breaks a lesson, once for each: that a rule finds it in every spelling is shown by the pack, tests/policy/test_lessons.py."""


@each_row("case", [*OF_EACH.values(), *[case for case in CASES if not case.broken][:3]])
def test_a_stack_file_breaks_the_lesson_or_does_not(case: Case) -> None:
    told = NAMED[case.lesson]
    level = "warning" if case.is_advisory else LEVELS[told.level]
    repeated = [one for one in check(case.settings) if (one.id, one.severity) == (told.name, level)]
    on_purpose = [one for one in repeated if one.severity == "deliberate"]
    assert bool(set(repeated) - set(on_purpose)) is case.broken
    for problem in repeated:
        assert problem.subject.startswith("vllm-fleet:server.")
        assert problem.allowed
        assert problem.why
        assert problem.write
        assert not re.search(r"\{VLLM\w*\}", problem.text()), "a name in braces that was not replaced"
        assert "--" not in problem.write or problem.write.startswith("extraArgs: without --")


@each_row("case", [case for case in CASES if case.broken])
def test_what_it_says_to_write_mends_it(case: Case) -> None:
    lesson = next(one for one in ENGINE_LESSONS if one.name == case.lesson)
    (broken,) = lesson.judge(case.declared, lesson.defaults)
    if not broken.changes:
        return
    cpu: Any = broken.changes.get("cpu", case.cpu)
    options = {**case.options, **{name: value for name, value in broken.changes.items() if name != "cpu"}}
    for name in [name for name, value in options.items() if value is None and "." in name]:
        del options[name], options[name.partition(".")[0]]
    drafts = options.pop("speculative-config.num_speculative_tokens", None)
    if drafts:
        options["speculative-config"] = {"method": "mtp", "num_speculative_tokens": drafts}
    mended = Case(
        lesson=case.lesson,
        what="",
        stack=case.stack,
        options=options,
        tag=case.tag,
        cpu=cpu,
        needs=case.needs,
        model=case.model,
    )
    assert list(lesson.judge(mended.declared, lesson.defaults)) == []


def test_every_lesson_has_cases_of_both_kinds() -> None:
    assert {(one.lesson, one.broken) for one in CASES} == {
        (lesson.name, broken) for lesson in ENGINE_LESSONS for broken in (True, False)
    }


def test_every_option_that_a_lesson_or_an_exception_names_is_one_of_the_stack_file() -> None:
    for lesson in ENGINE_LESSONS:
        assert stack_file().text(lesson.evidence + lesson.fix)
    for exception in DELIBERATE_EXCEPTIONS:
        assert exception.lesson in NAMED
        for option in exception.options:
            assert stack_file().path(option).startswith("server.engine.")


ERROR, WARNING = "error", "warning"
BEFORE_PHASE_4 = {"prefix-caching-with-mtp": ERROR}
PHASE_1 = BEFORE_PHASE_4 | dict.fromkeys(
    ("tp8-on-one-gpu-model", "context-far-above-need", "sequences-below-load"), ERROR
)


@each_row(
    ("row", "taught"),
    [
        ("phases.tp8", PHASE_1),
        ("phases.tp8-mtp5", PHASE_1 | {"mtp-above-one": ERROR}),
        ("phases.dp8", BEFORE_PHASE_4 | {"context-far-above-need": ERROR}),
        ("phases.dp8-4096-095-crash", BEFORE_PHASE_4 | {"utilisation-with-mtp": ERROR}),
        ("phases.dp8-4096", BEFORE_PHASE_4),
        ("phases.mtp1-092", {"prefix-cache-never-hits": ERROR}),
        ("phases.mtp1-095", {"utilisation-with-mtp": WARNING}),
        (
            "phases.mtp2-095",
            {"mtp-above-one": WARNING, "utilisation-with-mtp": WARNING, "prefix-cache-never-hits": ERROR},
        ),
        ("phases.no-mtp-095", {}),
    ],
)
def test_a_phase_of_the_article_is_told_its_lessons_and_the_guide_lists_them(row: str, taught: dict[str, str]) -> None:
    told = lessons(make_settings(server={"replicas": 1, "engine": PHASES[row]}))
    assert {one.id: one.severity for one in told if one.severity in (ERROR, WARNING)} == taught
    (line,) = (line for line in GUIDE.read_text(encoding="utf-8").splitlines() if f"| `{row}` |" in line)
    *_, refused, warned, _ = line.split("|")
    listed = {
        id_: level for level, cell in ((ERROR, refused), (WARNING, warned)) for id_ in re.findall("`(.+?)`", cell)
    }
    assert listed == taught


def test_the_articles_printed_flags_are_told_one_way_out() -> None:
    """Its final list has neither the mamba flags nor max-num-seqs."""
    printed = {"enablePrefixCaching": True, "mambaCacheMode": None, "mambaBlockSize": None, "maxNumSeqs": None}
    problems = found(server={"engine": printed})
    assert {one.id for one in problems.values() if one.severity == "error"} == {"prefix-cache-never-hits"}
    mended = printed | {"enablePrefixCaching": None}
    assert (
        problems["prefix-cache-never-hits"].write
        == "enablePrefixCaching: null, mambaCacheMode: null, mambaBlockSize: null"
    )
    assert {one.severity for one in found(server={"engine": mended}).values()} == {"deliberate"}


def test_in_production_an_advisory_that_a_later_release_fixes_is_refused() -> None:
    production = {"labels": {"environment": "production"}}
    old = {"profile": "serve-chat", "engine": {"version": "0.18.1"}}
    for server in (old, {"profile": "record"}):
        assert "advisories-in-production" not in found(server=server)
        assert found(server=server, **production)["advisories-in-production"].severity == "error"
    assert "advisories-in-production" not in found(server={"profile": "serve-chat"}, **production)


def other_model(**engine: Any) -> set[str]:
    model = {"id": "meta-llama/Llama-3.1-8B-Instruct", "revision": "a" * 40, "sizeGb": 16.0}
    server = {"image": {"tag": "v0.18.0", "digest": DIGEST}, "engine": engine}
    return set(found(model=model, server=server))


def test_what_was_seen_of_one_family_is_not_held_against_another() -> None:
    of_the_family = {"deepgemm-accuracy", "mtp-above-one", "prefix-cache-never-hits"}
    changed = {"speculative": {"numSpeculativeTokens": 5}, "maxModelLen": None, "enableExpertParallel": True}
    assert not other_model(**changed) & of_the_family
    assert "tp8-on-one-gpu-model" in other_model(tensorParallelSize=8, dataParallelSize=1)


@each_row("profile", NAMES)
def test_no_flag_of_a_profiles_own_architecture_reaches_another_model(profile: str) -> None:
    model = {"id": "Qwen/Qwen3-32B", "revision": "a" * 40, "sizeGb": 33.0}
    settings = make_settings(server={"profile": profile}, model=model)
    flags = DeclaredServer(settings).flags.options
    assert not flags.keys() & {
        "speculative-config",
        "mamba-cache-mode",
        "mamba-block-size",
        "gdn-prefill-backend",
        "language-model-only",
    }
    own = "hermes" if settings.serving.profile.engine.tool_call_parser else None
    assert flags.get("tool-call-parser") == own
    assert flags.get("reasoning-parser") == settings.serving.profile.engine.reasoning_parser
    told = next(problem for problem in check(settings) if problem.id == "profile-of-another-model")
    assert all(name in told.allowed for name in settings.serving.left_out)


@pytest.mark.parametrize("model", ["Qwen/Qwen3.5-9B", "Qwen/Qwen3.5-27B-FP8"])
def test_a_model_of_the_profiles_family_keeps_its_flags(model: str) -> None:
    settings = make_settings(model={"id": model, "revision": "a" * 40, "sizeGb": 29.0})
    assert settings.serving.engine == settings.serving.profile.engine
    assert not settings.serving.left_out


@pytest.mark.parametrize(
    ("changes", "write"),
    [
        ({}, None),
        ({"moeBackend": None}, "flashinfer_cutlass"),
        ({"moeBackend": "flashinfer_trtllm"}, "flashinfer_cutlass"),
    ],
)
def test_the_mixture_of_experts_runs_kernels_that_write_nothing_into_the_image(
    changes: dict[str, Any], write: str | None
) -> None:
    model = {"id": "nvidia/Qwen3.5-397B-A17B-NVFP4", "revision": "a" * 40, "sizeGb": 250.0}
    problem = found(model=model, server={"profile": "397b-nvfp4", "engine": changes}).get("experts-write-into-image")
    assert (problem is None) == (write is None)
    if problem is not None and write is not None:
        assert (problem.severity, write in problem.write) == ("error", True)


def behind(**epp: int) -> dict[str, Any]:
    return {"gateway": {"enabled": True, **({"epp": epp} if epp else {})}}


@each_row(
    ("sections", "id_", "level"),
    [
        ({**behind(), "network": {"proxyOnly": {"enabled": False}}}, "gateway-without-proxy-only-subnet", "error"),
        (behind(), "gateway-without-proxy-only-subnet", None),
        # A picker is judged by its connections.
        ({**behind(cpu=4), "server": {"replicas": 4}}, "epp-undersized", "error"),
        ({**behind(cpu=4), "server": {"replicas": 3}}, "epp-undersized", None),
        ({**behind(cpu=10), "server": {"replicas": 4}}, "epp-undersized", None),
        (behind(replicas=2), "epp-replicas-are-standby", "warning"),
        ({"benchmark": {"enabled": True, "connectionsPerClient": 4000}}, "client-saturates", "error"),
    ],
)
def test_lessons_around_the_servers_are_told(sections: dict[str, Any], id_: str, level: str | None) -> None:
    problem = found(**sections).get(id_)
    assert (problem and problem.severity) == level
