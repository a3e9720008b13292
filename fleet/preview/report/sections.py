"""Sections of a preview: what the stack is, its bill, throughput, findings, resources and changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from facts.cost import format_indication
from facts.finding import Finding
from facts.texts import plural
from fleet.plan.words import format_figure
from fleet.preview.compare.engine_words import engine_words
from fleet.preview.compare.wording import (
    format_after,
    format_before,
    format_difference,
    format_summary,
    format_value,
)
from fleet.preview.policy_config import config_file
from fleet.preview.report.change_tree import change_tree, created_tree, edit_of, folded_tree
from fleet.preview.report.picture import picture
from fleet.preview.report.policies import findings_of, remarks_of, without_told
from fleet.preview.report.wording import (
    bill_line,
    bill_lines,
    format_hourly,
    format_nature,
    format_no_figure,
    format_per_million,
    format_price_origin,
    format_priorities,
    format_rate,
    format_residual,
    format_size,
)
from fleet.report.outline import (
    Box,
    Branch,
    Brief,
    Code,
    Element,
    Findings,
    Items,
    Prose,
    Section,
    Tree,
    grouped,
    next_steps,
    some,
)
from fleet.report.table import Cell, Table, numbers, texts
from fleet.report.words import format_usd, sentence

if TYPE_CHECKING:
    from facts.cost import Bill, LineItem
    from fleet.preview.compare.changes import Changes, Danger
    from fleet.preview.report.model import Report

_MOST_BLOCKING: Final = 10
"""Blocking findings in sight; the others are folded."""
_LARGEST: Final = 5
"""Rows of the bill on the first screen."""
_LARGEST_BRANCHES: Final = 4
"""Components there. Both fit a screen of 80 x 45 with the stack that has most of them."""
_BRANCHES_OF_BLOCKED: Final = 3
"""Components where a policy blocks: what blocks has their room."""
_MOST_CURED: Final = 2
"""Blocking findings on a terminal's first screen with what to write; others there have one line each."""
_MOST_BRIEF: Final = 6
"""Lines of findings there."""
_MOST_CURED_OF_CHANGES: Final = 1
_MOST_BRIEF_OF_CHANGES: Final = 3
"""The same of a comparison, which tells its effects there, too."""
_LONGEST_FOUND: Final = 220
"""Characters of what is found, and of what to write, there."""
_LONGEST_LINE: Final = 100
"""Characters of what is found where it has a line."""
_MOST_DANGERS: Final = 3
_MOST_EFFECTS: Final = 3
_MOST_AFTERMATHS: Final = 2
"""Of a comparison's first screen."""
_LONGEST_WORDS: Final = 200
"""Characters there of what changes in the engine's words."""
_SERIOUS: Final = (
    "alias-conflict",
    "protected",
    "cluster-",
    "bucket-",
    "server-deleted",
    "all-replicas-at-once",
    "weights-",
    "namespace-",
    "endpoint-moved",
    "capacity-changed",
    "protection-removed",
)
"""Dangers by the beginning of their ids, the most serious first: what the engine refuses, what is lost, who is not served."""


# What it is -----------------------------------------------------------------------------------------------------------


def what_it_is(report: Report) -> Iterator[Element]:
    """Size, place, model, price and rate, and what costs money at once."""
    fleet, figures = report.fleet, report.figures
    on = f" on the cluster of {fleet.platform}" if fleet.platform is not None else ""
    apart = f", {fleet.shape}" if fleet.shape else ""
    where = f"{format_size(fleet)} {fleet.bought} in {', '.join(fleet.zones)}{on}"
    yield Items(
        (
            f"{where}: {fleet.model}, vLLM {fleet.vllm}, profile {fleet.profile}{apart}",
            f"{', '.join(filter(None, (format_hourly(figures.bill), format_priorities(figures.bill))))}; {format_per_million(figures)}",
            format_rate(report),
            *(bound.text() for bound in report.bounds),
        )
    )
    for danger in report.dangers:
        yield Box(body=(Prose(danger),))


def about_section(report: Report) -> Section:
    """What the reader should know about this preview itself, and who judged it."""
    written = [] if report.out is None else [f"Manifests: {report.out}"]
    revision = f"Weights: revision {report.fleet.revision}."
    remarks = (*report.remarks, *remarks_of(report.policies), revision, format_nature([report]), *written)
    return Section(title="About", body=(Items(remarks),), folding="always", rank=1)


def _is_new(report: Report) -> bool:
    """Whether no other version of the stack is known, which may be running."""
    return report.comparison is None or not any(one.old_urn for one in report.comparison.resources)


def next_section(report: Report) -> Section | None:
    """What to type next; nothing where a policy blocks."""
    if report.policies.mandatory:
        return None
    stack = report.recording.stack
    judged = f" --policy-pack policy --policy-pack-config {config_file(stack)}"
    begin = (f"pulumi login && pulumi stack init {stack}", f"pulumi config set gcp:project MY-PROJECT --stack {stack}")
    return next_steps(
        *(begin if report.fleet.stand_in_project and _is_new(report) else ()),
        f"fleet doctor --for up --stack {stack}",
        f"pulumi preview --stack {stack}{judged if report.policies.state == 'judged' else ''}",
    )


# Throughput -----------------------------------------------------------------------------------------------------------


def throughput_section(report: Report) -> Section:
    """The published figure, or why there is none, and the model's estimate."""
    figures, match, modelled = report.figures, report.figures.match, report.modelled
    estimate = Prose(modelled.format()) if modelled is not None else None
    assumed = Prose(modelled.assumed) if modelled is not None and modelled.assumed else None
    remark, body = "", some(Prose(format_no_figure(report)), estimate, assumed)
    if match.figure is not None and figures.proven:
        remark = match.figure.label
        body = (
            Prose(format_figure(match.figure), "strong"),
            Prose(f"{match.figure.title}: {match.reason}"),
            *(Prose(f"also published: {one}") for one in match.figure.also_published),
        )
    elif match.figure is not None:
        remark = "no published figure for this shape"
        nearest = f"nearest: {match.figure.title}, {format_figure(match.figure)} ({match.figure.label})"
        body = some(Prose(nearest), Prose(match.reason), estimate, assumed)
    differences = (_differences(report),) if match.differences else ()
    return Section(title="Throughput", remark=remark, body=(*body, *differences), folding="always", rank=1)


def _differences(report: Report) -> Table:
    match = report.figures.match
    return Table(
        id="differences",
        caption="Settings in which this stack differs from the published run",
        columns=texts("differs from the published run", "published", "here", "justification"),
        rows=tuple(
            (
                Cell(f"`{one.field}`"),
                Cell(f"`{format_value(one.published)}`"),
                Cell(f"`{format_value(one.ours)}`"),
                Cell(one.argument or "not argued"),
            )
            for one in match.differences
        ),
    )


# The bill -------------------------------------------------------------------------------------------------------------


def largest_costs(report: Report) -> Section:
    """The bill's largest rows, and what has no price on one line."""
    bill = report.figures.bill
    # The nodes are most of the cost, whether their price is known or not.
    first = [bill.nodes] if bill.nodes.quantity else []
    others = [one for one in bill.items if one.usd_per_hour is not None and one is not bill.nodes]
    shown = [*first, *sorted(others, key=lambda one: -(one.usd_per_hour or 0))][:_LARGEST]
    unknown = tuple(one for one in bill.items if one.usd_per_hour is None and one not in shown)
    near = format_indication(unknown)
    table = Table(
        id="largest",
        caption="The largest rows of the bill",
        columns=(*texts("item", "price of"), *numbers("USD an hour")),
        rows=tuple(
            (
                Cell(_numbered(item)),
                Cell(line.dated),
                Cell("unknown" if line.usd_per_hour is None else format_usd(line.usd_per_hour)),
            )
            for item, line in zip(shown, map(bill_line, shown), strict=True)
        ),
        foot=(Cell(f"{plural(len(unknown), 'more row')}{f', {near}' if near else ''}"), Cell(""), Cell("unknown"))
        if unknown
        else (),
    )
    return Section(title="Largest costs", remark=format_price_origin(bill, shown), body=(table,), rank=1)


def _numbered(item: LineItem) -> str:
    """Its name, with how many machines there are."""
    return f"{item.quantity:,.0f} × {item.name}" if item.unit == "node-hour" and item.quantity > 1 else item.name


def bill_section(report: Report) -> Section:
    """The bill, line by line, and what it leaves out."""
    bill = report.figures.bill
    reasons = {item.name: _why_unknown(item) for item in bill.items if item is not bill.nodes} | {bill.nodes.name: ""}
    table = Table(
        id="bill",
        caption="The bill",
        columns=(*texts("item", "quantity", "price of"), *numbers("USD an hour")),
        rows=tuple(
            (
                Cell(line.name, note=reasons[line.name]),
                Cell(line.quantity),
                Cell(line.dated),
                Cell(format_usd(line.usd_per_hour) if line.usd_per_hour is not None else "unknown"),
            )
            for line in bill_lines(bill)
        ),
        foot=(
            Cell("total" if bill.usd_per_hour is not None else "total without the nodes"),
            Cell(""),
            Cell(""),
            Cell(_total(bill)),
        ),
    )
    nodes = [f"nodes: {bill.nodes.reason}"] if bill.nodes.reason is not None else []
    left_out = f"Not on the bill: {'; '.join(bill.excluded)}."
    return Section(
        title="Bill",
        remark=f"USD an hour, {format_price_origin(bill, bill.items)}",
        body=(table, Items((*nodes, *filter(None, (format_priorities(bill),)), *format_residual(bill), left_out))),
        folding="always",
        rank=2,
    )


def _total(bill: Bill) -> str:
    return f"{'at least ' if bill.unknown else ''}{format_usd(bill.usd_per_hour_known)}"


def _why_unknown(item: LineItem) -> str:
    """The reason, and what the item costs at the nearest region's price."""
    about = item.indicated_usd_per_hour
    return (item.reason or "") + (f": about {format_usd(about)} an hour" if about is not None else "")


# Findings -------------------------------------------------------------------------------------------------------------


def finding_sections(report: Report) -> Iterator[Section]:
    """What policies, checks and the program found: what blocks with its cure, the rest one line each, then in full."""
    found = every_finding(report)
    blocking, rest = (tuple(one for one in found if one.blocks is blocks) for blocks in (True, False))
    if found:
        whole = some(Findings(blocking[:_MOST_BLOCKING]), Findings(rest, is_brief=True))
        body = Brief(on_screen=tuple(_briefly(blocking, rest, report.comparison is not None)), whole=whole)
        yield Section(title=f"Findings ({len(found)})", body=(body,), rank=1)
    if more := (*blocking[_MOST_BLOCKING:], *rest):
        yield Section(title="Reasons", body=(Findings(more),), folding="always", rank=1)


def _briefly(blocking: Sequence[Finding], rest: Sequence[Finding], of_changes: bool) -> Iterator[Element]:
    """What blocks with what to write, and a line for each of the others, as many as a screen has room for."""
    cured, brief = (_MOST_CURED_OF_CHANGES, _MOST_BRIEF_OF_CHANGES) if of_changes else (_MOST_CURED, _MOST_BRIEF)
    blocks = grouped(blocking)
    yield Findings(tuple(map(_shortly, blocks[:cured])))
    others = [*blocks[cured:], *grouped(rest)]
    yield Findings(tuple(_in_a_line(one) for group in others[:brief] for one in group), is_brief=True)
    if more := sum(map(len, others[brief:])):
        yield Prose(f"and {plural(more, 'more finding')}")


def _shortly(group: Sequence[Finding]) -> Finding:
    """What was found and what to write; the other places are a number."""
    first = group[0]
    more = f" (and {plural(len(group) - 1, 'more place')})" if len(group) > 1 else ""
    return replace(
        first,
        found=f"{_cut(str(first.found), _LONGEST_FOUND)}{more}",
        allowed="",
        why="",
        write=_cut(first.write, _LONGEST_FOUND),
    )


def _in_a_line(finding: Finding) -> Finding:
    said = finding.found
    return replace(finding, found=_cut(said, _LONGEST_LINE)) if isinstance(said, str) else finding


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def every_finding(report: Report) -> tuple[Finding, ...]:
    """What blocks, then warnings, deliberate exceptions and notes."""
    told = (*report.findings, *report.notices)
    found = (*findings_of(without_told(report.policies, told)), *_said_by_program(report), *told)
    order = ("error", "warning", "deliberate", "note")
    return tuple(sorted(found, key=lambda one: order.index(one.severity) if one.severity in order else len(order)))


def _said_by_program(report: Report) -> Iterator[Finding]:
    for diagnostic in report.diagnostics:
        yield Finding(
            id="program",
            subject=diagnostic.urn.rpartition("::")[2] or "the program",
            severity="error" if diagnostic.severity == "error" else "warning",
            found=diagnostic.message,
        )


# Resources ------------------------------------------------------------------------------------------------------------


def resource_sections(report: Report) -> Iterator[Section]:
    """The components, then every resource that is created."""
    counted = report.counted
    parts = [plural(counted[kind], kind) for kind in ("resource", "component", "provider") if counted[kind]]
    title = f"{len(report.created)} to create"
    most = _BRANCHES_OF_BLOCKED if report.policies.mandatory else _LARGEST_BRANCHES
    yield Section(title=title, remark=", ".join(parts), body=(Tree(folded_tree(report.recording, most)),), rank=2)
    yield Section(title="Resources", body=(Tree(created_tree(report.recording)),), folding="always", rank=2)
    yield Section(title="Picture", body=(Code(picture(report.recording), "mermaid"),), folding="always", rank=2)


# Changes --------------------------------------------------------------------------------------------------------------


def effects(changes: Changes, *, dangers_are_told: bool = False) -> Iterator[Element]:
    """What changes in the engine's words, dangers, then restarts, minutes, price and rate."""
    if words := engine_words(changes):
        yield Brief(
            on_screen=(Prose(_as_many(words, _LONGEST_WORDS), "strong"),), whole=(Prose(", ".join(words), "strong"),)
        )
    if changes.dangers and not dangers_are_told:
        dangers = sorted(changes.dangers, key=_gravity)
        whole = Box(body=tuple(Prose(danger.message) for danger in dangers))
        yield Brief(on_screen=(Box(body=(Items(tuple(_one_of_each(dangers))),)),), whole=(whole,))
    yield Brief(on_screen=(Items(tuple(_main_effects(changes))),), whole=(Items(changes.headline),))


def _as_many(words: Sequence[str], most: int) -> str:
    """As many of the words as fit, and the number of the others."""
    shown = list(words)
    while len(shown) > 1 and len(", ".join(shown)) > most:
        shown.pop()
    rest = len(words) - len(shown)
    return _cut(", ".join(shown), most) + (f" and {rest} more" if rest else "")


def _one_of_each(dangers: Sequence[Danger]) -> Iterator[str]:
    """One line for each kind of danger, as many as a screen has room for."""
    kinds: dict[str, list[Danger]] = {}
    for danger in dangers:
        kinds.setdefault(danger.id, []).append(danger)
    first, others = list(kinds.values())[:_MOST_DANGERS], list(kinds.values())[_MOST_DANGERS:]
    for kind in first:
        more = f" And {len(kind) - 1} more of this kind." if len(kind) > 1 else ""
        yield f"{kind[0].message}{more}"
    if others:
        yield f"and {plural(sum(map(len, others)), 'more danger')}: {', '.join(kind[0].id for kind in others)}"


def _gravity(danger: Danger) -> int:
    return next((at for at, kind in enumerate(_SERIOUS) if danger.id.startswith(kind)), len(_SERIOUS))


def _main_effects(changes: Changes) -> Iterator[str]:
    """Restarts and minutes, price and rate, then what runs or costs: what decides, without what is read for each release and resource."""
    yield from _first(changes.effects, _MOST_EFFECTS, "effect")
    money = next((one for one in changes.deltas if one.id == "usd-per-hour"), None)
    if changes.pending and money is not None and not money.changed:
        yield f"{format_after(money)} an hour, as before"
    yield from changes.price_and_rate
    if changes.upgrade:
        fixed, new = (sum(f": {sort}: " in line for line in changes.upgrade) for sort in ("fixed", "new defect"))
        yield (
            f"vLLM: {plural(len(changes.upgrade), 'known change')} between the releases, {fixed} of them fixed faults"
            + (f", {plural(new, 'new fault')}" if new else "")
        )
    yield from _first(changes.aftermath, _MOST_AFTERMATHS, "consequence")
    if changes.blast_radius.assumption:
        yield sentence(changes.blast_radius.assumption).rstrip(".")


def _first(lines: Sequence[str], most: int, what: str) -> Iterator[str]:
    yield from lines[:most]
    if len(lines) > most:
        yield f"and {plural(len(lines) - most, f'more {what}')}"


def change_sections(report: Report, changes: Changes) -> Iterator[Section]:
    """The numbers, and the resources that change."""
    if any(one.changed for one in changes.deltas):
        yield _numbers(changes)
    tree = change_tree(changes, report.recording)
    top = Branch(name="outputs of the stack", mark="~", edits=tuple(map(edit_of, changes.outputs)))
    body = some(
        Prose("no resource changes") if tree is None else Tree(tree),
        Tree(top) if changes.outputs else None,
        Items(changes.remarks) if changes.remarks else None,
    )
    yield Section(title="Changes", remark=format_summary(changes), body=body, folding="always", rank=1)


def _numbers(changes: Changes) -> Section:
    table = Table(
        id="numbers",
        caption="Numbers before and after the change",
        columns=(*texts(""), *numbers("before", "after", "difference")),
        rows=tuple(
            (Cell(one.label), Cell(format_before(one)), Cell(format_after(one)), Cell(format_difference(one)))
            for one in changes.deltas
            if one.changed
        ),
    )
    return Section(title="Numbers", body=(table,), folding="always", rank=1)
