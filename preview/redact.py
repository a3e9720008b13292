"""Makes recorded values fit to print: no secret leaves the process, and what is unknown says so."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from preview.values import UNKNOWN, Secret, Value

SECRET_TEXT: Final = "[secret]"  # noqa: S105 - what is shown instead of one
UNKNOWN_TEXT: Final = "[unknown]"
KUBERNETES_SECRET: Final = "kubernetes:core/v1:Secret"  # noqa: S105 - a type
_SHORTEST_INSIDE: Final = 4
"""Characters from which on a secret is also looked for inside longer text. Assumed: a shorter one occurs by chance."""


class Redactor:
    """Hides marked secrets, and the given plaintexts wherever they turn up (also in base64).

    The plaintexts are a second net: a program that reads a secret setting as plain text loses the mark on it.
    """

    def __init__(self, plaintexts: Iterable[str] = ()) -> None:
        whole = {text for text in plaintexts if text and text != SECRET_TEXT}
        encoded = {base64.b64encode(text.encode()).decode() for text in whole if len(text) >= _SHORTEST_INSIDE}
        self._whole = whole | encoded
        inside = sorted((text for text in self._whole if len(text) >= _SHORTEST_INSIDE), key=len, reverse=True)
        self._inside = re.compile("|".join(map(re.escape, inside))) if inside else None

    def text(self, text: str) -> str:
        """The text without any of the plaintexts."""
        if text in self._whole:
            return SECRET_TEXT
        return self._inside.sub(SECRET_TEXT, text) if self._inside else text

    def value(self, value: Value) -> Value:
        """The value with text in place of secrets and unknowns; ready for JSON and YAML."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Secret):
            return SECRET_TEXT
        if value is UNKNOWN:
            return UNKNOWN_TEXT
        if isinstance(value, Mapping):
            return {self.text(str(key)): self.value(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.value(item) for item in value]
        if (isinstance(value, (int, float)) and not isinstance(value, bool)) and str(value) in self._whole:
            return SECRET_TEXT
        return value

    def manifest(self, type_: str, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """A resource's inputs; of a Kubernetes Secret the keys stay and every value becomes a placeholder.

        Pods refer to the keys, so a manifest without them could not be rehearsed.
        """
        if type_ != KUBERNETES_SECRET:
            return dict(self.value(inputs))
        encoded = base64.b64encode(SECRET_TEXT.encode()).decode()
        placeholders = {"stringData": SECRET_TEXT, "data": encoded}
        return {
            key: self._placeholders(value, placeholders[key]) if key in placeholders else self.value(value)
            for key, value in inputs.items()
        }

    def _placeholders(self, value: Value, placeholder: str) -> Value:
        opened = value.value if isinstance(value, Secret) else value
        return {self.text(str(key)): placeholder for key in opened} if isinstance(opened, Mapping) else {}
