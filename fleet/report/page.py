"""HTML pages: self-contained, escaped, without script, image or request.

Every page extends `templates/base.html.jinja`; `outline.html.jinja` draws an outline, `table.html.jinja` tables and tiles.
`style.css` is the one stylesheet.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from markupsafe import Markup

from fleet.report.outline import Number as Number
from fleet.report.svg import Drawing, Format

TEMPLATES: Final = Path(__file__).parent / "templates"
_UNIT = re.compile(r"(?<=\d) (?=(?:%|ms|s|min|h|days|W|kW|kJ|GiB|MiB)(?![\w/]))")
"""The blank between a number and its unit."""
_FLAG = re.compile(r"(?<![\w-])(--[a-z][a-z0-9-]{0,38})(?![\w-])")
_SECTION = re.compile(
    r'<(h2|details) id="([^"]+)"( class="changed")?[^>]*>(?:<summary>)?(.*?)</(?:h2|summary)>', re.DOTALL
)
_REMARK = re.compile(r'<span class="(?:level|soft small)">')
"""Beside a heading; not in the list of contents."""
LONGEST_WHOLE = 40
"""Characters of code that always fit on one line, a phone's included."""


def render(folder: Path, names: Mapping[str, Any], /, *, template: str = "page.html.jinja", **context: Any) -> str:
    """The page that a template of that folder describes, from `names` and `context`. A missing name is an error."""
    import jinja2

    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader((folder, TEMPLATES)),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_keep_units,
    )
    made.filters["with_code"] = with_code
    made.filters["code"] = code
    made.globals["contents"] = contents
    made.globals["picture"] = picture
    made.globals |= names
    return made.get_template(template).render(**context)


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """An entry of the contents list."""

    id: str
    title: str
    folded: bool
    changed: bool


def contents(body: str) -> tuple[Section, ...]:
    """The sections of a page: its second-level headings and folded parts that have an id."""
    return tuple(
        Section(
            id=id_,
            title=" ".join(Markup(_REMARK.split(inner)[0]).striptags().split()),  # noqa: S704 - only stripped
            folded=tag == "details",
            changed=bool(mark),
        )
        for tag, id_, mark, inner in _SECTION.findall(body)
    )


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
