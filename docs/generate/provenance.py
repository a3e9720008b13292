"""Generates docs/provenance.md, the page of figures, sources and disputes, from the ledger: `python -m docs.generate.provenance`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from facts import figures, ledger
from facts.figures import Figure

PAGE = Path(__file__).parents[1] / "provenance.md"

_TITLES = {
    "phases": "One node, step by step",
    "cluster_ip": "First run over nodes, ClusterIP: the record",
    "gateway": "First run over nodes, behind the Inference Gateway",
    "single_client": "One benchmark client for the whole fleet, which limits the rate",
    "cluster_ip_rerun": "Second run over nodes",
}
_NONE = "–"


def page() -> str:
    """The whole page as Markdown."""
    parts = (_introduction(), _sources(), _figures(), _article_claims(), _disputes())
    return "\n".join(line for part in parts for line in part).rstrip() + "\n"


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")


def _introduction() -> Iterator[str]:
    yield "# Where the numbers come from, and where they disagree"
    yield ""
    yield "Published figures, the sources of every figure and price, and known contradictions. Generated from `facts/data/*.yaml` by"
    yield "`python -m docs.generate.provenance`; do not edit this page."
    yield ""
    yield "A figure applies to the configuration it was measured on. A stack with another configuration shows it only if every"
    yield "difference is justified in [equivalences.yaml](../facts/data/equivalences.yaml). Nothing is interpolated. Output tokens are"
    yield "derived, because the article states totals."
    yield ""
    yield "The options of each run are in [shapes.yaml](../facts/data/shapes.yaml), its requests in"
    yield "[workloads.yaml](../facts/data/workloads.yaml). `fleet prices` prints prices with source and date. Own trials on GPUs are in the"
    yield "files of [facts/data](../facts/data) that name the GPU."
    yield ""


def _sources() -> Iterator[str]:
    yield from _heading("Sources")
    rows = []
    for id_ in ledger.section("sources", "sources"):
        source = ledger.source(id_)
        title = f"[{source.title}]({source.url})" if source.url else source.title
        rows.append((f"`{id_}`", title, source.date, (source.note or "").strip()))
    yield from _table(("id", "what", "date", "note"), rows)


def _figures() -> Iterator[str]:
    yield from _heading("Published figures")
    every = figures.all_figures()
    for file in figures.FIGURE_FILES:
        yield f"### {_TITLES[file]}"
        yield ""
        rows = [_figure_row(figure) for figure in every if figure.id.startswith(f"{file}.")]
        headers = ("row", "nodes", "total tok/s", "output tok/s", "efficiency", "TPOT", "TTFT", "shape", "disputed")
        yield from _table(headers, rows)
        notes = [(figure.id, text) for figure in every if figure.id.startswith(f"{file}.") for text in _remarks(figure)]
        for id_, text in notes:
            yield f"- `{id_}`: {text}"
        if notes:
            yield ""


def _figure_row(figure: Figure) -> tuple[str, ...]:
    efficiency = figure.scaling_efficiency_percent
    return (
        f"`{figure.id}` {figure.title}",
        str(figure.shape.replicas),
        ("about " if figure.approximate else "") + _number(figure.total_tokens_per_s),
        _number(figure.output_tokens_per_s),
        _NONE if efficiency is None else f"{efficiency} %",
        _NONE if figure.tpot_median_ms is None else f"{figure.tpot_median_ms} ms",
        _NONE if figure.ttft_median_ms is None else f"{_number(figure.ttft_median_ms)} ms",
        _measured_on(figure),
        _links(figure.dispute_ids),
    )


def _measured_on(figure: Figure) -> str:
    workload = figure.shape.workload
    words = "workload not stated" if workload == figures.NOT_STATED else workload
    return f"{figure.label.removeprefix('published, ')}, {words}"


def _remarks(figure: Figure) -> Iterator[str]:
    if figure.outcome:
        yield f"{figure.outcome}."
    if figure.note:
        yield figure.note.strip()
    if figure.also_published:
        yield f"also published: {', '.join(figure.also_published)}."
    if figure.details:
        yield f"{_plain(figure.details)}."


def _article_claims() -> Iterator[str]:
    yield from _heading("Machines, memory and model, according to the article")
    rows = [
        (row["title"], row["h100_sxm"], row["b200_sxm"], f"{row['ratio']}x", _links(row.get("disputed", ())))
        for row in ledger.section("article", "hardware").values()
    ]
    yield from _table(("", "H100 SXM", "B200 SXM", "ratio", "disputed"), rows)
    sizes = ledger.section("memory", "values").values()
    yield from _table(
        ("what", "published", "disputed"),
        [(row["title"], row["published"], _links(row.get("disputed", ()))) for row in sizes],
    )
    claims = ledger.section("article", "said").values()
    yield from _table(
        ("what", "published", "remark", "disputed"),
        [(row["title"], row["value"], row["so"], _links(row.get("disputed", ()))) for row in claims],
    )


def _disputes() -> Iterator[str]:
    yield from _heading("Disputes and errata")
    yield "All values are kept uncorrected in the data."
    yield ""
    affected: dict[str, list[str]] = {}
    for figure in figures.all_figures():
        for id_ in figure.dispute_ids:
            affected.setdefault(id_, []).append(f"`{figure.id}`")
    for id_ in ledger.section("disputes", "disputes"):
        dispute = ledger.dispute(id_)
        yield f"### {id_}"
        yield ""
        yield f"{dispute.subject[0].upper()}{dispute.subject[1:]}."
        yield ""
        for value in dispute.values:
            yield f"- {value}"
        yield ""
        yield dispute.note
        if id_ in affected:
            yield ""
            yield f"Figures: {', '.join(affected[id_])}."
        yield ""


def _heading(text: str) -> Iterator[str]:
    yield f"## {text}"
    yield ""


def _table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(headers)} |"
    yield f"|{' --- |' * len(headers)}"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', '/') or _NONE for cell in row)} |"
    yield ""


def _links(ids: Sequence[str]) -> str:
    return ", ".join(f"[{id_}](#{id_})" for id_ in ids) or _NONE


def _number(value: float | None) -> str:
    return _NONE if value is None else f"{value:,}"


def _scalar(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _plain(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{str(key).replace('_', ' ')} {_plain(inner)}" for key, inner in value.items())
    if isinstance(value, list):
        return " / ".join(_plain(inner) for inner in value)
    return _scalar(value)


if __name__ == "__main__":
    main()
