"""Parsers of tool calls and reasoning in each vLLM release."""

from __future__ import annotations

from typing import Literal

from facts import ledger

Kind = Literal["tools", "reasoning"]


def registered(kind: Kind, version: str) -> frozenset[str] | None:
    """Parsers of that release; None if unknown. Patch releases have the same."""
    releases = ledger.load("parsers")
    same = next((release for release in releases if release.rpartition(".")[0] == version.rpartition(".")[0]), None)
    return None if same is None else frozenset(releases[same][kind])


def of_any_release(kind: Kind) -> frozenset[str]:
    """Parsers of all releases."""
    return frozenset(name for release in ledger.load("parsers").values() for name in release[kind])
