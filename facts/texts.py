"""Texts of others in messages."""

from __future__ import annotations

from typing import Final

MOST_CHARACTERS: Final = 200
"""Longest quote. Assumed: two lines of a terminal, and more than a digest, a self link or a flag of a profile has."""


def shortened(text: str, most: int = MOST_CHARACTERS) -> str:
    """The text, or its beginning and its length."""
    return text if len(text) <= most else f"{text[:most]}... ({len(text):,} characters)"
