"""The page and its images as files. Nothing is there half: each is written beside its name and renamed."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Final

from benchmark.errors import BenchmarkError
from benchmark.measurement import Judged
from benchmark.report import article, ledger_entry
from benchmark.report.charts import drawing
from benchmark.report.headline import caption
from benchmark.report.html import html_text
from benchmark.report.plots import plots_of
from benchmark.report.png import png
from benchmark.report.shown import shown

PAGE: Final = "report.html"


def write_report(judged: Judged, out: Path, *, source: Path) -> tuple[Path, ...]:
    """Write report.html and a PNG of every plot into `out`; returns what was written, the page first.

    `source` is the measurement's folder as the page is to name it. Raises BenchmarkError where the folder cannot be made
    or written to.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(out, error) from None
    found = shown(judged.measurement)
    plots = plots_of(found, article.published(judged.measurement.asked))
    entry, words = ledger_entry.entry(found, source)
    below = caption(judged)
    content = {
        PAGE: html_text(judged, plots, source=source, entry=entry, ledger_in_words=words).encode("utf-8", "replace")
    }
    content |= {f"{plot.id}.png": png(drawing(plot, "wide"), below) for plot in plots}
    try:
        return tuple(_write(out / name, data) for name, data in content.items())
    except OSError as error:
        raise _unwritable(out, error) from None


def _unwritable(out: Path, error: OSError) -> BenchmarkError:
    return BenchmarkError(f"{out}: {error.strerror or error}; give --out a folder that this user may write to")


def _write(path: Path, data: bytes) -> Path:
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    beside = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        beside.chmod(0o666 & ~_umask())
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    return path


def _umask() -> int:
    """The process's mask, which can only be read by setting it."""
    mask = os.umask(0o022)
    os.umask(mask)
    return mask
