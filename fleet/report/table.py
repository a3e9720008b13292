"""A table as data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column."""

    title: str
    is_number: bool = False


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell."""

    text: str
    note: str = ""
    """A second, softer line: where the number comes from, what it leaves out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One table."""

    id: str
    caption: str
    """What it holds, for readers who do not see it."""
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    chosen: int | None = None
    """Row that stands out."""
    foot: tuple[Cell, ...] = ()


def texts(*titles: str) -> tuple[Column, ...]:
    """Columns of words."""
    return tuple(Column(title=title) for title in titles)


def numbers(*titles: str) -> tuple[Column, ...]:
    """Columns of numbers."""
    return tuple(Column(title=title, is_number=True) for title in titles)
