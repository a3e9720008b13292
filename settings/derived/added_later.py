"""Engine settings that came after names had been derived from all of them: unset, they must not change a name."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Final

from settings.sections.engine import Engine

SINCE_RELEASES: Final = frozenset({"stream_interval", "prefill_schedule_interval"})
"""Later than the releases of results: another one runs a benchmark again."""
SINCE_CACHES: Final = SINCE_RELEASES | {"yarn", "enable_lora", "max_loras", "max_lora_rank"}
"""Later than the first keys of compile caches: another one restarts servers."""


def unset(engine: Engine, fields: AbstractSet[str]) -> set[str]:
    """Those of the fields that are not set."""
    return {field for field in fields if getattr(engine, field) is None}
