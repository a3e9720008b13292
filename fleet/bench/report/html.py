"""A judged measurement as one self-contained HTML page, for screen, phone and paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from fleet.bench.measurement import Check, Judged
from fleet.bench.report import against, article, captions, configuration, headline, tables, tables_each
from fleet.bench.report.article import Published
from fleet.bench.report.shown import Shown, is_self_test, shown
from fleet.bench.report.texts import TEXTS
from fleet.report.charts import Plot, drawing
from fleet.report.page import picture, render
from fleet.report.table import Cell, Table, texts
from fleet.report.words import plural, sentence

_FOLDER = Path(__file__).parent / "page"
_BLAMES: Mapping[str, str] = {
    "client": "the clients",
    "server": "the servers",
    "run": "the run",
    "data": "the data",
}


def html_text(
    judged: Judged,
    plots: Sequence[Plot],
    *,
    source: Path,
    entry: str | None,
    how_to_record: str,
    signed: str = "unsigned",
) -> str:
    """The whole page. `source` is the measurement's folder as the user named it; `entry` the entry for the claims ledger."""
    found = shown(judged.measurement)
    published = article.published(judged.measurement.asked)
    return render(
        _FOLDER,
        {"tables": tables, "each": tables_each, "configuration": configuration, "plural": plural, "texts": TEXTS},
        **_context(judged, found, published),
        plots={plot.id: picture(partial(drawing, plot)) for plot in plots},
        source=str(source),
        entry=entry,
        how_to_record=how_to_record,
        signed=signed,
        report_again=configuration.report_again(source),
    )


def _context(judged: Judged, found: Shown, published: Published) -> dict[str, Any]:
    measurement, certificate = judged.measurement, judged.certificate
    asked, run = measurement.asked, found.run
    folds = [
        (f"{plural(len(these), 'check')} {verdict}", f"{verdict.replace(' ', '-')}-table", these)
        for verdict in ("failed", "not measured", "passed")
        if (these := [one for one in certificate.checks if one.verdict == verdict])
    ]
    return {
        "title": headline.title(judged),
        "subtitle": headline.subtitle(measurement),
        "certified": certificate.verdict == "certified",
        "verdict": sentence(certificate.headline),
        "reason": certificate.reason,
        "folds": folds,
        "checks": _checks,
        "against": against.outcome(judged.comparisons),
        "comparisons": against.comparisons(judged.comparisons) if judged.comparisons else None,
        "measurement": measurement,
        "asked": asked,
        "self_test": asked is not None and is_self_test(asked),
        "shown": found,
        "published": published,
        "figures_of": headline.figures_of(judged, found),
        "numbers": tuple(headline.numbers(judged, found, published)),
        "articles_way": headline.articles_way(found),
        "errors": tables.errors(measurement.runs) if any(one.errors for one in measurement.runs) else None,
        "nodes_caption": captions.nodes_caption(found, published),
        "load_caption": captions.load_caption(found),
        "latency_caption": captions.latency_caption(found, published),
        "has_goodput": any(one.goodput is not None for one in found.runs),
        "limits": captions.limits(found),
        "shown_run": captions.format_run(found),
        "time_caption": captions.time_caption(found),
        "runs_caption": captions.runs_caption(found),
        "witnessed": any(one.cpu_share_peak is not None for one in run.clients),
        "server": run.server,
        "engines_caption": captions.engines_caption(found),
        "server_tiles": tuple(headline.server_numbers(run.server)) if run.server is not None else (),
        "mfu": run.server is not None and any(one.tflops_mean is not None for one in run.server.engines),
        "gpus": run.gpus,
        "power_caption": captions.power_caption(found),
        "holds_for": captions.holds_for(found),
    }


def _checks(id_: str, checks: Sequence[Check]) -> Table:
    return Table(
        id=id_,
        caption="Checks of the certificate",
        columns=texts("check", "found", "allowed", "why it matters"),
        rows=tuple(
            (
                Cell(one.title, note="not required" if not one.required else ""),
                Cell(one.found, note=f"Cause: {_BLAMES[one.blames]}." if one.verdict == "failed" else ""),
                Cell(one.allowed),
                Cell("", note=one.why),
            )
            for one in checks
        ),
    )
