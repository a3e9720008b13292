"""A preview in every format there is."""

from __future__ import annotations

from io import StringIO

from fleet.preview.report.comment import markdown_text
from fleet.preview.report.html_page import html_text
from fleet.preview.report.json_document import json_text
from fleet.preview.report.several_stacks import Outcome
from fleet.preview.report.text import print_text
from fleet.report.terminal import Paper


def text_of(*outcomes: Outcome, width: int = 100, styled: bool = False) -> str:
    out = StringIO()
    print_text(Paper(stream=out, width=width, styled=styled), *outcomes)
    return out.getvalue()


def in_every_format(*outcomes: Outcome) -> dict[str, str]:
    return {
        "text": text_of(*outcomes),
        # Twenty at a time: a comment has a limit.
        "markdown": "".join(markdown_text(*outcomes[n : n + 20]) for n in range(0, len(outcomes), 20)),
        "json": json_text(*outcomes),
        "html": html_text(*outcomes),
    }
