"""The old side of a comparison."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from facts.user_error import UserError

if TYPE_CHECKING:
    from fleet.preview.record.recording import Recording


class BaselineError(UserError):
    """The baseline is not available."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """The old side of a comparison."""

    recording: Recording
    label: str
    """Label of the baseline: `main (1a2b3c4d)`."""
    remarks: tuple[str, ...] = ()
    """Remarks for the reader, as sentences."""
