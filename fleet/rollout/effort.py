"""Number of measurements of `fleet rollout judge`, for the plan, without heavy imports."""

from typing import Final

PASSES: Final = 2
"""Passes, each measuring both in turn. Assumed: the minimum that shows a drift."""
REPEATS: Final = 2
"""Default runs of each load per pass."""
MEASUREMENTS: Final = 2 * PASSES
"""Measurements of the old replica and of the canary."""
SOAK_MINUTES: Final = 60
"""Time among users before a promotion. FirstTokenSlow looks back over an hour."""
