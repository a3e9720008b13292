"""A report as one self-contained page for CI artifacts, phones and print, light and dark: its Markdown as HTML."""

from __future__ import annotations

import html
import re
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Final

from markdown_it import MarkdownIt

from fleet.report.as_markdown import markdown_text
from fleet.report.markdown import WHOLE, prose
from fleet.report.outline import Box, Brief, Element, Figure, Outline, Prose, Section

_STYLE: Final = Path(__file__).with_name("page.css")
_ALERT: Final = re.compile(r"<blockquote>\n<p>\[!(\w+)\]\s*")
_SIGNS: Final = {"+": "added", "-": "removed", "!": "changed"}
_PAGE: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title}</title>
<style>
{style}</style>
</head>
<body>
<main class="{tone}">
{body}</main>
</body>
</html>
"""


def html_text(outline: Outline) -> str:
    """The page: without script, image or request. Values are escaped in the Markdown; its only tags are of our own folds."""
    figures: dict[str, Figure] = {}
    drawn = replace(outline, head=_with_places(outline.head, figures), body=_with_places(outline.body, figures))
    body = _parser().render(markdown_text(drawn, limit=WHOLE))
    body = _ALERT.sub(lambda found: f'<blockquote class="{found[1].lower()}">\n<p>', body)
    for place, figure in figures.items():
        body = body.replace(f"<p>{place}</p>", _picture(figure))
    title = html.escape(" · ".join(filter(None, (outline.title, outline.kind))))
    return _PAGE.format(title=title, tone=outline.tone, style=_STYLE.read_text(encoding="utf-8"), body=body)


def _with_places(elements: Iterable[Element], figures: dict[str, Figure]) -> tuple[Element, ...]:
    """The elements with a word in the place of each figure that no value can contain."""
    found: list[Element] = []
    for element in elements:
        if isinstance(element, Section | Box):
            element = replace(element, body=_with_places(element.body, figures))
        elif isinstance(element, Brief):
            element = replace(element, whole=_with_places(element.whole, figures))
        elif isinstance(element, Figure):
            figures[place := secrets.token_hex()] = element
            element = Prose(place)
        found.append(element)
    return tuple(found)


def _picture(figure: Figure) -> str:
    """The drawing in both formats; the style shows the one that fits the screen."""
    drawings = "\n".join(figure.drawn(format_) for format_ in ("wide", "narrow"))
    caption = f"<figcaption>{_parser().renderInline(prose(figure.caption))}</figcaption>\n" if figure.caption else ""
    return f"<figure>\n{drawings}\n{caption}</figure>"


@cache
def _parser() -> MarkdownIt:
    made = MarkdownIt("commonmark", {"html": True}).enable("table")
    made.add_render_rule("fence", _fence)
    return made


def _fence(_: Any, tokens: Sequence[Any], index: int, *__: Any) -> str:
    """A block of code; the lines of a diff have colors."""
    token, is_diff = tokens[index], tokens[index].info == "diff"
    lines = "\n".join(
        f'<span class="{_SIGNS.get(line[:1], "same") if is_diff else "same"}">{html.escape(line)}</span>'
        for line in token.content.splitlines()
    )
    return f"<pre><code>{lines}</code></pre>\n"
