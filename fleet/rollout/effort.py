"""How often `fleet rollout judge` measures: for the plan that says so first, without what a measurement needs."""

from typing import Final

PASSES: Final = 2
"""Times that both are measured, in turn. Assumed: the least that shows a drift."""
REPEATS: Final = 2
"""Runs of each load in a pass, unless told otherwise."""
MEASUREMENTS: Final = 2 * PASSES
"""Of the old replica and of the canary."""
