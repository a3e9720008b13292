"""Typed access to other programs' JSON; an unexpected structure raises NoAnswerError."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

from fleet.doctor.gcloud import NoAnswerError


def mapping(value: Any) -> Mapping[str, Any]:
    """The value, an object. Raises NoAnswerError."""
    if not isinstance(value, dict):
        raise unreadable()
    return value


def objects(value: Any) -> Sequence[Mapping[str, Any]]:
    """The value, a list of objects. Raises NoAnswerError."""
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise unreadable()
    return value


def texts(value: Any) -> Sequence[str]:
    """The value, a list of texts. Raises NoAnswerError."""
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise unreadable()
    return value


def word(value: Any) -> str:
    """The value, a text; for a URL its last part: `.../zones/europe-west4-b`. Raises NoAnswerError."""
    if not isinstance(value, str) or not value:
        raise unreadable()
    return value.rpartition("/")[2]


def whole(value: Any) -> int:
    """The value, a number or numeric text: Google encodes 64-bit numbers as text. Raises NoAnswerError."""
    if isinstance(value, bool):
        raise unreadable()
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        raise unreadable() from None


def real(value: Any) -> float:
    """The value, a number or numeric text, finite. Raises NoAnswerError."""
    try:
        if not isinstance(value, bool) and isfinite(found := float(value)):
            return found
    except (TypeError, ValueError, OverflowError):
        pass
    raise unreadable()


def unreadable() -> NoAnswerError:
    """The error for an unexpected structure."""
    return NoAnswerError("unexpected response format", "unreadable")
