"""Removes secrets from output: known ones, and anything that looks like one."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, Final, TypeVar

from facts.secrets_in_text import SECRET_TEXT, secrets_in, without_secrets

T = TypeVar("T")
_SHORTEST_INSIDE: Final = 4
"""Minimum length of a secret to be searched for inside longer text. Assumed: a shorter one occurs by chance."""


class Redactor:
    """Hides the given plaintexts everywhere (also in base64), and anything with a secret's form."""

    def __init__(self, plaintexts: Iterable[str] = ()) -> None:
        whole = {text for text in plaintexts if text and text != SECRET_TEXT}
        encoded = {
            base64.b64encode(text.encode(errors="surrogatepass")).decode()
            for text in whole
            if len(text) >= _SHORTEST_INSIDE
        }
        self._whole = whole | encoded
        inside = sorted((text for text in self._whole if len(text) >= _SHORTEST_INSIDE), key=len, reverse=True)
        self._inside = re.compile("|".join(map(re.escape, inside))) if inside else None

    def text(self, text: str) -> str:
        """The text without secrets."""
        if text in self._whole:
            return SECRET_TEXT
        return without_secrets(self._inside.sub(SECRET_TEXT, text) if self._inside else text)

    def value(self, value: Any) -> Any:
        """The value without secrets, ready for JSON and YAML."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.text(str(key)): self.value(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.value(item) for item in value]
        if (isinstance(value, (int, float)) and not isinstance(value, bool)) and str(value) in self._whole:
            return SECRET_TEXT
        return value

    def whole(self, value: T) -> T:
        """Plain data of any shape, including dataclasses, without secrets in its texts."""
        cleaned: Any = value
        if isinstance(value, str):
            cleaned = self.text(value)
        elif isinstance(value, tuple):
            cleaned = tuple(self.whole(one) for one in value)
        elif isinstance(value, list):
            cleaned = [self.whole(one) for one in value]
        elif isinstance(value, Mapping):
            cleaned = {key: self.whole(one) for key, one in value.items()}
        elif is_dataclass(value) and not isinstance(value, type):
            changes = {field.name: self.whole(getattr(value, field.name)) for field in fields(value)}
            cleaned = replace(value, **changes)
        return cleaned  # type: ignore[no-any-return]  # each branch keeps the type


def plaintexts_in(values: Iterable[Any], *, any_name: bool = False) -> frozenset[str]:
    """Every secret in plain text in the values, for a `Redactor`."""
    return frozenset(text for value in values for found in secrets_in(value, any_name=any_name) for text in found.texts)
