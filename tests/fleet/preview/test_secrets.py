"""A secret that stands readable in a resource is in no report and in no manifest."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

from fleet.preview.compare.baseline_git import _hidden
from fleet.preview.policy import Violation
from fleet.preview.record.recording import Diagnostic, Recording
from fleet.preview.render import render
from fleet.preview.report.model import Policies
from tests.fleet.preview.fleets import SCRIPT, SERVER, edited, recording
from tests.fleet.preview.sample_report import sample_recording, sample_report
from tests.support.canaries import CANARIES, shown
from tests.support.formats import in_every_format
from tests.support.rows import each_row

NAMED = "correct-horse"
POD = "spec/template/spec"


def hidden(text: str) -> bool:
    return not shown(text) and "correct" not in text


def leaking(canary: str) -> Any:
    """A server and a script with the canary wherever a resource may have a text, and a secret that only a name gives away."""
    server = edited(SERVER, "metadata/annotations", {"note": f"fetch with {canary}", canary: "a key"})
    server = edited(server, "metadata/labels", {"app": canary})
    server = edited(server, f"{POD}/nodeSelector", {"cloud.google.com/reservation-name": canary})
    server = edited(server, f"{POD}/containers/0/image", f"registry/{canary}:1")
    server = edited(
        server, f"{POD}/containers/0/args", ["vllm", f"--hf={canary}", "--api-key", NAMED, f"--api-key={NAMED}"]
    )
    env = [{"name": "ANY", "value": canary}, {"name": "HF_TOKEN", "value": NAMED}]
    return edited(server, f"{POD}/containers/0/env", env), edited(
        SCRIPT, "data", {"run.sh": canary, "GITHUB_PAT": NAMED}
    )


def recorded(canary: str, like: Recording) -> Recording:
    said = Diagnostic(severity="warning", message=f"a program said {canary} and {NAMED}", urn=SERVER.urn)
    return replace(recording(*leaking(canary), diagnostics=(said,), outputs={"url": canary}), mode=like.mode)


@each_row("form", CANARIES)
def test_a_report_of_any_format_hides_it(form: str) -> None:
    violation = Violation(
        policy="p", level="mandatory", urn=SERVER.urn, message=f"it is {CANARIES[form]}", description="No secrets."
    )
    leaks = recorded(CANARIES[form], sample_recording())
    report = sample_report(recording=leaks, policies=Policies(state="judged", violations=(violation,)))
    for name, text in in_every_format(report).items():
        assert hidden(text), name


@each_row("form, side", zip(CANARIES, itertools.cycle(("before", "after")), strict=False))
def test_a_comparison_hides_it_on_either_side(form: str, side: str) -> None:
    from fleet.preview.compare.compare import compare

    plain, leaks = recording(), recorded(CANARIES[form], sample_recording())
    changes = compare(leaks, plain) if side == "before" else compare(plain, leaks)
    assert changes.changed
    assert hidden(repr(changes))
    report = replace(sample_report(recording=plain if side == "before" else leaks), comparison=changes)
    for name, text in in_every_format(report).items():
        assert hidden(text), name


def test_a_manifest_hides_it(tmp_path: Path) -> None:
    for canary in CANARIES.values():
        leaks = recorded(canary, sample_recording("known"))
        known = replace(leaks, resources=tuple(one for one in leaks.resources if "providers" not in one.type))
        for file in render(known, tmp_path / "out"):
            assert hidden(file.name + file.read_text()), file


def test_a_message_of_another_versions_program_hides_what_its_stack_file_holds() -> None:
    config = {"config": {"x:server": '{"engine": {"extraEnv": {"HF_TOKEN": "correct-horse"}}}', "x:apiKey": "battery"}}
    assert _hidden("extraEnv: {'HF_TOKEN': 'correct-horse'}, not battery", config).count("[secret]") == 2
