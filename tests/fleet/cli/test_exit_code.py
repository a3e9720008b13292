"""What a preview finds decides how it ends."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleet.cli.exits import CLEAN, FINDINGS
from fleet.cli.preview import _exit_code
from fleet.preview.record.recording import Diagnostic
from tests.fleet.preview.sample_report import sample_recording, sample_report


@pytest.mark.parametrize(("severity", "code"), [("error", FINDINGS), ("warning", CLEAN)])
def test_an_error_of_the_program_is_a_finding(severity: str, code: int) -> None:
    said = Diagnostic(severity=severity, message="a Kubernetes object has no provider of its own")  # type: ignore[arg-type]
    report = sample_report(recording=replace(sample_recording(), diagnostics=(said,)))
    assert _exit_code([report], changes_count=False) == code
