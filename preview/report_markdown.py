"""The report as a pull-request comment: the verdict first, everything long behind a fold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from preview.figures_in_words import (
    bill_lines,
    figure_in_words,
    per_million_in_words,
    plural,
    published_nodes_in_words,
    residual_in_words,
    usd,
)

if TYPE_CHECKING:
    from preview.report_model import Finding, Node, Report


def markdown_text(report: Report) -> str:
    """The whole report as GitHub-flavoured Markdown."""
    sections = (
        _headline(report),
        _throughput(report),
        _cost(report),
        _findings(report),
        _policies(report),
        _resources(report),
        _about(report),
    )
    texts = ("\n".join(section).strip("\n") for section in sections)
    return "\n\n".join(text for text in texts if text) + "\n"


def _headline(report: Report) -> Iterator[str]:
    fleet, figures, recording = report.fleet, report.figures, report.recording
    size = "as many A4 nodes as others ask for" if fleet.nodes is None else plural(fleet.nodes, "A4 node")
    gpus = "" if fleet.gpus is None else f" ({fleet.gpus:,} B200)"
    rate = f"{figures.total_tokens_per_s:,} tok/s published" if figures.total_tokens_per_s else "no published figure"
    yield f"### Preview of `{recording.stack}`: {len(report.changes)} to create, {figures.bill.total_in_words()}"
    yield ""
    yield (
        f"{size}{gpus} on {fleet.capacity} in {', '.join(fleet.zones)} · {_code(fleet.model)} at "
        f"{_code(fleet.revision[:12])} · vLLM {fleet.vllm} · profile {_code(fleet.profile)} · {rate}"
    )
    if fleet.platform is not None:
        yield f"On the cluster of {_code(fleet.platform)}."
    for danger in report.dangers:
        yield ""
        yield "> [!CAUTION]"
        yield f"> {_escape(danger)}"


def _throughput(report: Report) -> Iterator[str]:
    figures, match = report.figures, report.figures.match
    if match.figure is None:
        yield f"**Throughput**: {match.reason}; there is one for {published_nodes_in_words(report)}."
        return
    figure = match.figure
    if figures.proven:
        yield f"**Throughput** ({figure.label}): {figure_in_words(figure)}. {_escape(figure.title)}: {match.reason}."
    else:
        yield f"**Throughput**: no published figure for this shape. {_escape(match.reason)}."
        yield ""
        yield f"Nearest: {_escape(figure.title)}, {figure_in_words(figure)} ({figure.label})."
    if match.differences:
        rows = (
            (_code(one.field), _code(one.published), _code(one.ours), one.argument or "**not argued**")
            for one in match.differences
        )
        yield from _fold(
            plural(len(match.differences), "difference") + " from the published run",
            _table(("setting", "published", "here", "why it does not matter"), rows),
        )


def _cost(report: Report) -> Iterator[str]:
    bill = report.figures.bill
    summary = [per_million_in_words(report.figures), *residual_in_words(bill)]
    yield f"**Cost**: {bill.total_in_words()}"
    yield ""
    for line in summary:
        yield f"- {line}"
    amounts = {item.name: item.reason for item in bill.items}
    rows = (
        (
            line.name,
            line.quantity,
            usd(line.usd_per_hour) if line.usd_per_hour is not None else "unknown",
            amounts[line.name] or "",
        )
        for line in bill_lines(bill)
    )
    body = [
        *_table(("item", "quantity", "USD an hour", "why unknown"), rows),
        "",
        "Not on the bill: " + "; ".join(bill.excluded) + ".",
    ]
    yield from _fold(plural(len(bill.items), "line") + " of the bill", body)


def _findings(report: Report) -> Iterator[str]:
    unexpected = [one for one in report.findings if not one.on_purpose]
    on_purpose = [one for one in report.findings if one.on_purpose]
    if unexpected:
        yield f"**To look at ({len(unexpected)})**"
        yield ""
        yield from _list(unexpected)
    if on_purpose:
        yield from _fold(
            f"{plural(len(on_purpose), 'finding')} that profile {report.fleet.profile} repeats on purpose",
            list(_list(on_purpose)),
        )
    if report.notices:
        yield from _fold(
            f"{len(report.notices)} good to know",
            [f"- {_code(one.path)} = {_code(one.value)}: {_escape(one.why)}" for one in report.notices],
        )
    for diagnostic in report.diagnostics:
        yield f"- {diagnostic.severity}: {_escape(diagnostic.message)}"


def _list(findings: Sequence[Finding]) -> Iterator[str]:
    for finding in findings:
        problem = finding.problem
        yield f"- {_code(problem.path)} = {_code(problem.value)}: {_escape(problem.why)}"
        yield f"  Write: {_code(problem.write)}"


def _policies(report: Report) -> Iterator[str]:
    policies = report.policies
    if policies.state == "none":
        yield "**Policies**: this project has no policy pack in `policy/`, so nothing was judged."
    elif policies.state == "skipped":
        yield "**Policies**: not asked."
    elif not policies.violations:
        yield "**Policies**: none violated (judged on values made up for what only the cloud decides)."
    else:
        yield (
            f"**Policies**: {len(policies.mandatory)} mandatory violated, "
            f"{len(policies.violations) - len(policies.mandatory)} advisory "
            "(judged on values made up for what only the cloud decides)"
        )
        yield ""
        rows = (
            (one.level, _code(one.policy), _code(one.urn.rpartition("::")[2]), _escape(one.message))
            for one in policies.violations
        )
        yield from _table(("level", "policy", "resource", "message"), rows)


def _resources(report: Report) -> Iterator[str]:
    counted = report.counted
    summary = f"{len(report.changes)} to create: {plural(counted['resource'], 'resource')} in "
    yield from _fold(summary + plural(counted["component"], "component"), ["```diff", *_tree(report.tree, 0), "```"])


def _tree(node: Node, depth: int) -> Iterator[str]:
    facts = f"  {', '.join(node.facts)}" if node.facts else ""
    yield f"+ {'  ' * depth}{node.kind} {node.name}{facts}"
    for child in node.children:
        yield from _tree(child, depth + 1)


def _about(report: Report) -> Iterator[str]:
    known = "made up where the cloud would decide them" if report.mode == "known" else "left unknown"
    for remark in report.remarks:
        yield f"- {_escape(remark)}"
    yield (
        "- Offline preview: the program ran against a recorder, without credentials. No provider checked it, and nothing "
        f"was compared with what is live. Ids and addresses are {known}."
    )


def _fold(summary: str, body: Sequence[str]) -> Iterator[str]:
    """A folded section. GitHub renders Markdown in it only after an empty line."""
    yield ""
    yield f"<details><summary>{summary}</summary>"
    yield ""
    yield from body
    yield ""
    yield "</details>"


def _table(head: Sequence[str], rows: Iterator[tuple[str, ...]]) -> list[str]:
    lines = [" | ".join(head), " | ".join("---" for _ in head)]
    lines += [" | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in row) for row in rows]
    return [f"| {line} |" for line in lines]


def _code(value: object) -> str:
    text = (
        {True: "true", False: "false", None: "not set"}.get(value, str(value))
        if isinstance(value, bool | None)
        else str(value)
    )
    return f"``{text}``" if "`" in text else f"`{text}`"


def _escape(text: str) -> str:
    """Text that Markdown shows as it is: no tag, no emphasis by accident."""
    return text.replace("\\", "\\\\").replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_")
