"""A drawing as an SVG file of its own, with the page's style by day: for pages that are no HTML of ours."""

from __future__ import annotations

import re
from functools import cache
from html import escape
from pathlib import Path
from typing import Final

from fleet.report.svg import LINE_PX, Drawing, lines_of

_FONT_FAMILY: Final = "Open Sans"
_MARGIN_PX: Final = 20.0
_STYLE_FILE: Final = Path(__file__).parent / "templates" / "style.css"
_NOT_XML = re.compile("[^\t\n\r\\x20-\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]")
"""Characters that XML 1.0 does not allow, in whatever form; a name or an error text may hold them."""


def svg_document(drawing: Drawing, caption: str) -> str:
    """The drawing with a line below it that says what it is of."""
    caption_lines = lines_of(caption, drawing.width)
    width = drawing.width + 2 * _MARGIN_PX
    height = drawing.height + 2 * _MARGIN_PX + LINE_PX * (len(caption_lines) + 0.5)
    below = _MARGIN_PX + drawing.height + 1.5 * LINE_PX
    lines = "".join(
        f'<text class="tick" x="{_MARGIN_PX:g}" y="{below + number * LINE_PX:g}">{escape(line, quote=False)}</text>'
        for number, line in enumerate(caption_lines)
    )
    inner = drawing.markup().replace("<svg ", f'<svg x="{_MARGIN_PX:g}" y="{_MARGIN_PX:g}" ', 1)
    document = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" viewBox="0 0 {width:g} {height:g}">'
        f"<style>{light_style()}</style>"
        f'<rect class="sheet" width="100%" height="100%"/>{inner}{lines}</svg>'
    )
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", document)


@cache
def light_style() -> str:
    """The page's rules for drawings with every variable replaced by its value in the light theme."""
    variables: dict[str, str] = {}
    rules: list[str] = []
    text = _without_at_rules(re.sub(r"/\*.*?\*/", "", _STYLE_FILE.read_text(encoding="utf-8"), flags=re.DOTALL))
    for selector, body in re.findall(r"([^{}]+)\{([^{}]*)\}", text):
        if selector.strip() == ":root":
            variables |= dict(re.findall(r"(--[\w-]+):\s*([^;]+);", body))
        elif selector.strip().startswith("svg "):
            # The font is one of ours; a shorthand would name the reader's.
            rules.append(f"{selector.strip()} {{ {re.sub(r'font:[^;]*;', '', body).strip()} }}")
    rules.append(
        f'svg text {{ font-family: "{_FONT_FAMILY}", sans-serif; font-size: 12px }} svg .sheet {{ fill: var(--paper) }}'
    )
    style = re.sub(r"var\((--[\w-]+)\)", lambda found: variables[found[1]], "\n".join(rules))
    # The weights that a font family has are the hundreds.
    return style.replace("currentColor", variables["--ink"]).replace("font-weight: 650", "font-weight: 600")


def _without_at_rules(text: str) -> str:
    """The rules that hold without a condition: by day, on a wide screen."""
    kept: list[str] = []
    depth, conditional = 0, False
    for piece in re.split(r"(@[^{;]*\{|[{}])", text):
        if piece.startswith("@") and piece.endswith("{") and not depth:
            conditional, depth = True, 1
        elif conditional:
            depth += piece.endswith("{") - (piece == "}")
            conditional = depth > 0
        else:
            kept.append(piece)
    return "".join(kept)
