"""Numbers with their nouns."""

from __future__ import annotations


def count(number: int, noun: str) -> str:
    """`1 volume`, `2 volumes`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
