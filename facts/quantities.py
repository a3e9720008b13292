"""Kubernetes' quantities."""

from __future__ import annotations

import re
from math import isfinite
from typing import Any, Final

_QUANTITY: Final = re.compile(r"((?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)(m|k|Ki|M|Mi|G|Gi|T|Ti|P|Pi)?")
_UNITS: Final = {"m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15} | {
    f"{letter}i": 2.0 ** (10 * power) for power, letter in enumerate("KMGTP", start=1)
}


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
