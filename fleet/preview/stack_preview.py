"""One preview from stack file to report: what is recorded, in which mode, and who judges it."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from fleet.preview.offline import open_stack, record_stack, write_manifests
from settings.sections.section import NAMESPACE

if TYPE_CHECKING:
    from fleet.preview.compare.baseline import Baseline
    from fleet.preview.compare.baseline_git import GitBaseline
    from fleet.preview.compare.changes import Changes
    from fleet.preview.offline import OfflineStack
    from fleet.preview.policy import PolicyRun
    from fleet.preview.record.recording import Recording
    from fleet.preview.report.model import Policies, Report


def preview_stack(
    root: Path,
    stack: str,
    *,
    out: Path | None = None,
    ask_policies: bool = True,
    policy_pack: Path | None = None,
    against: GitBaseline | None = None,
) -> Report:
    """Record and report one stack; write its manifests to `out` if given.

    One recording serves the whole report: with unknown values left unknown, or, where manifests or policies need complete values,
    with placeholders. A comparison has one of its own: both sides leave unknown what they cannot know. `policy_pack`: the folder of
    another checkout's pack, which judges with the limits beside it.

    Raises SettingsError, ProgramError, RenderError, PolicyError and BaselineError, each with a message for a person.
    """
    opened = open_stack(root, stack)
    with ExitStack() as cleanup:
        run = _started(opened, policy_pack, cleanup) if ask_policies else None
        whole = None if run is None and out is None else record_stack(opened, "known")
        baseline = None
        if against is not None:
            shown = record_stack(opened, "preview", is_up=True)  # Meanwhile the other version is recorded.
            baseline = against.wait(stack)
        else:
            shown = whole or record_stack(opened, "preview")
        if out is not None and whole is not None:
            write_manifests(whole, out)
        policies = _policies(run, whole, ask_policies)
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


def _started(opened: OfflineStack, given: Path | None, cleanup: ExitStack) -> PolicyRun | None:
    """The pack of the project, if it has one, or the given one. Started before the recording: its interpreter imports meanwhile."""
    from fleet.preview.policy import PACK_FILE, find_pack, start
    from fleet.preview.policy_config import PolicyError, config_beside, read_config

    stack, region = opened.file.stack, opened.config.get("gcp:region", "")
    if given is not None:
        if not (given / PACK_FILE).is_file():
            raise PolicyError(f"--policy-pack {given}: no {PACK_FILE} in this folder; pass the folder of a policy pack")
        config = config_beside(given, stack)
        run = start(given, project=NAMESPACE, stack=stack, config=config, modules=given.resolve().parent, region=region)
    elif (pack := find_pack(opened.root)) is not None:
        run = start(pack, project=NAMESPACE, stack=stack, config=read_config(opened.root, stack), region=region)
    else:
        return None
    return cleanup.enter_context(run)


def _compared(baseline: Baseline, recording: Recording) -> Changes:
    from fleet.preview.compare.compare import compare

    return compare(baseline.recording, recording, against=baseline.label, remarks=baseline.remarks)


def _policies(run: PolicyRun | None, whole: Recording | None, asked: bool) -> Policies:
    """The verdicts on the whole recording."""
    from fleet.preview.report.model import Policies

    if run is None or whole is None:
        return Policies(state="none" if asked else "skipped")
    return Policies(state="judged", violations=run.judge(whole), states=run.states, file=run.config_file)
