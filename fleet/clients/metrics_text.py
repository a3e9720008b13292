"""Parser for the Prometheus text format, version 0.0.4. Standard library only.

Source: Prometheus docs, "Exposition formats", text-based format: `name{label="value",...} value [milliseconds]`, label values
with the escapes backslash-backslash, backslash-quote and backslash-n, values as Go's ParseFloat takes them, `# TYPE` and
`# HELP` comments. A histogram is one series per bucket, plus `_sum` and `_count`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


class MetricsTextError(ValueError):
    """Invalid format; the message names the line."""


@dataclass(frozen=True, slots=True)
class Series:
    """One line: a metric with labels and value."""

    name: str
    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True, slots=True)
class MetricsText:
    """One scrape."""

    series: tuple[Series, ...]
    """In the order of the text."""
    types: Mapping[str, str]
    """`counter`, `gauge`, `histogram`, `summary` or `untyped`, by the name in the `# TYPE` line."""

    def of(self, name: str, **labels: str) -> tuple[Series, ...]:
        """All series of this name with at least these labels."""
        return tuple(
            one
            for one in self.series
            if one.name == name and all(one.labels.get(key) == value for key, value in labels.items())
        )

    def total(self, name: str, **labels: str) -> float | None:
        """Sum of these series' values; None without series."""
        found = self.of(name, **labels)
        return sum(one.value for one in found) if found else None

    def by(self, label: str, name: str, **labels: str) -> dict[str, float]:
        """Sums of these series by the value of one label; empty text for a series without it."""
        sums: dict[str, float] = {}
        for one in self.of(name, **labels):
            key = one.labels.get(label, "")
            sums[key] = sums.get(key, 0.0) + one.value
        return sums


_NAME: Final = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL: Final = re.compile(r'\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*', re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED: Final = {"n": "\n", "\\": "\\", '"': '"'}
_NUMBER: Final = re.compile(r"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|inf(?:inity)?|nan)", re.IGNORECASE)
_TIMESTAMP: Final = re.compile(r"[+-]?\d+")


def parse(text: str) -> MetricsText:
    """All series of a scrape. Raises MetricsTextError for the first invalid line."""
    series: list[Series] = []
    types: dict[str, str] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        stripped = line.strip()
        if not stripped:
            continue
        if stripped.startswith("#"):
            words = stripped.split(None, 3)
            if len(words) == 4 and words[:2] == ["#", "TYPE"]:
                types[words[2]] = words[3].strip()
            continue
        series.append(_series(stripped, number))
    return MetricsText(tuple(series), types)


def _series(line: str, number: int) -> Series:
    name = _NAME.match(line)
    if name is None:
        raise _wrong(number, line, "it does not start with a metric name")
    at = name.end()
    labels: dict[str, str] = {}
    while at < len(line) and line[at] in " \t":
        at += 1
    if at < len(line) and line[at] == "{":
        at, labels = _read_labels(line, at + 1, number)
    words = line[at:].split()
    if not words or len(words) > 2:
        raise _wrong(number, line, "expected a value and an optional timestamp after name and labels")
    if not _NUMBER.fullmatch(words[0]):
        raise _wrong(number, line, f"{words[0][:40]!r} is not a number")
    if len(words) == 2 and not _TIMESTAMP.fullmatch(words[1]):
        raise _wrong(number, line, f"{words[1][:40]!r} is not a timestamp in milliseconds")
    return Series(name[0], labels, float(words[0]))


def _read_labels(line: str, at: int, number: int) -> tuple[int, dict[str, str]]:
    """Position after the closing brace, and the labels."""
    labels: dict[str, str] = {}
    while True:
        while at < len(line) and line[at] in " \t":
            at += 1
        if at < len(line) and line[at] == "}":
            return at + 1, labels
        found = _LABEL.match(line, at)
        if found is None:
            raise _wrong(number, line, 'expected labels as name="value", separated by commas, ending with }')
        if found[1] in labels:
            raise _wrong(number, line, f"duplicate label {found[1]}")
        labels[found[1]] = _ESCAPE.sub(lambda escape: _ESCAPED.get(escape[1], escape[0]), found[2])
        at = found.end()
        if at < len(line) and line[at] == ",":
            at += 1
        elif at >= len(line) or line[at] != "}":
            raise _wrong(number, line, "missing comma or } after a label")


def _wrong(number: int, line: str, why: str) -> MetricsTextError:
    return MetricsTextError(f"line {number} is not in the Prometheus text format: {why}: {line[:120]}")
