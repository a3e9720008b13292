"""Sizes as Kubernetes writes them."""

from __future__ import annotations

import re
from typing import Final

_QUANTITY: Final = re.compile(r"(\d+(?:\.\d+)?)(Ki|Mi|Gi|Ti|Pi|k|M|G|T|P)?")
_BYTES: Final = {
    "": 1.0,
    **{f"{letter}i": 2.0 ** (10 * power) for power, letter in enumerate("KMGTP", start=1)},
    **{letter: 10.0 ** (3 * power) for power, letter in enumerate("kMGTP", start=1)},
}


def gib(text: str | int) -> float:
    """GiB of a quantity such as "64Gi". Raises ValueError for what is none."""
    found = _QUANTITY.fullmatch(str(text))
    if found is None:
        raise ValueError(f'"{text}" is no size')
    return float(found[1]) * _BYTES[found[2] or ""] / 2**30
