"""The article's phases as engine settings over profile `record`, as somebody would write them by hand, by row of the ledger."""

from __future__ import annotations

from typing import Any, Final

_BEFORE_PHASE_4: Final[dict[str, Any]] = {
    "maxNumBatchedTokens": None,
    "kvCacheDtype": None,
    "gpuMemoryUtilization": None,
    "enableChunkedPrefill": None,
    "attentionBackend": None,
    "optimizationLevel": None,
    "estimateCudagraphs": None,
}
"""Left out: the article states none of them before phase 4."""
_PHASE_1: Final[dict[str, Any]] = {
    **_BEFORE_PHASE_4,
    "dataParallelSize": 1,
    "tensorParallelSize": 8,
    "maxModelLen": 131_072,
    "maxNumSeqs": 512,
}
_PHASE_2: Final[dict[str, Any]] = {**_BEFORE_PHASE_4, "maxModelLen": 131_072, "maxNumSeqs": 8_192}
_PHASE_3: Final[dict[str, Any]] = {**_PHASE_2, "maxModelLen": 4_096}


def _drafts(tokens: int) -> dict[str, Any]:
    return {"speculative": {"method": "mtp", "numSpeculativeTokens": tokens}}


PHASES: Final[dict[str, dict[str, Any]]] = {
    "phases.tp8": _PHASE_1,
    "phases.tp8-mtp5": {**_PHASE_1, **_drafts(5)},
    "phases.dp8": _PHASE_2,
    "phases.dp8-4096-095-crash": {**_PHASE_3, "gpuMemoryUtilization": 0.95},
    "phases.dp8-4096": {**_PHASE_3, "gpuMemoryUtilization": 0.90},
    # The final list as printed, without the mamba-cache flags that the text requires.
    "phases.mtp1-092": {"enablePrefixCaching": True, "mambaCacheMode": None, "mambaBlockSize": None},
    "phases.mtp1-095": {"gpuMemoryUtilization": 0.95},
    "phases.mtp2-095": {"gpuMemoryUtilization": 0.95, **_drafts(2)},
    "phases.no-mtp-095": {"gpuMemoryUtilization": 0.95, "speculative": None},
}
