"""The figures that rules quote, read from figures.yaml: the pack carries its own copy and needs nothing beside it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

# In C where there is one: the pack's start is part of every preview.
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_ALL: Final[Mapping[str, Mapping[str, Any]]] = yaml.load(
    Path(__file__).with_name("figures.yaml").read_text(encoding="utf-8"),
    Loader=_LOADER,  # noqa: S506 - both are the safe one
)


def ledger(key: str) -> Any:
    """A published or measured figure by its place in the ledger: file, then keys. Raises KeyError."""
    return _ALL["ledger"][key]


def constant(key: str) -> Any:
    """A constant that the fleet program uses too, by module and name. Raises KeyError."""
    return _ALL["constants"][key]


def architectures() -> Mapping[str, Mapping[str, int]]:
    """The models whose architecture is known, by a part of their name."""
    return _ALL["architectures"]
