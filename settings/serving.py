"""What a stack serves: its profile with the stack's own overrides applied."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from settings.engine import Engine
from settings.kubernetes import Model
from settings.profiles import Profile

if TYPE_CHECKING:
    from settings.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """The resolved answer to "which model, with which flags, for which traffic"."""

    profile: Profile
    engine: Engine
    """The profile's engine with `server.engine` laid over it."""
    model: Model
    context_tokens: int
    """Longest prompt plus answer that the traffic needs."""
    concurrency_per_replica: int
    """Requests in flight per replica at peak."""
    overrides: frozenset[str]
    """camelCase names of the engine settings that the stack file sets itself: no profile excuses those."""
