"""`fleet preview`: a report on one or more stacks, and their manifests as files, without a cloud."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fleet.cli.documents import Documents, documents_of, format_option, show
from fleet.cli.exits import CHANGES, CLEAN, FINDINGS, CommandError, error_text, exit_code, leave
from fleet.cli.options import Root, Stacks
from fleet.cli.project import find_root, require_stacks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fleet.preview.compare.baseline_git import GitBaseline
    from fleet.preview.report.model import Report
    from fleet.preview.report.several_stacks import Outcome
    from fleet.report.outline import Outline


def preview(
    stack: Stacks = None,
    all_stacks: Annotated[
        bool, typer.Option("--all-stacks", help="Preview every stack that has a file, in one report.")
    ] = False,
    format_: Annotated[list[str] | None, format_option("text", "markdown", "json", "html")] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="DIR",
            file_okay=False,
            help="Also write every manifest to this folder; with several stacks, to a subfolder for each.",
        ),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            "--against",
            metavar="GITREF",
            help="Show changes since a git reference.",
        ),
    ] = None,
    details: Annotated[bool, typer.Option("--details", help="Show everything, not only the first screen.")] = False,
    policy_pack: Annotated[
        Path | None,
        typer.Option(
            "--policy-pack",
            metavar="DIR",
            exists=True,
            file_okay=False,
            help="Judge with this policy pack and its limits, such as those of the branch to merge into.",
        ),
    ] = None,
    no_policy: Annotated[bool, typer.Option("--no-policy", help="Skip the policy pack.")] = False,
    detailed_exitcode: Annotated[
        bool, typer.Option("--detailed-exitcode", help="With --against: exit with 4 if anything changes.")
    ] = False,
    root: Root = None,
) -> int:
    """Show what a stack creates, its price, its published throughput, and its problems.

    With --against, show changes: resources, cost, and running workloads.
    Needs no credentials and no Pulumi CLI. Exits with 1 if a mandatory policy is violated. Repeat --stack, or pass
    --all-stacks, for one report on several stacks.
    """
    from fleet.clients.stopping import stopped_by_exception

    if detailed_exitcode and against is None:
        raise CommandError("--detailed-exitcode needs --against REF")
    folder = find_root(root)
    names = require_stacks(folder, stack or (), every=all_stacks)
    documents = documents_of(format_)

    with stopped_by_exception(), _baseline(against, folder, names) as baseline:

        def preview_one(name: str) -> Report:
            from fleet.preview.record import quick_sdk

            quick_sdk.install()
            from fleet.preview.stack_preview import preview_stack

            return preview_stack(
                folder,
                name,
                out=out / name if out is not None and len(names) > 1 else out,
                ask_policies=not no_policy,
                policy_pack=policy_pack,
                against=baseline,
            )

        from fleet.preview.report.several_stacks import by_weight, preview_each

        failures: list[Exception] = []

        def told(error: Exception) -> str:
            failures.append(error)
            return error_text(error)

        outcomes = by_weight(preview_each(names, preview_one, told))
    if failures and len(names) == 1:
        # The files that were asked for say it, too.
        _write(outcomes, {format_: file for format_, file in documents.items() if file is not None})
        raise failures[0]
    outline = _write(outcomes, documents, details=details)
    code = max(map(exit_code, failures), default=_exit_code(outcomes, changes_count=detailed_exitcode))
    if code != CLEAN and None not in documents.values():
        files = ", ".join(map(str, documents.values()))
        sys.stderr.write(f"fleet: {outline.title}: {outline.verdict}; written to {files}\n")
    leave(code)


def _baseline(against: str | None, root: Path, stacks: Sequence[str]) -> AbstractContextManager[GitBaseline | None]:
    """What to compare with. Started first: the reference's program is recorded while this process imports."""
    if against is None:
        return nullcontext()
    from fleet.preview.compare.baseline_git import GitBaseline

    return GitBaseline(against, root, stacks)


def _exit_code(outcomes: Sequence[Outcome], *, changes_count: bool) -> int:
    """The most severe: a mandatory violation or a program error, then changes if they count."""
    from fleet.preview.report.several_stacks import reports_of

    reports = reports_of(outcomes)
    if any(
        report.policies.mandatory or any(found.severity == "error" for found in report.diagnostics)
        for report in reports
    ):
        return FINDINGS
    changed = any(report.comparison is not None and report.comparison.pending for report in reports)
    return CHANGES if changes_count and changed else CLEAN


def _write(outcomes: Sequence[Outcome], documents: Documents, *, details: bool = False) -> Outline:
    """Write the report in each format. Returns it."""
    from fleet.preview.report.outline import preview_outline

    outline = preview_outline(*outcomes, with_data="json" in documents)
    for format_, file in documents.items():
        show(outline, format_, file, details=details)
    return outline
