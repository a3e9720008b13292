"""The figures that rules quote, read from figures.yaml: the pack carries its own copy and needs nothing beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import yaml

_FILE: Final = Path(__file__).with_name("figures.yaml")
_ALL: Final[dict[str, dict[str, Any]]] = yaml.load(
    _FILE.read_text(encoding="utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)
)


def ledger(key: str) -> Any:
    """A published or measured figure by its place in the ledger: file, then keys. Raises KeyError."""
    return _ALL["ledger"][key]


def constant(key: str) -> Any:
    """A constant that the fleet program uses too, by module and name. Raises KeyError."""
    return _ALL["constants"][key]
