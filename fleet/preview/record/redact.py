"""Makes recorded values fit to print: no secret leaves the process, and what is unknown says so."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, Final

from facts.redact import Redactor as PlainRedactor
from facts.secrets_in_text import SECRET_TEXT
from fleet.preview.record.values import UNKNOWN, Secret, Value

UNKNOWN_TEXT: Final = "[unknown]"
KUBERNETES_SECRET: Final = "kubernetes:core/v1:Secret"  # noqa: S105 - a type


class Redactor(PlainRedactor):
    """Hides marked secrets, too.

    The plaintexts are a second net: a program that reads a secret setting as plain text loses the mark on it.
    """

    def value(self, value: Value) -> Value:
        """The value with text in place of secrets and unknowns; ready for JSON and YAML."""
        if isinstance(value, Secret):
            return SECRET_TEXT
        return UNKNOWN_TEXT if value is UNKNOWN else super().value(value)

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
