"""One preview from stack file to report: what is recorded, in which mode, and who judges it."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from fleet.preview.offline import open_stack, record_stack, write_manifests

if TYPE_CHECKING:
    from fleet.preview.compare.baseline import Baseline
    from fleet.preview.compare.baseline_git import GitBaseline
    from fleet.preview.compare.changes import Changes
    from fleet.preview.judging import Judging
    from fleet.preview.record.recording import Recording
    from fleet.preview.report.model import Policies, Report


def preview_stack(
    root: Path,
    stack: str,
    *,
    out: Path | None = None,
    ask_policies: bool = True,
    for_machines: bool = False,
    against: GitBaseline | None = None,
) -> Report:
    """Record and report one stack; write its manifests to `out` if given.

    One recording serves the whole report wherever it can: with unknown values left unknown, or, where manifests or
    policies need complete values, with placeholders. What people read is the same in both. A report for machines has
    every input without placeholders, so it gets a separate recording. So does a comparison: both sides
    leave unknown what they cannot know.

    Raises SettingsError, ProgramError, RenderError, PolicyError and BaselineError, each with a message for a person.
    """
    opened = open_stack(root, stack)
    with ExitStack() as cleanup:
        judging: Judging | None = None
        if ask_policies:
            from fleet.preview.judging import Judging

            # Before the recording: the packs' interpreters start while this one imports the SDK.
            judging = Judging(root, opened.file, against)
            cleanup.enter_context(judging)
        whole = record_stack(opened, "known") if (judging is not None and judging.is_taken) or out is not None else None
        baseline = None
        if against is not None:
            shown = record_stack(opened, "preview", is_up=True)  # Meanwhile the other version is recorded.
            baseline = against.wait(stack)
        else:
            shown = record_stack(opened, "preview") if whole is None or for_machines else whole
        if out is not None and whole is not None:
            write_manifests(whole, out)
        policies = _policies(judging, whole)
    from fleet.preview.report.model import build_report
    from settings.derived.figures import figures

    return build_report(
        opened.settings,
        shown,
        figures(opened.settings),
        problems=opened.problems,
        policies=policies,
        stand_in_project=opened.project_is_stood_in,
        environments=opened.file.about_environments,
        secret_keys=sorted(opened.file.secret_keys),
        out=None if out is None else str(out),
        comparison=None if baseline is None else _compared(baseline, shown),
    )


def _compared(baseline: Baseline, recording: Recording) -> Changes:
    from fleet.preview.compare.compare import compare

    return compare(baseline.recording, recording, against=baseline.label, remarks=baseline.remarks)


def _policies(judging: Judging | None, whole: Recording | None) -> Policies:
    """The verdicts on the whole recording."""
    from fleet.preview.report.model import Policies

    if judging is None:
        return Policies(state="skipped")
    return Policies(state="none") if whole is None else judging.judge(whole)
