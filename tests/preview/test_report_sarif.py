"""Code scanning's report: valid, at the right lines, the same alert from one run to the next."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from preview.policy import Violation
from preview.report_model import Policies
from preview.report_sarif import as_log, sarif_text
from preview.several_stacks import Outcome, Refusal
from settings.problems import Problem
from tests.preview import sarif_shape
from tests.preview.sample_changes import MANDATORY, compared_report
from tests.preview.sample_report import STACK, TOKEN, sample_report

STACK_FILE = """\
config:
  gcp:project: p
  vllm-fleet:server:
    replicas: 12
    engine:
      maxNumSeqs: 8192
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / f"Pulumi.{STACK}.yaml").write_text(STACK_FILE)
    return tmp_path


def results(root: Path, *outcomes: Outcome) -> list[dict[str, Any]]:
    log = as_log(root, *outcomes)
    sarif_shape.check(log)
    found: list[dict[str, Any]] = log["runs"][0]["results"]
    return found


def of_rule(found: list[dict[str, Any]], rule: str) -> dict[str, Any]:
    (one,) = (result for result in found if result["ruleId"] == rule)
    return one


def place(result: dict[str, Any]) -> tuple[str, int]:
    physical = result["locations"][0]["physicalLocation"]
    return physical["artifactLocation"]["uri"], physical["region"]["startLine"]


def test_a_mandatory_violation_is_an_error_where_the_program_makes_the_resource(root: Path) -> None:
    one = of_rule(results(root, compared_report()), "policy/no-surge-on-gpu-pods")
    assert one["level"] == "error"
    assert place(one) == ("workloads/server.py", 80)
    assert one["locations"][0]["logicalLocations"][0]["fullyQualifiedName"] == MANDATORY.urn
    text = one["message"]["text"]
    assert text.startswith("Stack test: server-deployment: spec.strategy.rollingUpdate.maxSurge is 1")
    assert "Fix: maxSurge: 0, maxUnavailable: 1" in text


def test_an_advisory_is_a_warning_and_one_for_each_resource(root: Path) -> None:
    found = [one for one in results(root, compared_report()) if one["ruleId"] == "policy/declared-needs-missing"]
    assert [one["level"] for one in found] == ["warning", "warning"]
    assert {place(one) for one in found} == {(f"Pulumi.{STACK}.yaml", 1)}  # no line of the program made them


def test_a_finding_points_at_its_line_in_the_stack_file(root: Path) -> None:
    server = {"replicas": 12, "profile": "serve-chat", "engine": {"maxNumSeqs": 8000}}
    one = of_rule(results(root, sample_report(server=server)), "settings/max-num-seqs-above-state")
    assert place(one) == (f"Pulumi.{STACK}.yaml", 6)
    assert one["level"] == "warning"
    assert "suppressions" not in one


def test_what_is_on_purpose_is_suppressed_with_its_reason_and_points_at_the_nearest_key(root: Path) -> None:
    one = of_rule(results(root, sample_report()), "settings/prefix-cache-never-hits")
    assert place(one) == (f"Pulumi.{STACK}.yaml", 5)  # the profile sets it, below `engine`
    assert one["level"] == "note"
    assert "profile record repeats it" in one["suppressions"][0]["justification"]


def test_a_danger_is_a_warning_at_the_resource(root: Path) -> None:
    one = of_rule(results(root, compared_report()), "change/all-replicas-at-once")
    assert place(one) == ("workloads/server.py", 80)


def test_a_refused_stack_is_an_error_for_each_setting(root: Path) -> None:
    problem = Problem(
        id="replicas-range",
        path="vllm-fleet:server.replicas",
        value=-1,
        allowed="0 and more",
        why="w",
        write="replicas: 1",
    )
    refused = Refusal(stack=STACK, message="refused", problems=(problem,))
    one = of_rule(results(root, refused), "settings/replicas-range")
    assert (one["level"], place(one)) == ("error", (f"Pulumi.{STACK}.yaml", 4))
    broken = of_rule(results(root, Refusal(stack="gone", message="no such stack")), "stack-refused")
    assert place(broken) == ("Pulumi.gone.yaml", 1)
    assert as_log(root, refused)["runs"][0]["invocations"] == [{"executionSuccessful": False}]


def test_several_stacks_are_one_run_and_the_same_finding_in_each_is_another_alert(root: Path) -> None:
    other = sample_report()
    twin = replace(other, recording=_named(other.recording, "twin"))
    found = results(root, other, twin)
    assert {one["properties"]["stack"] for one in found} == {STACK, "twin"}
    assert len(found) == 2 * len(results(root, other))


def _named(recording: Any, stack: str) -> Any:
    return replace(recording, stack=stack)


def test_an_alert_keeps_its_fingerprint_when_lines_move(root: Path) -> None:
    before = results(root, compared_report())
    (root / f"Pulumi.{STACK}.yaml").write_text("# one line more\n" + STACK_FILE)
    after = results(root, compared_report())
    assert [one["partialFingerprints"] for one in before] == [one["partialFingerprints"] for one in after]
    assert [place(one) for one in before] != [place(one) for one in after]


def test_severity_is_what_github_sorts_by(root: Path) -> None:
    rules = as_log(root, compared_report())["runs"][0]["tool"]["driver"]["rules"]
    severities = {rule["id"]: rule.get("properties", {}).get("security-severity") for rule in rules}
    assert severities["policy/no-surge-on-gpu-pods"] == "8.0"
    assert severities["policy/declared-needs-missing"] == "2.0"
    assert severities["change/all-replicas-at-once"] is None


def test_a_stack_file_that_cannot_be_read_still_gets_a_log(tmp_path: Path) -> None:
    (tmp_path / f"Pulumi.{STACK}.yaml").write_text("config: [unclosed")
    assert {place(one)[1] for one in results(tmp_path, sample_report()) if one["ruleId"].startswith("settings/")} == {1}


def test_no_secret_is_in_the_log_and_it_is_the_same_every_time(root: Path) -> None:
    leaky = Violation(policy="p", level="advisory", urn="", message="plain")
    report = compared_report(policies=Policies(state="judged", violations=(leaky,)))
    assert TOKEN not in sarif_text(root, report)
    assert sarif_text(root, report) == sarif_text(root, report)


def test_a_clean_stack_has_an_empty_log_which_closes_old_alerts(root: Path) -> None:
    report = sample_report(problems=())
    clean = replace(report, diagnostics=())
    assert results(root, clean) == []
