"""Every mutant, one module per subject of the rules."""

from __future__ import annotations

import importlib
import pkgutil

from tests.policy.mutant import Mutant

MUTANTS: tuple[Mutant, ...] = tuple(
    mutant
    for module in sorted(one.name for one in pkgutil.iter_modules(__path__))
    for mutant in importlib.import_module(f"{__name__}.{module}").MUTANTS
)
