"""Weakenings of one resource by the rule that must find them, and sound neighbours of each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple


class Row(NamedTuple):
    """One resource, as a change could add it, or several that belong together."""

    rule: str
    what: str
    resources: tuple[tuple[str, dict[str, Any]], ...]
    """Type and inputs."""


def rows(rule: str, kind: str, *whats: tuple[str, dict[str, Any]]) -> Iterator[Row]:
    """Resources of one kind, each under the words that tell it apart."""
    yield from (Row(rule, what, ((kind, props),)) for what, props in whats)
