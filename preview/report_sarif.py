"""Verdicts and findings in SARIF 2.1.0, for code scanning: each at the line of the program or stack file it is about.

One run for all stacks: GitHub refuses several runs of one tool and category in an upload.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from preview.changes_in_words import value_in_words
from preview.several_stacks import Refusal, stack_of
from preview.stack_file_lines import StackFileLines
from preview.verdicts import verdicts

if TYPE_CHECKING:
    from preview.report_model import Report
    from preview.several_stacks import Outcome
    from settings.problems import Problem

SCHEMA: Final = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_SEVERITIES: Final = {"critical": "9.5", "high": "8.0", "medium": "5.5", "low": "2.0"}
"""GitHub reads a number as `security-severity`. Source: its bands, 9.0 critical, 7.0 high, 4.0 medium."""

Level = Literal["error", "warning", "note"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Result:
    rule: str
    about: str
    """The rule in a sentence."""
    level: Level
    message: str
    file: str
    line: int
    key: str
    """What makes the result this one and no other, beside rule and stack: a URN or a setting's path."""
    urn: str = ""
    help: str = ""
    severity: str = ""
    on_purpose: str = ""
    """Why it is there knowingly."""


def sarif_text(root: Path, *outcomes: Outcome) -> str:
    """The log as JSON. `root` is the project's folder, whose stack files give the lines."""
    return json.dumps(as_log(root, *outcomes), indent=2, ensure_ascii=False) + "\n"


def as_log(root: Path, *outcomes: Outcome) -> dict[str, Any]:
    """The log as a document."""
    found = [(stack_of(outcome), result) for outcome in outcomes for result in _results(root, outcome)]
    rules: dict[str, dict[str, Any]] = {}
    for _, result in found:
        rules.setdefault(result.rule, _rule(result))
    numbers = {rule: index for index, rule in enumerate(rules)}
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": {"name": "fleet preview", "rules": list(rules.values())}},
                "automationDetails": {"id": "fleet-preview/"},
                "invocations": [{"executionSuccessful": not any(isinstance(one, Refusal) for one in outcomes)}],
                "results": [_result(stack, one, numbers[one.rule]) for stack, one in found],
            }
        ],
    }


def _rule(result: _Result) -> dict[str, Any]:
    rule: dict[str, Any] = {
        "id": result.rule,
        "shortDescription": {"text": result.about},
        "defaultConfiguration": {"level": result.level},
    }
    if result.help:
        rule["help"] = {"text": result.help}
    if result.severity in _SEVERITIES and result.rule.startswith("policy/"):
        rule["properties"] = {"security-severity": _SEVERITIES[result.severity], "tags": ["security"]}
    return rule


def _result(stack: str, result: _Result, rule_index: int) -> dict[str, Any]:
    place: dict[str, Any] = {
        "physicalLocation": {
            "artifactLocation": {"uri": result.file, "uriBaseId": "%SRCROOT%"},
            "region": {"startLine": result.line},
        }
    }
    if result.urn:
        place["logicalLocations"] = [{"fullyQualifiedName": result.urn, "kind": "resource"}]
    document: dict[str, Any] = {
        "ruleId": result.rule,
        "ruleIndex": rule_index,
        "level": result.level,
        "message": {"text": f"Stack {stack}: {result.message}"},
        "locations": [place],
        # Without line and message, which move: GitHub would otherwise close and reopen the alert.
        "partialFingerprints": {"fleetPreview/v1": _digest(stack, result.rule, result.key)},
        "properties": {"stack": stack},
    }
    if result.on_purpose:
        document["suppressions"] = [{"kind": "inSource", "justification": result.on_purpose}]
    return document


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def _results(root: Path, outcome: Outcome) -> Iterator[_Result]:
    lines = StackFileLines(root, stack_of(outcome))
    if isinstance(outcome, Refusal):
        if not outcome.problems:
            about = "A stack can be previewed."
            yield _Result(
                rule="stack-refused",
                about=about,
                level="error",
                message=outcome.message,
                file=lines.name,
                line=1,
                key="",
            )
        for problem in outcome.problems:
            yield _setting(problem, lines, "error")
        return
    yield from _policy_results(outcome, lines)
    for finding in outcome.findings:
        purpose = (
            f"profile {outcome.fleet.profile} repeats it to reproduce a published run" if finding.on_purpose else ""
        )
        yield _setting(finding.problem, lines, "note" if purpose else "warning", purpose)
    yield from _danger_results(outcome, lines)
    for one in outcome.diagnostics:
        file, line = _position(outcome, one.urn, lines)
        yield _Result(
            rule="program-diagnostic",
            about="The program runs without warnings.",
            level="error" if one.severity == "error" else "warning",
            message=one.message,
            file=file,
            line=line,
            key=f"{one.urn}\0{one.message}",
            urn=one.urn,
        )


def _policy_results(report: Report, lines: StackFileLines) -> Iterator[_Result]:
    for verdict in verdicts(report.policies.violations):
        for place in verdict.places:
            file, line = _position(report, place.urn, lines)
            parts = [f"{place.name}: {place.what}" if place.name else place.what]
            parts += [
                f"{label}: {text}"
                for label, text in (("Why", place.why), ("Fix", place.fix), ("At stake", place.at_stake))
                if text
            ]
            yield _Result(
                rule=f"policy/{verdict.policy}",
                about=verdict.statement or verdict.policy,
                level="error" if verdict.stops else "warning",
                message="\n".join(parts),
                file=file,
                line=line,
                # What is wrong tells two violations of one resource apart.
                key=f"{place.urn}\0{place.what}",
                urn=place.urn,
                help=place.fix,
                severity=verdict.severity,
            )


def _danger_results(report: Report, lines: StackFileLines) -> Iterator[_Result]:
    for danger in report.comparison.dangers if report.comparison is not None else ():
        urn = danger.urns[0] if danger.urns else ""
        file, line = _position(report, urn, lines)
        yield _Result(
            rule=f"change/{danger.id}",
            about="A change that a reviewer should stop for.",
            level="warning",
            message=danger.message,
            file=file,
            line=line,
            key="\0".join(danger.urns),
            urn=urn,
        )


def _setting(problem: Problem, lines: StackFileLines, level: Level, on_purpose: str = "") -> _Result:
    return _Result(
        rule=f"settings/{problem.id}",
        about=f"{problem.path}: {problem.allowed}",
        level=level,
        message=f"{problem.path} = {value_in_words(problem.value)}: {problem.why}\nWrite: {problem.write}",
        file=lines.name,
        line=lines.line_of(problem.path),
        key=problem.path,
        help=f"Write: {problem.write}",
        on_purpose=on_purpose,
    )


def _position(report: Report, urn: str, lines: StackFileLines) -> tuple[str, int]:
    """Where the program makes the resource; the stack's file for what it does not make itself."""
    resource = report.recording.by_urn.get(urn)
    file, _, line = resource.source_position.rpartition(":") if resource is not None else ("", "", "")
    # The stack itself is made by whoever runs the program, not by a line of it.
    if file and line.isdigit() and resource is not None and resource.parent:
        return Path(file).as_posix(), max(1, int(line))
    return lines.name, 1
