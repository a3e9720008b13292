"""Sentences with code in them, for every page that this project writes."""

from __future__ import annotations

from markupsafe import Markup


def with_code(text: str) -> Markup:
    """Escaped text, in which what stands between backticks is code, as this project's own sentences have it."""
    pieces = text.split("`")
    if len(pieces) % 2 == 0:
        return Markup("{}").format(text)
    return Markup("").join(
        Markup("<code>{}</code>").format(piece) if index % 2 else piece for index, piece in enumerate(pieces)
    )
