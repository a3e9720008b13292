"""Table of live checks, for the terminal and JSON."""

from __future__ import annotations

from dataclasses import asdict
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from fleet.doctor.rows import LiveReport, Row, State
    from fleet.report.terminal import Page

_MARKS: Final[dict[State, tuple[str, str]]] = {
    "ready": ("✓", "green"),
    "by up": ("·", "green"),
    "missing": ("✗", "red"),
    "unknown": ("?", "yellow"),
}
_TITLES: Final = {
    "billing": "Billing",
    "API": "APIs",
    "permission": "Permissions",
    "zone": "Zones",
    "reservation": "Reservation",
    "quota": "Quotas",
    "images": "Images",
}


def write(page: Page, report: LiveReport) -> None:
    """Print the table: needed, granted, missing, with a fix below each problem."""
    page.line((f"Google Cloud for stack {report.stack}", "bold"), "  ", verdict(report))
    page.prose(
        f"project {report.project}, {', '.join(report.zones)}; checked in {report.seconds:.0f} s, read-only",
        style="dim",
    )
    width = max(len(row.name) for row in report.rows) + 2
    columns = [max(9, *(len(str(cell)) + 2 for row in report.rows for cell in (row.needed, row.granted)))] * 2
    page.line(("    " + " " * width + f"{'needed':<{columns[0]}}{'granted':<{columns[1]}}missing", "dim"))
    for area, rows in groupby(report.rows, key=lambda row: row.area):
        page.line(f"  {_TITLES[area]}")
        for row in rows:
            _row(page, row, width, columns[0])
    for neighbour in report.neighbours:
        page.prose(f"in the same project, {neighbour}", style="dim")


def verdict(report: LiveReport) -> tuple[str, str]:
    """Number of missing or unknown rows, with a style."""
    missing = sum(row.state == "missing" for row in report.rows)
    unknown = sum(row.state == "unknown" for row in report.rows)
    said = [f"{missing} missing"] * bool(missing) + [f"{unknown} unknown"] * bool(unknown)
    return (", ".join(said), "bold red") if said else ("ready", "bold green")


def document(report: LiveReport) -> dict[str, Any]:
    """The report as plain data."""
    return asdict(report) | {"seconds": round(report.seconds, 1), "clean": report.clean}


def _row(page: Page, row: Row, width: int, column: int) -> None:
    mark, style = _MARKS[row.state]
    cells = f"{row.needed!s:<{column}}{_shown(row):<{column}}{row.missing!s}".rstrip()
    page.line(
        "  ", (f"{mark} ", style), f"{row.name:<{width}}", (cells, style if row.state in ("missing", "unknown") else "")
    )
    if row.state == "ready":
        return
    if row.why:
        page.prose(row.why, indent=6, style="dim")
    if row.mend:
        page.pointer(row.mend, indent=6)


def _shown(row: Row) -> str:
    return "unknown" if row.state == "unknown" and row.granted == "" else str(row.granted)
