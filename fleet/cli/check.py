"""`fleet check`: the check of a stack file; `fleet config schema`: the schema of stack files."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import typer

from fleet.cli.exits import CLEAN, FINDINGS
from fleet.cli.fields import with_fields
from fleet.cli.options import OneStack
from fleet.report.words import plural

if TYPE_CHECKING:
    from facts.finding import Finding
    from settings.stack import Settings

config = typer.Typer(help="Print the JSON Schema of stack files.", no_args_is_help=True, rich_markup_mode=None)


@config.command(short_help="Print the JSON Schema of stack files.")
def schema() -> int:
    """Print the JSON Schema of stack files, for editors and other tools."""
    from settings.schema import schema_text

    sys.stdout.write(schema_text())
    return CLEAN


@config.command(hidden=True)  # the name before `fleet check`
@with_fields()
def check(of: OneStack) -> int:
    """Check a stack file as `pulumi up` would: types, limits, and the lessons of the article.

    Exits with 2 for refused settings (including the placeholder project), with 1 for findings, else with 0. Deliberate
    exceptions of the stack's profile are shown and do not count.
    """
    folder, name = of.find()
    from settings.load import check as problems_of
    from settings.load import parse, placeholder
    from settings.neighbours import beside_others
    from settings.problems import SettingsError
    from settings.stack_file import read

    file = read(folder, name)
    settings = parse(name, file.config, file.unopened)
    problems = (*placeholder(settings), *problems_of(settings), *beside_others(folder, name, file.config))
    refused = [problem for problem in problems if problem.severity == "error"]
    if refused:
        raise SettingsError(name, refused)
    if file.environments:
        sys.stdout.write(file.about_environments + "\n\n")
    return _report(settings, problems)


def _report(settings: Settings, problems: tuple[Finding, ...]) -> int:

    unexpected = [one for one in problems if one.severity == "warning"]
    for problem in problems:
        sys.stdout.write(problem.text() + "\n\n")
    shown = len(problems) - len(unexpected)
    sys.stdout.write(
        f"Pulumi.{settings.stack}.yaml: no errors, {plural(len(unexpected), 'finding')}"
        + (f", {shown} for information" if shown else "")
        + ".\n"
    )
    return FINDINGS if unexpected else CLEAN
