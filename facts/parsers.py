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


def streams_bunches(name: str, version: str) -> bool | None:
    """Whether that release's parser of tool calls reads several streamed tokens at once, by its source; None for an unknown release."""
    releases = ledger.load("parsers")
    known = registered("tools", version)
    if known is None:
        return None
    same = next(release for release in releases if release.rpartition(".")[0] == version.rpartition(".")[0])
    return name in releases[same].get("bunched", ())


def of_any_release(kind: Kind) -> frozenset[str]:
    """Parsers of all releases."""
    return frozenset(name for release in ledger.load("parsers").values() for name in release[kind])
