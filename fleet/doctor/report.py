"""The report of `fleet doctor` as an outline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from facts.finding import Finding, block
from fleet.report.outline import Findings, Items, Outline, Prose, Section, some
from fleet.report.table import Cell, Table, texts

if TYPE_CHECKING:
    from fleet.doctor.rows import LiveReport


def outline(needed: Mapping[str, Sequence[Finding]], steps: Sequence[str], live: LiveReport | None) -> Outline:
    """The state of the steps, then each prerequisite once. `needed`: the prerequisites of every step."""
    shown = {one.id: one for step in steps for one in needed[step]}
    ready = {step: not block(findings) for step, findings in needed.items()}
    return Outline(
        title="doctor",
        head=(
            Table(
                id="steps",
                caption="Whether each step can be done on this machine",
                columns=texts("step", "state"),
                rows=tuple((Cell(step), Cell(_format_state(needed[step]))) for step in steps),
            ),
        ),
        body=some(Findings(tuple(shown.values())), _live(live) if live else None),
        data={
            "ready": ready,
            "steps": {step: [finding.id for finding in findings] for step, findings in needed.items()},
            **({"live": _document(live)} if live else {}),
        },
    )


def _format_state(findings: Sequence[Finding]) -> str:
    missing = [finding.subject for finding in findings if finding.blocks]
    return f"{len(missing)} missing: {', '.join(missing)}" if missing else "ready"


def _live(report: LiveReport) -> Section:
    missing, unknown = (sum(finding.severity == state for finding in report.findings) for state in ("error", "unknown"))
    said = [f"{missing} missing"] * bool(missing) + [f"{unknown} unknown"] * bool(unknown)
    looked = f"project {report.project}, {', '.join(report.zones)}; checked in {report.seconds:.0f} s, read-only"
    return Section(
        title=f"Google Cloud for stack {report.stack}",
        remark=", ".join(said) or "ready",
        body=(
            Prose(looked, "soft"),
            Findings(report.findings),
            Items(tuple(f"in the same project, {neighbour}" for neighbour in report.neighbours), "soft"),
        ),
    )


def _document(report: LiveReport) -> dict[str, object]:
    """What is not a finding."""
    document = asdict(report) | {"seconds": round(report.seconds, 1), "clean": report.clean}
    del document["findings"]
    return document
