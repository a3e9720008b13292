"""Policy verdicts in the terminal report: violation, reason, fix."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from fleet.report.terminal import Page
from fleet.report.words import plural

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fleet.preview.report.judges import Remark
    from fleet.preview.report.model import Policies, Unreached
    from fleet.preview.report.verdicts import Verdict

_MOST_NAMES = 4
_MOST_RULES = 10
PARTS = ("allowed", "why", "write")
"""Parts of a finding that several may share, in their order."""


def print_policies(page: Page, policies: Policies) -> None:
    """The verdicts, blocking ones first, or why there are none."""
    if policies.state == "none":
        page.title("Policies")
        page.prose("not checked: this project has no policy pack in policy/")
        return
    if policies.state == "skipped":
        page.title("Policies")
        page.prose("not checked (--no-policy)")
        return
    from fleet.preview.report.judges import remarks_of
    from fleet.preview.report.verdicts import format_counts, verdicts

    page.title("Policies", format_counts(policies))
    for remark in remarks_of(policies):
        print_remark(page, remark)
    page.prose("checked with placeholder cloud ids", style="dim")
    for one in verdicts(policies):
        _print_verdict(page, one)
    if policies.unreached:
        page.prose(
            f"a first `pulumi preview` cannot check these yet, because of unknown values: {_unreached(policies.unreached)}",
            mark="· ",
            style="dim",
            mark_style="dim",
        )


def print_judges(page: Page, policies: Policies) -> None:
    """What a change does to its judge, and what both judges say; nothing where the judge stays as it is."""
    from fleet.preview.report.judges import HOW_TO_LAND, changes_of, rows_of

    remarks, rows = list(changes_of(policies)), rows_of(policies)
    if not remarks and not rows:
        return
    page.title("What judges this change", "changed by it")
    for remark in remarks:
        print_remark(page, remark)
    if rows:
        widths = [max(len(row[column]) for row in rows) for column in range(3)]
        page.blank()
        for row in rows:
            page.line("  " + "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())
        page.item(HOW_TO_LAND)


def print_remark(page: Page, remark: Remark) -> None:
    """A line about the judges, marked if less is judged."""
    if remark.loud:
        page.prose(remark.text, mark="!! ", style="bold red", mark_style="bold white on red")
    else:
        page.item(remark.text)


def _unreached(several: Sequence[Unreached]) -> str:
    """Each rule with its resources, or for many rules the number per resource."""
    if len(several) <= _MOST_RULES:
        return ", ".join(f"{one.policy} at {_some(_names(one))}" for one in several)
    counts = Counter(name for one in several for name in _names(one))
    return ", ".join(f"{plural(count, 'rule')} at {name}" for name, count in counts.items())


def _names(one: Unreached) -> list[str]:
    return [urn.rpartition("::")[2] for urn in one.urns]


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_MOST_NAMES])
    return f"{shown} and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else shown


def _print_verdict(page: Page, verdict: Verdict) -> None:
    from fleet.preview.report.verdicts import name_of, shared

    style = "bold red" if verdict.stops else "yellow"
    names = list(dict.fromkeys(map(name_of, verdict.findings)))
    where = names[0] if len(names) == 1 else plural(len(names), "resource")
    by = f"only by {verdict.by}" if verdict.by else ""
    level = f" ({', '.join(part for part in (verdict.level, verdict.severity, by) if part)})"
    page.prose(f"{verdict.policy}{f': {where}' if where else ''}{level}", mark="✗ ", style=style, mark_style=style)
    if verdict.statement:
        page.prose(verdict.statement, indent=4, style="dim")
    if verdict.on_purpose:
        # The profile's deliberate exception already gives reason and cost.
        for finding in verdict.findings:
            page.item(" ".join(str(finding.found).split()), indent=4)
        return
    common = {part: shared(verdict.findings, part) for part in PARTS}
    for finding in verdict.findings:
        if len(names) > 1:
            page.prose(name_of(finding) or "the stack", indent=4, mark="· ", style="bold", mark_style="dim")
        indent = 4 if len(names) == 1 else 6
        for line in str(finding.found).splitlines():
            page.prose(line, indent=indent)
        _print_parts(page, {part: "" if common[part] else getattr(finding, part) for part in PARTS}, indent)
    _print_parts(page, common, 4)


def _print_parts(page: Page, texts: Mapping[str, str], indent: int) -> None:
    for part, text in texts.items():
        if text and part == "write":
            page.prose(text, indent=indent, mark="→ ", style="bold", mark_style="dim")
        elif text:
            page.prose(f"{part}: {text}", indent=indent)
