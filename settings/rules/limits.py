"""The limits that lessons judge by, each with its source."""

from __future__ import annotations

from typing import Final

CONTEXT_SLACK: Final = 4
"""How many times the needed context a stack may configure. Assumed: the article's 85-fold is far, 1.7-fold (2560) is not."""
GRAPH_RISK_UTILISATION: Final = 0.92
"""Share of GPU memory from which uncounted CUDA graphs may not fit. Source: the article ran 0.92 with the estimate on."""
CRASH_UTILISATION: Final = 0.95
"""Source: the article, phase 3: 908 failed requests."""
