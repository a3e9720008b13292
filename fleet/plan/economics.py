"""Operating hours, Spot losses, spares, API prices and break-even load. API prices: facts/data/economics.yaml."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, lgamma, log

from facts import ledger
from facts.cost import HOURS_PER_MONTH, SECONDS_PER_HOUR, Bill
from facts.ledger import Source

HOURS_PER_WEEK = 168
SECONDS_PER_DAY = 86_400
MOST_SPARES = 100
"""Limit on spares; beyond it the loss rate is the problem."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Duty:
    """Operating hours. Outside them replicas are 0 and only the remaining resources are billed."""

    hours_per_week: float = HOURS_PER_WEEK
    """Above 0, at most 168."""

    def __post_init__(self) -> None:
        if not 0 < self.hours_per_week <= HOURS_PER_WEEK:
            raise ValueError(f"hours_per_week must be above 0 and at most {HOURS_PER_WEEK}, got {self.hours_per_week}")

    @property
    def share(self) -> float:
        """Share of the week."""
        return self.hours_per_week / HOURS_PER_WEEK


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotLoss:
    """How often Google reclaims a machine, and how long its replacement takes."""

    notices_per_node_day: float
    """Mean Spot notices per node and day. No rate is published; the user supplies it."""
    restore_seconds: float
    """From the notice until a replacement serves."""

    def __post_init__(self) -> None:
        for name in ("notices_per_node_day", "restore_seconds"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must be 0 or more, got {getattr(self, name)}")

    @property
    def availability(self) -> float:
        """Availability of one server, 0 to 1: uptime over uptime plus time to restore."""
        down = self.notices_per_node_day * self.restore_seconds / SECONDS_PER_DAY
        return 1 / (1 + down)


def spares_for(nodes: int, loss: SpotLoss, confidence: float) -> int:
    """Smallest k such that of `nodes` + k machines at least `nodes` serve with probability `confidence`.

    Treats losses as independent; a stock-out breaks that assumption. Raises ValueError above 100 spares.
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be between 0 and 1, got {confidence}")
    for spares in range(MOST_SPARES + 1):
        if _at_least(nodes, nodes + spares, loss.availability) >= confidence:
            return spares
    raise ValueError(
        f"{MOST_SPARES} spares are not enough for {nodes} nodes at {loss.notices_per_node_day} notices per node and day"
    )


def _at_least(wanted: int, machines: int, availability: float) -> float:
    """Probability that at least `wanted` of `machines` serve."""
    missing = 1 - availability
    if missing == 0:
        return 1.0

    def exactly(lost: int) -> float:
        # In logarithms: the binomial factors overflow a float above some thousand machines.
        ways = lgamma(machines + 1) - lgamma(lost + 1) - lgamma(machines - lost + 1)
        return exp(ways + lost * log(missing) + (machines - lost) * log(availability))

    return sum(exactly(lost) for lost in range(machines - wanted + 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiPrice:
    """List price of an API per million tokens."""

    id: str
    name: str
    provider: str
    usd_per_million_blended: float
    """At `input_per_output` input tokens per output token."""
    input_per_output: float
    usd_per_million_input: float | None = None
    usd_per_million_output: float | None = None
    """Both None if no dated source lists them separately."""
    source: Source | None = None
    """Source of the separate prices; the blended price is the article's."""

    def usd_per_million(self, input_tokens: float, output_tokens: float) -> float:
        """Price per million tokens of that mix; the blended price if separate prices are unknown."""
        if self.usd_per_million_input is None or self.usd_per_million_output is None:
            return self.usd_per_million_blended
        paid = input_tokens * self.usd_per_million_input + output_tokens * self.usd_per_million_output
        return paid / (input_tokens + output_tokens)


def api_prices() -> tuple[ApiPrice, ...]:
    """The APIs in the article's comparison, cheapest first."""
    content = ledger.load("economics")
    apart = content["apis_usd_per_million_tokens"]
    found = [
        ApiPrice(
            id=id_,
            name=entry["name"],
            provider=entry["provider"],
            usd_per_million_blended=float(entry["usd"]),
            input_per_output=float(content["input_tokens_per_output_token"]),
            usd_per_million_input=float(apart[id_]["input"]) if id_ in apart else None,
            usd_per_million_output=float(apart[id_]["output"]) if id_ in apart else None,
            source=ledger.source(apart[id_]["source"]) if id_ in apart else None,
        )
        for id_, entry in content["apis_blended_usd_per_million_tokens"].items()
    ]
    return tuple(sorted(found, key=lambda price: price.usd_per_million_blended))


def break_even_utilisation(usd_per_hour: float, tokens_per_s: float, usd_per_million: float) -> float:
    """Share of full load at which the fleet's price per token equals the API's; above 1 the fleet is never cheaper.

    `tokens_per_s` is the total rate at full load. Raises ValueError unless rate and price are above zero.
    """
    if tokens_per_s <= 0 or usd_per_million <= 0:
        raise ValueError("tokens_per_s and usd_per_million must be above 0")
    return usd_per_hour / (tokens_per_s * SECONDS_PER_HOUR / 1e6 * usd_per_million)


def usd_per_month(bill: Bill, duty: Duty) -> float:
    """Cost of a 730-hour month: the whole bill while running, the residual otherwise. Known prices only."""
    running = bill.usd_per_hour_known * duty.share + bill.residual_usd_per_hour * (1 - duty.share)
    return running * HOURS_PER_MONTH
