"""The page as a file."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from facts.files import write_whole
from fleet.bench.errors import BenchmarkError
from fleet.bench.measurement import Judged
from fleet.bench.report import article, ledger_entry
from fleet.bench.report.outline import outline
from fleet.bench.report.plots import plots_of
from fleet.bench.report.shown import shown
from fleet.report.as_html import html_text

PAGE: Final = "report.html"


def write_report(judged: Judged, out: Path, *, source: Path) -> Path:
    """Write report.html into `out`; returns its path. `source` is the measurement's folder, named on the page.

    Raises BenchmarkError where the folder cannot be written.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(out, error) from None
    found = shown(judged.measurement)
    plots = plots_of(found, article.published(judged.measurement.asked))
    entry, words = ledger_entry.entry(found, source)
    page = html_text(outline(judged, plots, source=source, entry=entry, how_to_record=words))
    try:
        write_whole(out / PAGE, page.encode("utf-8", "replace"))
    except OSError as error:
        raise _unwritable(out, error) from None
    return out / PAGE


def _unwritable(out: Path, error: OSError) -> BenchmarkError:
    return BenchmarkError(f"{out}: {error.strerror or error}; pass --out with a writable folder")
