"""Prefill apart from decode in a plan's report: one line, and a section with every split."""

from __future__ import annotations

from collections.abc import Iterator

from facts.texts import plural
from fleet.plan.plan import Plan
from fleet.plan.prefill_apart import PrefillApart, Span, Split
from fleet.report.outline import Element, Medium, Number, Prose, Section
from fleet.report.table import Cell, Column, Table, numbers, texts
from fleet.report.words import format_duration, format_milliseconds, format_number

_MS = 1e3


def number(plan: Plan) -> Iterator[Number]:
    """The verdict in one line; nothing where a node has one engine."""
    found = plan.prefill_apart
    if found is not None:
        more = f"{_verdict(found)}; --prefill-apart shows all splits"
        yield Number(name="prefill apart", now=found.advice, more=more)


def section(plan: Plan, only: tuple[Medium, ...] = ("text", "markdown", "html")) -> Section:
    """Every split of a node's engines, what it rests on, and what to try first."""
    found = plan.prefill_apart
    title = "Prefill apart from decode"
    if found is None:
        return Section(title=title, body=(Prose("A node has one engine: there is nothing to split on it."),), only=only)
    return Section(
        title=title, remark=found.advice, body=(_splits(found), *_read(found)), id="prefill-apart", only=only
    )


def _verdict(found: PrefillApart) -> str:
    best, engines = found.best.apart, found.best.apart.prefill + found.best.apart.decode
    return (
        f"{best.prefill} of {plural(engines, 'engine')} for prompts: {_times(found.best.gain)} the tok/s, gaps up to "
        f"{format_milliseconds(_MS * best.longest_gap_s)} instead of {format_milliseconds(_MS * found.together.longest_gap_s)}"
    )


def _splits(found: PrefillApart) -> Table:
    return Table(
        id="prefill-apart-table",
        caption="Splits of one node's engines at the planned load, against the same engines together",
        columns=(
            *texts("prefill : decode"),
            *numbers("tok/s", "low to high", "longest gap"),
            *numbers("TPOT", "wait"),
            *numbers("prefill busy", "decode busy", is_optional=True),
            Column(title="idle", is_optional=True),
        ),
        rows=(
            (
                Cell("together"),
                Cell("1.00"),
                Cell(""),
                Cell(format_milliseconds(_MS * found.together.longest_gap_s)),
                Cell(format_milliseconds(_MS * found.together.tpot_s)),
                Cell(""),
                Cell(""),
                Cell(""),
                Cell(""),
            ),
            *(_row(split, "best" if split is found.best else "") for split in found.splits),
        ),
    )


def _row(split: Split, note: str) -> tuple[Cell, ...]:
    one = split.apart
    return (
        Cell(f"{one.prefill} : {one.decode}", note),
        Cell(f"{split.gain.value:.2f}"),
        Cell(_span(split.gain), style="dim"),
        Cell(format_milliseconds(_MS * one.longest_gap_s)),
        Cell(format_milliseconds(_MS * one.tpot_s)),
        Cell(format_duration(one.wait_s) if one.wait_s >= 1 else "-"),
        Cell(f"{100 * one.prefill_busy:.0f} %"),
        Cell(f"{100 * one.decode_busy:.0f} %"),
        Cell("" if one.idle == "neither" else one.idle),
    )


def _read(found: PrefillApart) -> Iterator[Element]:
    low, high = found.ratio.low, found.ratio.high
    yield Prose(
        f"Neither side idles at {found.ratio.value:.2f} prefill engines for one decode engine ({low:.2f} to {high:.2f}): the time of "
        f"a prompt to the decode time of an answer. A node has {format_number(found.in_flight)} requests in its engines."
    )
    yield Prose(
        "tok/s: as a multiple of the same engines together with as many requests. Wait: before a prompt is read. Intervals span both "
        "readings of the machine, and prompts up to twice as fast as modelled; no whole split was measured.",
        "soft",
    )
    if found.cure is not None:
        yield Prose(
            f"First: --max-num-batched-tokens {found.cure.max_num_batched_tokens} has room for this load, and its longest gap is "
            f"{format_milliseconds(_MS * found.cure.longest_gap_s)}, with all engines together."
        )
    size = format_number(found.request_bytes / 1e6)
    yield Prose(
        f"Each request would send {size} MB, {found.gb_per_s:.0f} GB/s on a node. `--write STACK --router-image IMAGE` writes the best "
        "split as server.shape (docs/prefill-apart.md).",
        "soft",
    )


def _times(span: Span) -> str:
    return (
        f"{span.low:.2f} to {span.high:.2f} times"
        if f"{span.low:.2f}" != f"{span.high:.2f}"
        else f"{span.low:.2f} times"
    )


def _span(span: Span) -> str:
    return f"{span.low:.2f} to {span.high:.2f}"
