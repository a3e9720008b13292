"""`fleet check`: the check of a stack file; `fleet config schema`: the schema of stack files."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from facts.finding import Finding, block
from facts.texts import plural
from fleet.cli.documents import show
from fleet.cli.exits import CLEAN, FINDINGS
from fleet.cli.fields import with_fields
from fleet.cli.options import Format, OneStack

if TYPE_CHECKING:
    from facts.advisories import Advisory
    from fleet.report.outline import Outline
    from fleet.report.table import Table
    from settings.stack import Settings

config = typer.Typer(help="Print the JSON Schema of stack files.", no_args_is_help=True, rich_markup_mode=None)


@config.command(short_help="Print the JSON Schema of stack files.")
def schema() -> int:
    """Print the JSON Schema of stack files, for editors and other tools."""
    from settings.schema import schema_text

    sys.stdout.write(schema_text())
    return CLEAN


@with_fields
def check(
    of: OneStack,
    details: Annotated[
        bool, typer.Option("--details", help="Also list each security advisory that reaches the servers.")
    ] = False,
    format_: Format = "text",
) -> int:
    """Check a stack file as `pulumi up` would: types, limits, and the lessons of the article.

    Exits with 2 for refused settings, including placeholders such as a channel at example.com, with 1 for findings, else with 0.
    Deliberate exceptions of the stack's profile are shown and do not count.
    """
    from settings.problems import SettingsError

    folder, name = of.find()
    listed: tuple[Advisory, ...] = ()
    try:
        settings, about, findings = _findings(folder, name)
        listed = _reaching(settings) if details else ()
        if block(findings):
            raise SettingsError(name, [finding for finding in findings if finding.blocks])
    except SettingsError as error:
        if format_ == "json":
            show(_outline(name, error.problems, listed=listed), format_)
        elif listed:
            _show_alone(name, listed)
        raise
    show(_outline(name, findings, about, listed), format_)
    return FINDINGS if any(finding.severity == "warning" for finding in findings) else CLEAN


def _findings(folder: Path, name: str) -> tuple[Settings, str, tuple[Finding, ...]]:
    """The settings, what is not known of the stack's environments, and all findings. Raises SettingsError for an unreadable file."""
    from settings.checks.placeholders import placeholders
    from settings.load import check as problems_of
    from settings.load import parse
    from settings.neighbours import beside_others
    from settings.stack_file import read

    file = read(folder, name)
    settings = parse(name, file.config, file.unopened)
    findings = (*placeholders(settings), *problems_of(settings), *beside_others(folder, name, file.config))
    return settings, file.about_environments, findings


def _reaching(settings: Settings) -> tuple[Advisory, ...]:
    from facts.lessons.serving_advisories import reaching
    from settings.checks.declared_server import DeclaredServer

    servers = (DeclaredServer(one) for one in (settings, settings.as_canary) if one is not None)
    return tuple(dict.fromkeys(advisory for server in servers for advisory in reaching(server)))


def _show_alone(name: str, listed: tuple[Advisory, ...]) -> None:
    """The advisories of a refused stack file, whose findings are in the error."""
    from fleet.report.outline import Outline

    show(Outline(title=f"Pulumi.{name}.yaml", kind="check", body=(_table(listed),)), "text")


def _table(listed: tuple[Advisory, ...]) -> Table:
    from fleet.report.table import Cell, Table, texts

    return Table(
        id="advisories",
        caption="Security advisories that reach the servers",
        columns=texts("advisory", "what a client can do", "releases", "other ids and sources"),
        rows=tuple((Cell(one.id), Cell(one.what), Cell(one.range), Cell(one.source)) for one in listed),
    )


def _outline(name: str, findings: tuple[Finding, ...], about: str = "", listed: tuple[Advisory, ...] = ()) -> Outline:
    from fleet.report.outline import Findings, Outline, Prose

    counts = Counter(finding.severity for finding in findings)
    told = counts["note"] + counts["deliberate"]
    errors = plural(counts["error"], "error") if counts["error"] else "no errors"
    return Outline(
        title=f"Pulumi.{name}.yaml",
        kind="check",
        verdict=f"{errors}, {plural(counts['warning'], 'finding')}" + (f", {told} for information" if told else ""),
        tone="bad" if counts["error"] else "warn" if counts["warning"] else "good",
        body=(
            *((Prose(about),) if about else ()),
            Findings(findings),
            *((_table(listed),) if listed else ()),
        ),
        data={"stack": name, **({"advisories": [asdict(one) for one in listed]} if listed else {})},
    )
