"""A simulated Google Cloud that refuses what a test names, and changes behind Pulumi's back. For tests only."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fleet.preview.record.synthesis import Cloud
from lab.providers.google.cloud import SimulatedCloud


class RefusingCloud(SimulatedCloud):
    """Thread-safe, as its base."""

    def __init__(self) -> None:
        super().__init__()
        self.refused: dict[str, str] = {}
        """Google's words by Pulumi type, for as long as they are here."""

    def change(self, type_: str, id_: str, **inputs: Any) -> None:
        """Change a resource behind Pulumi's back. Raises KeyError."""
        with self._lock:
            made = self._made[type_, id_]
            self._made[type_, id_] = replace(made, inputs={**made.inputs, **inputs}, outputs={**made.outputs, **inputs})

    def _refused(self, type_: str, cloud: Cloud) -> str | None:
        return self.refused.get(type_) or super()._refused(type_, cloud)
