"""Limits used by the lessons, with sources."""

from __future__ import annotations

from typing import Final

CONTEXT_SLACK: Final = 4
"""Maximum ratio of configured to needed context. Assumed: the article's factor of 85 is too much, 1.7 (2560) is not."""
GRAPH_RISK_UTILISATION: Final = 0.92
"""Share of GPU memory from which uncounted CUDA graphs may not fit. Source: the article ran 0.92 with the estimate enabled."""
CRASH_UTILISATION: Final = 0.95
"""Source: the article, phase 3: failed with a bf16 cache and MTP. Nothing is published between 0.90, which worked, and 0.95."""
TWO_BYTE_UTILISATION: Final = 0.90
"""Share of GPU memory with a bf16 cache and MTP in the article."""
MOST_DRAFT_TOKENS: Final = 2
"""Source: the article: 2 ran, slower than 1; 5 crashed."""
STATES_MARGIN: Final = 1.1
"""Assumed: the number of state blocks is an estimate from one run, so a server with up to 10 % more may still start."""
