"""A question to the planner: one goal, request lengths, latency limits and capacity."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field
from math import inf
from typing import Final, get_args

from facts.cost import FleetShape
from facts.machines import DEFAULT_MACHINE, Machine, Way
from facts.user_error import UserError
from facts.workloads import Workload
from fleet.plan.asked import DEFAULT_HEADROOM, Capacity, StartsFrom
from fleet.plan.model.deployment import Routing
from fleet.plan.question.limits import Limits
from fleet.plan.question.profiles import ProfileFacts

CAPACITIES: Final[tuple[Capacity, ...]] = get_args(Capacity)
"""Capacities that the planner can price."""
COMMITMENTS: Final[frozenset[Capacity]] = frozenset({"cud-1y", "cud-3y"})
"""Prices of a reservation committed for one or three years."""
INTERRUPTIBLE: Final[frozenset[Capacity]] = frozenset({"spot", "compute-class"})
"""Capacities whose nodes Google may reclaim at any time."""
DEFAULT_REGION: Final = "europe-west4"
"""The article's."""
# Limit of replicas in a stack file (settings/sections/server.py, Server.replicas).
MOST_MACHINES: Final = 1_000


# Source: Brysbaert 2019, Journal of Memory and Language 109, 104047: silent reading of English non-fiction. Assumed: 0.75 words a token.
_WORDS_PER_MINUTE: Final = 238
_WORDS_PER_TOKEN: Final = 0.75


def reading_seconds(workload: Workload) -> float:
    """How long a person reads a response."""
    return workload.output_tokens.mean * _WORDS_PER_TOKEN / _WORDS_PER_MINUTE * 60


def way_of(capacity: Capacity) -> Way:
    """The provisioning mode behind a capacity: a commitment prices a reservation."""
    return "reservation" if capacity in COMMITMENTS else capacity  # type: ignore[return-value]


_DURATION = re.compile(r"(?P<number>[0-9]+(?:\.[0-9]+)?)(?P<unit>s|m|min|h|d)?")
_SECONDS: Final = {"s": 1, "m": 60, "min": 60, "h": 3_600, "d": 86_400}


class PlanImpossibleError(UserError, ValueError):
    """The goal cannot be reached: the reason, and the nearest possible goal.

    `short`: how many times as much is asked as can be reached, which compares machines; None where the nearest is no amount.
    """

    def __init__(self, why: str, nearest: str, short: float | None = None) -> None:
        self.why = why
        self.nearest = nearest
        self.short = short
        super().__init__(f"{why}. Nearest: {nearest}")


@dataclass(frozen=True, slots=True, kw_only=True)
class TokensPerSecond:
    """Input and output tokens/s together."""

    total_tokens_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Users:
    """Closed-loop users: each sends the next request when the last is answered."""

    users: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestsPerSecond:
    """Open-loop arrivals at this rate."""

    requests_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The most nodes within an hourly budget."""

    usd_per_hour: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Documents to process once, one response each."""

    documents: int
    deadline_hours: float | None = None
    """Hours from now, start-up included. None: plan the smallest fleet."""


PlanGoal = TokensPerSecond | Users | RequestsPerSecond | Budget | Batch


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanQuestion:
    """All inputs of a plan. Raises ValueError for a number out of range."""

    goal: PlanGoal
    profile: ProfileFacts
    workload: Workload
    machine: Machine = DEFAULT_MACHINE
    limits: Limits = field(default_factory=Limits)
    capacity: Capacity = "spot"
    routing: Routing = "cluster-ip"
    load_share: float = 1 - DEFAULT_HEADROOM
    """Planned load as a share of full load. The rest is headroom for a lost node and uneven hours."""
    region: str = DEFAULT_REGION
    """Region of the list prices."""
    usd_per_node_hour: float | None = None
    """User's price of a node-hour, which replaces the list price."""
    billed: FleetShape | None = None
    """What is billed of a stack that exists, whatever its number of nodes. None: of the stack that this plan writes."""
    starts_from: StartsFrom = "nothing"
    compile_cache: bool = False
    """Whether replicas reuse compiled kernels (`server.compileCache`)."""
    split_because: str = ""
    """Why a model that fits one GPU is split over several. Empty where it is not."""
    notes: tuple[str, ...] = ()
    """Explanations of defaults chosen for the user."""

    def __post_init__(self) -> None:
        if way_of(self.capacity) not in self.machine.ways:
            ways = [capacity for capacity in CAPACITIES if way_of(capacity) in self.machine.ways]
            raise ValueError(
                f"capacity {self.capacity} is not available for {self.machine.type}; allowed: {', '.join(ways)}"
            )
        for name, value in {**asdict(self.goal), **asdict(self.limits)}.items():
            if value is not None and not 0 < value < inf:
                raise ValueError(f"{name} must be above 0 and finite, got {value:g}")
        if not 0 < self.load_share <= 1:
            raise ValueError(f"load_share must be above 0 and at most 1, got {self.load_share:g}")
        if self.usd_per_node_hour is not None and not 0 < self.usd_per_node_hour < inf:
            raise ValueError(f"usd_per_node_hour must be above 0 and finite, got {self.usd_per_node_hour:g}")


def parse_hours(text: str) -> float:
    """Parse `8h`, `90m`, `1.5d`, `3600s`, or a number of hours. Raises ValueError with the allowed forms."""
    found = _DURATION.fullmatch(text.strip().lower())
    if found is None or float(found["number"]) == 0:
        raise ValueError(f"--deadline {text!r} is not a duration above 0; write 8h, 90m or 1.5d, or a number of hours")
    return float(found["number"]) * _SECONDS[found["unit"] or "h"] / _SECONDS["h"]
