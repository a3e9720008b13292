"""An outline in the format that a command was asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fleet.report.outline import Outline
    from fleet.report.terminal import Paper


def rendered(outline: Outline, format_: str) -> str | Callable[[Paper], None]:
    """The document; text is printed on a terminal's paper. Each renderer is imported when it is used."""
    match format_:
        case "json":
            from fleet.report.as_json import json_text

            return json_text(outline)
        case "markdown":
            from fleet.report.as_markdown import markdown_text

            return markdown_text(outline)
        case "html":
            from fleet.report.as_html import html_text

            return html_text(outline)
        case _:
            from fleet.report.as_text import print_text

            return lambda paper: print_text(paper, outline)
