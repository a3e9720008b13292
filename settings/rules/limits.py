"""The limits that lessons judge by, each with its source."""

from __future__ import annotations

from typing import Final

CONTEXT_SLACK: Final = 4
"""How many times the needed context a stack may configure. Assumed: the article's 85-fold is far, 1.7-fold (2560) is not."""
GRAPH_RISK_UTILISATION: Final = 0.92
"""Share of GPU memory from which uncounted CUDA graphs may not fit. Source: the article ran 0.92 with the estimate on."""
CRASH_UTILISATION: Final = 0.95
"""Source: the article, phase 3: it failed with a bf16 cache and MTP. Nothing was published between 0.90, which ran, and this."""
TWO_BYTE_UTILISATION: Final = 0.90
"""Share that the article ran a bf16 cache at, with MTP."""
MOST_DRAFT_TOKENS: Final = 2
"""Source: the article: 2 ran, slower than 1; 5 crashed."""
ENGINES_PER_API_SERVER: Final = 3
"""Measured on H200: one API server process costs 3 % at 36,000 tok/s and is a wall near 110,000, where the first token takes 8 s. So one
for about 40,000 tok/s, which is three engines of the article's node (11,900 each)."""
STATES_MARGIN: Final = 1.1
"""Assumed: the count of state blocks is an estimate from one run; below a tenth too many the server may still start."""
