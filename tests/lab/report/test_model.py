from __future__ import annotations

import dataclasses

import pytest

from facts.finding import Finding
from fleet.report.as_json import json_text
from lab.report.model import RehearsalReport, redacted
from lab.report.outline import outline
from lab.results.result import DrillResult
from tests.lab.report.samples import (
    TOKEN,
    bring_up,
    late_class,
    preempt_four,
    sample_report,
    to_zero,
)


def with_findings(drill: DrillResult, *findings: Finding) -> DrillResult:
    return dataclasses.replace(drill, findings=findings)


ERROR = Finding(id="a", subject="Deployment/qwen35-server", found="it never starts", write="mend it")
WARNING = Finding(id="b", severity="warning", subject="Job/benchmark", found="it is slow", write="nothing")


def bare(*drills: DrillResult) -> RehearsalReport:
    return dataclasses.replace(sample_report(), drills=drills)


@pytest.mark.parametrize(
    ("report", "passed", "verdict"),
    [
        (sample_report(), False, "2 of 5 drills failed, 1 skipped, 1 error, 1 warning"),
        (bare(preempt_four()), True, "1 drill passed"),
        (bare(preempt_four(), to_zero()), True, "1 drill passed, 1 skipped"),
        (bare(to_zero()), True, "No drill applies to this stack, 1 skipped"),
        (bare(), True, "no drill was played"),
        (bare(with_findings(preempt_four(), ERROR)), False, "1 of 1 drill failed, 1 error"),
        (bare(with_findings(preempt_four(), WARNING)), True, "1 drill passed, 1 warning"),
        (bare(late_class()), False, "1 of 1 drill failed"),
    ],
)
def test_the_verdict_counts_drills_and_findings(report: RehearsalReport, passed: bool, verdict: str) -> None:
    assert (report.passed, report.verdict) == (passed, verdict)


def test_a_finding_of_several_drills_is_listed_once_with_all_of_them_and_errors_come_first() -> None:
    report = bare(with_findings(bring_up(), WARNING, WARNING), with_findings(preempt_four(), WARNING, ERROR))
    assert [(one.finding, one.drills) for one in report.found] == [
        (ERROR, ("preempt-four",)),
        (WARNING, ("bring-up", "preempt-four")),
    ]


def test_no_secret_survives_wherever_it_stood() -> None:
    report = sample_report()
    assert TOKEN in json_text(outline(report))
    clean = redacted(report, [TOKEN])
    assert TOKEN not in json_text(outline(clean))
    assert "0/12 nodes are available (token [secret])" in json_text(outline(clean))
    assert dataclasses.replace(clean, drills=report.drills) == report
