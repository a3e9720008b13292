"""What a plan is asked. Imports little: `fleet --help` reads it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

Capacity = Literal["on-demand", "spot", "cud-1y", "cud-3y", "flex-start", "calendar", "reservation", "compute-class"]
StartsFrom = Literal["nothing", "cluster", "weights"]
"""What exists already: nothing; network and cluster; or the weights volume as well."""
ANY_MACHINE: Final = "any"
DEFAULT_CAPACITY: Final = "spot"
# Assumed: share of full load that stays free, for a lost node and uneven hours.
DEFAULT_HEADROOM: Final = 0.15


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One goal, request lengths, limits, model and machine; None if omitted."""

    users: float | None = None
    """Concurrent users. Each sends the next request when the last is answered."""
    requests_per_second: float | None = None
    tokens_per_second: float | None = None
    """Input and output tokens."""
    documents: int | None = None
    usd_per_hour: float | None = None
    input_tokens: int | None = None
    """Mean of a request, or of a document with its instruction."""
    output_tokens: int | None = None
    longest_input: int | None = None
    """None: the mean."""
    longest_output: int | None = None
    """None: the mean."""
    deadline: str | None = None
    """Of a batch, start-up included: `8h`, `90m`, `1.5d`."""
    ttft_p99_ms: float | None = None
    tpot_ms: float | None = None
    model: str | None = None
    """Of the catalogue, or the path of a config.json. None: the profile's."""
    profile: str | None = None
    machine: str | None = None
    capacity: Capacity | None = None
    region: str | None = None
    usd_per_node_hour: float | None = None
    headroom: float = DEFAULT_HEADROOM
    """Share of full load that stays free."""
    starts_from: StartsFrom = "nothing"

    @property
    def load_share(self) -> float:
        """Share of full load that the goal may use."""
        return 1 - self.headroom

    @property
    def model_file(self) -> Path | None:
        """The config.json of a model of one's own."""
        return Path(self.model) if self.model is not None and self.model.endswith(".json") else None
