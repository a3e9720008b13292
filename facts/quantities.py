"""Kubernetes' quantities.

Source: k8s.io/apimachinery, pkg/api/resource/suffix.go.
"""

from __future__ import annotations

import re
from math import isfinite
from typing import Any, Final

_QUANTITY: Final = re.compile(r"((?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)([numkMGTPE]|[KMGTPE]i)?")
_UNITS: Final = {
    letter: 10.0**power for letter, power in zip("numkMGTPE", (-9, -6, -3, 3, 6, 9, 12, 15, 18), strict=True)
} | {f"{letter}i": 2.0 ** (10 * power) for power, letter in enumerate("KMGTPE", start=1)}


def quantity(value: Any) -> float | None:
    """A Kubernetes quantity ("500m", "64Gi", 8) as a number in its base unit; None if it is not a quantity."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        amount = float(value)
    elif isinstance(value, str) and (match := _QUANTITY.fullmatch(value.strip())):
        amount = float(match[1]) * _UNITS.get(match[2] or "", 1.0)
    else:
        return None
    return amount if isfinite(amount) else None
