"""Limits of a good request, as an option gives them."""

from __future__ import annotations

import re
from math import isfinite
from typing import Final

from fleet.bench.errors import BenchmarkError
from fleet.bench.folder import AskedSlo

_SLO_WRITTEN: Final = "for example --slo ttft:500,tpot:50,e2e:9000 (milliseconds; any of the three)"


def slo_of(text: str) -> AskedSlo:
    """Limits of a --slo option. Raises BenchmarkError."""
    limits: dict[str, float] = {}
    for part in text.split(","):
        match = re.fullmatch(r"\s*(ttft|tpot|e2e)\s*:\s*([0-9.]+)\s*", part)
        try:
            value = float(match[2]) if match else 0.0
        except ValueError:
            value = 0.0
        if match is None or not isfinite(value) or value <= 0:
            raise BenchmarkError(
                f"--slo {text}: {part!r} is not a limit: write NAME:MILLISECONDS above 0, {_SLO_WRITTEN}"
            )
        key = f"{match[1]}_ms"
        if key in limits:
            raise BenchmarkError(f"--slo {text}: {match[1]} has two limits; write one, {_SLO_WRITTEN}")
        limits[key] = value
    return AskedSlo(**limits)
