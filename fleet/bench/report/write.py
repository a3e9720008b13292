"""The page as a file."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from facts.files import write_whole
from fleet.bench.errors import BenchmarkError
from fleet.report.as_html import html_text
from fleet.report.outline import Outline

PAGE: Final = "report.html"


def write_page(report: Outline, file: Path) -> None:
    """Write the page. Raises BenchmarkError where the file cannot be written."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, html_text(report).encode("utf-8", "replace"))
    except OSError as error:
        raise BenchmarkError(f"{file}: {error.strerror or error}; pass --out with a writable file") from None
