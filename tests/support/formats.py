"""A preview in every format there is."""

from __future__ import annotations

from io import StringIO

from fleet.preview.report.outline import preview_outline
from fleet.preview.report.several_stacks import Outcome
from fleet.report import as_html, as_json, as_markdown, as_text
from fleet.report.terminal import Paper


def text_of(*outcomes: Outcome, width: int = 100, details: bool = False) -> str:
    out = StringIO()
    as_text.print_text(Paper(stream=out, width=width, styled=False), preview_outline(*outcomes), details=details)
    return out.getvalue()


def markdown_of(*outcomes: Outcome) -> str:
    return as_markdown.markdown_text(preview_outline(*outcomes))


def json_of(*outcomes: Outcome) -> str:
    return as_json.json_text(preview_outline(*outcomes, with_data=True))


def html_of(*outcomes: Outcome) -> str:
    return as_html.html_text(preview_outline(*outcomes))


def in_every_format(*outcomes: Outcome) -> dict[str, str]:
    return {
        "text": text_of(*outcomes),
        # Twenty at a time: a comment has a limit.
        "markdown": "".join(markdown_of(*outcomes[n : n + 20]) for n in range(0, len(outcomes), 20)),
        "json": json_of(*outcomes),
        "html": html_of(*outcomes),
    }
