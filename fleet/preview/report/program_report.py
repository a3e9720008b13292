"""The report on a program outside this project, as an outline and as JSON data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from facts.texts import plural
from fleet.preview.record.redact import Redactor
from fleet.preview.report.json_document import about_program, as_item, recorded_document
from fleet.preview.report.model import Recorded
from fleet.preview.report.policies import policy_section, verdict_of
from fleet.preview.report.recorded_bill import RecordedBill
from fleet.preview.report.stack_sections import (
    about_section,
    bill_table,
    not_billed,
    resource_section,
    said_by_program,
)
from fleet.preview.report.wording import format_bill_title, format_nature
from fleet.report.outline import Findings, Items, Next, Outline, Prose, Section, some
from fleet.report.words import format_usd


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramReport(Recorded):
    """A whole preview of such a program."""

    priced: RecordedBill


def program_outline(report: ProgramReport, *, with_data: bool = False) -> Outline:
    """The whole report."""
    verdict, is_blocked = verdict_of(report)
    said = said_by_program(report)
    return Outline(
        title=f"{report.recording.project} / {report.recording.stack}",
        kind="offline preview of a program of its own",
        verdict=f"{verdict}{'' if is_blocked else ', not all checked'}, {len(report.changes)} to create",
        tone="bad" if is_blocked else "good" if verdict == "not blocked" else "plain",
        head=(Prose(format_total(report.priced), "strong"),),
        body=some(
            policy_section(report.policies),
            Section(title=f"Findings ({len(said)})", body=(Findings(said),), tone="warn", rank=1) if said else None,
            _cost(report),
            Section(title="Not known or not checked", body=(Items(report.priced.unknown),), rank=1),
            resource_section(report),
            about_section(report),
            Section(title="Next", body=tuple(_next(report)), only=("text",)),
        ),
        footer=(f"Offline preview. {format_nature([report])}",),
        elsewhere=f"See `fleet preview --stack {report.recording.stack}`, or `--format html` and `json`.",
        data=_document(report) if with_data else {},
    )


def format_total(priced: RecordedBill) -> str:
    """The hourly total of what has a price here: `at least $12.34 an hour`."""
    bill = priced.bill
    if bill is None or not bill.items:
        return "no price known" if bill is None else "nothing with an hourly price of its own"
    total = f"{'at least ' if bill.unknown else ''}{format_usd(bill.usd_per_hour_known)} an hour"
    unpriced = sum(item.quantity for item in bill.items if item.id == "nodes" and item.usd_per_hour is None)
    return (
        f"{plural(int(unpriced), 'GPU node')}: no price for {bill.region}; everything else {total}"
        if unpriced
        else total
    )


def _cost(report: ProgramReport) -> Section | None:
    bill = report.priced.bill
    if bill is None or not bill.items:
        return None
    # A stack file could state a price; this program has none.
    reasons = {item.name: (item.reason or "").removesuffix("; set capacity.usdPerNodeHour") for item in bill.items}
    foot = ("total of what has a price", format_usd(bill.usd_per_hour_known))
    table = bill_table(bill, report.recording.stack, of="Bill of the recorded resources", reasons=reasons, foot=foot)
    return Section(title="Cost", remark=format_bill_title(bill), body=(table, not_billed(bill)), rank=1)


def _next(report: ProgramReport) -> Iterator[Prose | Next]:
    if report.policies.mandatory:
        yield Prose("fix the blocking policy violations, then preview again")
        return
    yield Next(f"pulumi preview --stack {report.recording.stack}")


def _document(report: ProgramReport) -> dict[str, Any]:
    bill = report.priced.bill
    priced = None
    if bill is not None:
        priced = {
            "region": bill.region,
            "usdPerHour": round(bill.usd_per_hour_known, 4),
            "isAtLeast": bool(bill.unknown),
            "items": [as_item(item) for item in bill.items],
            "excluded": list(bill.excluded),
        }
    plan = {
        "mode": report.mode,
        "remarks": list(report.remarks),
        "bill": priced,
        "unknown": list(report.priced.unknown),
    }
    document = recorded_document(report) | {"plan": plan | about_program(report)}
    return dict(Redactor(report.recording.plaintexts).value(document))
