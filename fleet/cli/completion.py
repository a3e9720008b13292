"""Names for shell completion, read from the files that define them: importing those modules would take half a second."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

_ROOT = Path(__file__).parents[2]


def choices(names: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """Completion from names that are read only when the shell asks."""

    def complete(incomplete: str) -> list[str]:
        return [name for name in names() if name.startswith(incomplete)]

    return complete


def profiles() -> list[str]:
    """Names of settings/profiles.yaml."""
    text = (_ROOT / "settings" / "profiles.yaml").read_text(encoding="utf-8")
    return re.findall(r"^  ([\w-]+):$", text.partition("\nprofiles:\n")[2], re.MULTILINE)


def models() -> list[str]:
    """Ids of facts/data/models.yaml."""
    text = (_ROOT / "facts" / "data" / "models.yaml").read_text(encoding="utf-8")
    return re.findall(r'^  "?([\w.-]+/[\w.-]+)"?:$', text, re.MULTILINE)


def machines() -> Iterable[str]:
    """Machine types."""
    from facts.machines import MACHINES

    return MACHINES


def drills() -> Iterator[str]:
    """Names of the drills."""
    for file in sorted((_ROOT / "lab" / "drills").glob("*.py")):
        yield from re.findall(r'\bDrill\(\s*name="([\w-]+)"', file.read_text(encoding="utf-8"))
