"""What an expression of PromQL names, as far as the catalogue's own expressions go: every selector of theirs has braces."""

from __future__ import annotations

import re

_SELECTOR = re.compile(r"([A-Za-z_:][\w:]*)\{([^}]*)\}")
_LABEL = re.compile(r'(\w+)(?:=~|!~|!=|=)"')
_GROUPING = re.compile(r"\b(?:by|on|without|ignoring) \(([^)]*)\)")
_TEXT = re.compile(r'"[^"]*"')
_NUMBER = re.compile(r"\b[0-9.]+(e[0-9]+|[smhd])?\b")
_WORD = re.compile(r"[A-Za-z_:][\w:]*")
WORDS = frozenset(
    {
        *("absent", "sum", "max", "avg", "count", "rate", "increase", "histogram_quantile", "label_replace", "vector"),
        *(f"{one}_over_time" for one in ("max", "min", "last", "avg")),
        *("changes", "clamp_min", "bool", "by", "on", "and", "or", "unless", "offset"),
    }
)
"""Functions and operators of the catalogue's expressions: all of Prometheus 2.44."""


def matchers(expr: str) -> list[tuple[str, set[str]]]:
    """Each series with the names of the labels it is chosen by."""
    return [(name, set(_LABEL.findall(inner))) for name, inner in _SELECTOR.findall(expr)]


def metrics(expr: str) -> set[str]:
    """Names of the series."""
    return {name for name, _ in _SELECTOR.findall(expr)}


def grouped(expr: str) -> set[str]:
    """Labels that results are grouped or matched by."""
    return {label.strip() for inner in _GROUPING.findall(expr) for label in inner.split(",") if label.strip()}


def other_words(expr: str) -> set[str]:
    """Every word that is neither a series, a label nor a duration in brackets."""
    bare = _GROUPING.sub(" by ", _SELECTOR.sub("", _TEXT.sub('""', expr)))
    return set(_WORD.findall(_NUMBER.sub("", bare)))
