"""An outline as one self-contained HTML page for CI artifacts, phones and print, light and dark."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from facts.finding import MARKS, shown
from fleet.report.outline import grouped, shown_in
from fleet.report.page import TEMPLATES, render
from fleet.report.words import plural

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fleet.report.outline import Element, Outline, Section

_CLASSES: Final = {"+": "create", "~": "update", "-": "delete", "+-": "replace", "?": "update", "": "same"}
"""Of a branch, by what happens to it."""
_TONES: Final = {"plain": "", "strong": "strong", "good": "good", "warn": "warn", "bad": "bad", "soft": "soft small"}
_MOST_OPEN: Final = 20
"""Edits up to which a resource starts unfolded."""
_NOT_OF_AN_ID: Final = re.compile(r"[^a-z0-9]+")


def html_text(outline: Outline) -> str:
    """The page."""
    return render(
        TEMPLATES,
        {
            "classes": _CLASSES,
            "grouped": grouped,
            "id_of": section_id,
            "is_open": lambda branch: (
                not branch.is_folded and (branch.mark in ("-", "+-") or len(branch.edits) <= _MOST_OPEN)
            ),
            "kind_of": lambda element: type(element).__name__.lower(),
            "marks": MARKS,
            "plural": plural,
            "shown": shown,
            "shown_in_page": _shown,
            "tones": _TONES,
        },
        template="outline.html.jinja",
        title=" ".join(filter(None, (outline.title, outline.kind and f"· {outline.kind}"))),
        outline=outline,
    )


def section_id(section: Section) -> str:
    """Target of links to the section."""
    return section.id or _NOT_OF_AN_ID.sub("-", section.title.lower()).strip("-")


def _shown(elements: Iterable[Element]) -> list[Any]:
    return list(shown_in("html", elements))
