"""Every case, one module per subject of the rules."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from typing import Final

from tests.policy.case import Case

CASES: Final[Mapping[str, tuple[Case, ...]]] = {
    name: importlib.import_module(f"{__name__}.{name}").CASES
    for name in sorted(one.name for one in pkgutil.iter_modules(__path__))
}
"""By subject."""
EVERY: Final = tuple(case for cases in CASES.values() for case in cases)
