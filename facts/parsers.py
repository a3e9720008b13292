"""Parsers of tool calls and of reasoning, as each release of vLLM registers them."""

from __future__ import annotations

from typing import Literal

from facts import ledger

Kind = Literal["tools", "reasoning"]


def registered(kind: Kind, version: str) -> frozenset[str] | None:
    """The parsers of that release, None where its list was not read. Patches of a release register the same."""
    releases = ledger.load("parsers")
    same = next((one for one in releases if one.rpartition(".")[0] == version.rpartition(".")[0]), None)
    return None if same is None else frozenset(releases[same][kind])


def of_any_release(kind: Kind) -> frozenset[str]:
    """Every parser that one of the releases has."""
    return frozenset(name for release in ledger.load("parsers").values() for name in release[kind])
