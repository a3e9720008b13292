"""Conditions of grants: whether they hold for an object of a bucket."""

from __future__ import annotations

import re
from typing import Final

_CALL: Final = re.compile(r"""resource\.name\.(startsWith|endsWith|extract)\(\s*(?:'([^']*)'|"([^"]*)")\s*\)""")
_TEXT: Final = re.compile(r"""'([^']*)'|"([^"]*)\"""")
_WORD: Final = re.compile(r"resource\.(?:name|type|service)|&&|\|\||[=!]=|[!()]")
_RESOURCE: Final = {
    "resource.type": "storage.googleapis.com/Object",
    "resource.service": "storage.googleapis.com",
}
"""Source: IAM documentation, attribute reference for IAM Conditions."""


def covers(condition: str, bucket: str, name: str) -> bool:
    """Whether a condition holds for an object. Raises ValueError for an expression that it does not know."""
    reader = _Reader(condition, f"projects/_/buckets/{bucket}/objects/{name}")
    holds = reader.either()
    if reader.rest:
        raise ValueError(reader.rest)
    return holds


class _Reader:
    """Evaluates the part of the Common Expression Language that compares a name."""

    def __init__(self, text: str, name: str) -> None:
        self.rest, self._name = text.strip(), name

    def either(self) -> bool:
        holds = self._both()
        while self._take("||"):
            holds = self._both() or holds
        return holds

    def _both(self) -> bool:
        holds = self._one()
        while self._take("&&"):
            holds = self._one() and holds
        return holds

    def _one(self) -> bool:
        if self._take("!"):
            return not self._one()
        if self._take("("):
            holds = self.either()
            if not self._take(")"):
                raise ValueError(self.rest)
            return holds
        left = self._value()
        if isinstance(left, bool):
            return left
        is_equal = self._take("==")
        if not is_equal and not self._take("!="):
            raise ValueError(self.rest)
        return (left == self._value()) is is_equal

    def _value(self) -> str | bool:
        if call := self._match(_CALL):
            kind, given = call[1], call[2] if call[2] is not None else call[3]
            if kind == "extract":
                return _extract(given, self._name)
            return self._name.startswith(given) if kind == "startsWith" else self._name.endswith(given)
        if text := self._match(_TEXT):
            return text[1] if text[1] is not None else text[2]
        word = self._match(_WORD)
        if word is None or not word[0].startswith("resource."):
            raise ValueError(self.rest)
        return _RESOURCE.get(word[0], self._name)

    def _take(self, word: str) -> bool:
        found = _WORD.match(self.rest)
        if found is None or found[0] != word:
            return False
        self.rest = self.rest[found.end() :].lstrip()
        return True

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = pattern.match(self.rest)
        if found is not None:
            self.rest = self.rest[found.end() :].lstrip()
        return found


def _extract(template: str, name: str) -> str:
    """Text between what is before and after the braces, empty where one of them is missing. Source: likewise, extract()."""
    before, _, rest = template.partition("{")
    _, closed, after = rest.partition("}")
    if not closed:
        raise ValueError(template)
    _, found, left = name.partition(before) if before else ("", "x", name)
    if not found:
        return ""
    text, ends, _ = left.partition(after) if after else (left, "x", "")
    return text if ends else ""
