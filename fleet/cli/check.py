"""`fleet check`: the check of a stack file; `fleet config schema`: the schema of stack files."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from facts.finding import Finding, block
from facts.texts import plural
from fleet.cli.documents import show
from fleet.cli.exits import CLEAN, FINDINGS
from fleet.cli.fields import with_fields
from fleet.cli.options import Format, OneStack

if TYPE_CHECKING:
    from fleet.report.outline import Outline

config = typer.Typer(help="Print the JSON Schema of stack files.", no_args_is_help=True, rich_markup_mode=None)


@config.command(short_help="Print the JSON Schema of stack files.")
def schema() -> int:
    """Print the JSON Schema of stack files, for editors and other tools."""
    from settings.schema import schema_text

    sys.stdout.write(schema_text())
    return CLEAN


@with_fields
def check(of: OneStack, format_: Format = "text") -> int:
    """Check a stack file as `pulumi up` would: types, limits, and the lessons of the article.

    Exits with 2 for refused settings, including placeholders such as a channel at example.com, with 1 for findings, else with 0.
    Deliberate exceptions of the stack's profile are shown and do not count.
    """
    from settings.problems import SettingsError

    folder, name = of.find()
    about = ""
    try:
        about, findings = _findings(folder, name)
        if block(findings):
            raise SettingsError(name, [finding for finding in findings if finding.blocks])
    except SettingsError as error:
        if format_ == "json":
            show(_outline(name, error.problems), format_)
        raise
    show(_outline(name, findings, about), format_)
    return FINDINGS if any(finding.severity == "warning" for finding in findings) else CLEAN


def _findings(folder: Path, name: str) -> tuple[str, tuple[Finding, ...]]:
    """What is not known of the stack's environments, and all findings. Raises SettingsError for a file that cannot be read."""
    from settings.checks.placeholders import placeholders
    from settings.load import check as problems_of
    from settings.load import parse
    from settings.neighbours import beside_others
    from settings.stack_file import read

    file = read(folder, name)
    settings = parse(name, file.config, file.unopened)
    findings = (*placeholders(settings), *problems_of(settings), *beside_others(folder, name, file.config))
    return file.about_environments, findings


def _outline(name: str, findings: tuple[Finding, ...], about: str = "") -> Outline:
    from fleet.report.outline import Findings, Outline, Prose

    counts = Counter(finding.severity for finding in findings)
    told = counts["note"] + counts["deliberate"]
    errors = plural(counts["error"], "error") if counts["error"] else "no errors"
    return Outline(
        title=f"Pulumi.{name}.yaml",
        kind="check",
        verdict=f"{errors}, {plural(counts['warning'], 'finding')}" + (f", {told} for information" if told else ""),
        tone="bad" if counts["error"] else "warn" if counts["warning"] else "good",
        body=(*((Prose(about),) if about else ()), Findings(findings)),
        data={"stack": name},
    )
