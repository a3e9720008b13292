"""Who must review a change of what judges changes, by the project's CODEOWNERS file.

Whether an owner exists, only GitHub knows: it ignores those that it does not know.
Source: GitHub docs, "About code owners".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PLACES: Final = (".github/CODEOWNERS", "CODEOWNERS", "docs/CODEOWNERS")
"""In the order in which GitHub looks; it reads the first."""
PLACEHOLDER: Final = "@your-org/"
_OWNER: Final = re.compile(r"@[A-Za-z0-9][A-Za-z0-9-]*(/[A-Za-z0-9_.-]+)?|[^@\s]+@[^@\s]+\.[^@\s]+")
_REFUSED: Final = ("!", "\\", "[", "]")
"""In patterns of gitignore, and in none of CODEOWNERS: GitHub drops the line."""
_TOKENS: Final = re.compile(r"\*\*/|\*\*|\*|\?|[^*?]+")
_MEANING: Final = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line that assigns owners, or none."""

    number: int
    pattern: str
    owners: tuple[str, ...]

    @property
    def wrong(self) -> str:
        """Why GitHub would not follow it; empty if nothing here says so."""
        if any(one in self.pattern for one in _REFUSED):
            return f"line {self.number}: GitHub has no pattern {self.pattern}"
        for owner in self.owners:
            if owner.lower().startswith(PLACEHOLDER):
                return f"line {self.number}: {owner} is a placeholder"
            if not _OWNER.fullmatch(owner):
                return f"line {self.number}: {owner} is neither @user, @org/team nor an email address"
        return ""

    def matches(self, path: str) -> bool:
        """Whether the line is about this file."""
        anchored = "/" in self.pattern.rstrip("/")
        body = "".join(_MEANING.get(token) or re.escape(token) for token in _TOKENS.findall(self.pattern.strip("/")))
        below = "/.*" if self.pattern.endswith("/") else "" if self.pattern.endswith("/*") else "(?:/.*)?"
        return re.fullmatch(f"{'' if anchored else '(?:.*/)?'}{body}{below}", path) is not None


def find(root: Path) -> str:
    """Path of the file that GitHub reads; empty without one."""
    return next((place for place in PLACES if (root / place).is_file()), "")


def read(text: str) -> tuple[Line, ...]:
    """Every line that is not a comment."""
    return tuple(_lines(text))


def _lines(text: str) -> Iterator[Line]:
    for number, line in enumerate(text.splitlines(), start=1):
        pattern, *owners = line.partition("#")[0].split() or [""]
        if pattern:
            yield Line(number=number, pattern=pattern, owners=tuple(owners))


def faults(lines: Iterable[Line], paths: Iterable[str]) -> Iterator[str]:
    """Lines that GitHub does not follow, and the first of these paths without an owner."""
    valid = []
    for line in lines:
        if wrong := line.wrong:
            yield wrong
        else:
            valid.append(line)
    for path in paths:
        last = next((line for line in reversed(valid) if line.matches(path)), None)
        if last is None or not last.owners:
            yield f"{path} has no owner" if last is None else f"line {last.number} takes the owner from {path}"
            return
