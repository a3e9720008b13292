"""An outline as one self-contained HTML page for CI artifacts, phones and print, light and dark."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import jinja2
from markupsafe import Markup

from facts.finding import said_of
from facts.texts import plural
from fleet.report.outline import Section, grouped, shown_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from fleet.report.outline import Element, Outline
    from fleet.report.svg import Drawing, Format

TEMPLATES: Final = Path(__file__).parent / "templates"
_UNIT: Final = re.compile(r"(?<=\d) (?=(?:%|ms|s|min|h|days|W|kW|kJ|GiB|MiB)(?![\w/]))")
"""The blank between a number and its unit."""
_FLAG: Final = re.compile(r"(?<![\w-])(--[a-z][a-z0-9-]{0,38})(?![\w-])")
LONGEST_WHOLE: Final = 40
"""Characters of code that always fit on one line, a phone's included."""

_CLASSES: Final = {"+": "create", "~": "update", "-": "delete", "+-": "replace", "?": "update", "": "same"}
"""Of a branch, by what happens to it."""
_TONES: Final = {"plain": "", "strong": "strong", "good": "good", "warn": "warn", "bad": "bad", "soft": "soft small"}
_MOST_OPEN: Final = 20
"""Edits up to which a resource starts unfolded."""
_NOT_OF_AN_ID: Final = re.compile(r"[^a-z0-9]+")


def html_text(outline: Outline) -> str:
    """The page: escaped, without script, image or request. `style.css` is the one stylesheet."""
    return _template().render(
        title=" ".join(filter(None, (outline.title, outline.kind and f"· {outline.kind}"))),
        outline=outline,
        sections=[one for one in _shown((*outline.head, *outline.body)) if isinstance(one, Section)],
    )


@cache
def _template() -> jinja2.Template:
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_keep_units,
    )
    made.filters |= {"with_code": with_code, "code": code}
    made.globals |= {
        "classes": _CLASSES,
        "grouped": grouped,
        "id_of": section_id,
        "is_open": lambda branch: (
            not branch.is_folded and (branch.mark in ("-", "+-") or len(branch.edits) <= _MOST_OPEN)
        ),
        "kind_of": lambda element: type(element).__name__.lower(),
        "picture": picture,
        "plural": plural,
        "said_of": said_of,
        "shown_in_page": _shown,
        "tones": _TONES,
    }
    return made.get_template("outline.html.jinja")


def section_id(section: Section) -> str:
    """Target of links to the section."""
    return section.id or _NOT_OF_AN_ID.sub("-", section.title.lower()).strip("-")


def _shown(elements: Iterable[Element]) -> list[Any]:
    return list(shown_in("html", elements))


def picture(drawn: Callable[[Format], Drawing]) -> Markup:
    """A drawing in both formats; the style shows the one that fits the screen."""
    return Markup("\n".join(drawn(format_).markup() for format_ in ("wide", "narrow")))  # noqa: S704 - our own, escaped


def _keep_units(value: Any) -> Any:
    """A number and its unit stay on one line. Markup, such as a drawing, is left as it is."""
    return _UNIT.sub("\N{NO-BREAK SPACE}", value) if type(value) is str else value


def with_code(text: str) -> Markup:
    """Escaped text in which what stands between backticks is code."""
    text = _keep_units(text)
    pieces = text.split("`")
    if len(pieces) % 2 == 0:
        return _whole_flags(text)
    return Markup("").join(code(piece) if index % 2 else _whole_flags(piece) for index, piece in enumerate(pieces))


def _whole_flags(text: str) -> Markup:
    """Escaped text in which command-line flags never break at a hyphen."""
    return Markup("").join(
        Markup('<span class="whole">{}</span>').format(piece) if index % 2 else Markup("{}").format(piece)
        for index, piece in enumerate(_FLAG.split(text))
    )


def code(text: str) -> Markup:
    """Code that never breaks at a hyphen; only what is too long for a line may break."""
    whole = Markup(' class="whole"') if len(text) <= LONGEST_WHOLE else ""
    return Markup("<code{}>{}</code>").format(whole, text)
