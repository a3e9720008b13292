"""The page and its images as files."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from facts.files import write_whole
from fleet.bench.errors import BenchmarkError
from fleet.bench.measurement import Judged
from fleet.bench.report import article, ledger_entry
from fleet.bench.report.headline import caption
from fleet.bench.report.outline import outline
from fleet.bench.report.plots import IDS, plots_of
from fleet.bench.report.shown import shown
from fleet.bench.signature import format_signer, signer
from fleet.report.as_html import html_text
from fleet.report.charts import drawing
from fleet.report.png import png

PAGE: Final = "report.html"


def write_report(judged: Judged, out: Path, *, source: Path) -> tuple[Path, ...]:
    """Write report.html and a PNG of every plot into `out`; returns what was written, the page first.

    Removes images of an earlier report that this one does not have. `source` is the measurement's folder, named on the page. Raises
    BenchmarkError where the folder cannot be written, and for a signature that does not match.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(out, error) from None
    found = shown(judged.measurement)
    plots = plots_of(found, article.published(judged.measurement.asked))
    entry, words = ledger_entry.entry(found, source)
    signed = format_signer(signer(source))
    page = html_text(outline(judged, plots, source=source, entry=entry, how_to_record=words, signed=signed))
    content = {PAGE: page.encode("utf-8", "replace")}
    content |= {f"{plot.id}.png": png(drawing(plot, "wide"), caption(judged, found, plot)) for plot in plots}
    left_over = {f"{id_}.png" for id_ in IDS} - content.keys() if (out / PAGE).exists() else ()
    try:
        for name, data in content.items():
            write_whole(out / name, data)
        for name in left_over:
            (out / name).unlink(missing_ok=True)
    except OSError as error:
        raise _unwritable(out, error) from None
    return tuple(out / name for name in content)


def _unwritable(out: Path, error: OSError) -> BenchmarkError:
    return BenchmarkError(f"{out}: {error.strerror or error}; pass --out with a writable folder")
