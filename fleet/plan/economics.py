"""Money over time: hours that are worked, Spot machines that go, spares, and when a fleet is cheaper than an API.

Everything here is arithmetic over a bill (facts/cost.py) and a rate; no price is made up. Source of API prices:
facts/data/economics.yaml.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, lgamma, log

from facts import ledger
from facts.cost import HOURS_PER_MONTH, SECONDS_PER_HOUR, Bill
from facts.ledger import Source

HOURS_PER_WEEK = 168
SECONDS_PER_DAY = 86_400
MOST_SPARES = 100
"""Beyond it the loss rate, not the number of spares, is the problem."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Duty:
    """When the fleet runs. Outside these hours replicas are 0 and only what stays is paid."""

    hours_per_week: float = HOURS_PER_WEEK
    """Above 0, at most 168."""

    def __post_init__(self) -> None:
        if not 0 < self.hours_per_week <= HOURS_PER_WEEK:
            raise ValueError(f"hours_per_week must be above 0 and at most {HOURS_PER_WEEK}, got {self.hours_per_week}")

    @property
    def share(self) -> float:
        """Share of all hours."""
        return self.hours_per_week / HOURS_PER_WEEK


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotLoss:
    """How often Google takes a machine back, and how long its server is then missing."""

    notices_per_node_day: float
    """Mean number of Spot notices per node and day. Nobody publishes one: it is the user's own figure."""
    restore_seconds: float
    """From the notice until a replacement serves."""

    def __post_init__(self) -> None:
        for name in ("notices_per_node_day", "restore_seconds"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must be 0 or more, got {getattr(self, name)}")

    @property
    def availability(self) -> float:
        """Share of time that a wanted server is there, 0 to 1: up-time over up-time plus time to restore."""
        down = self.notices_per_node_day * self.restore_seconds / SECONDS_PER_DAY
        return 1 / (1 + down)


def spares_for(nodes: int, loss: SpotLoss, confidence: float) -> int:
    """Smallest k such that of `nodes` + k machines at least `nodes` serve with that probability (0 to 1).

    Machines are taken as lost independently of each other, which a stock-out breaks: it takes several at once. Raises
    ValueError when a hundred spares are not enough.
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be between 0 and 1, got {confidence}")
    for spares in range(MOST_SPARES + 1):
        if _at_least(nodes, nodes + spares, loss.availability) >= confidence:
            return spares
    raise ValueError(
        f"{MOST_SPARES} spares are not enough for {nodes} nodes at {loss.notices_per_node_day} notices a node and day"
    )


def _at_least(wanted: int, machines: int, availability: float) -> float:
    """Probability that at least `wanted` of `machines` serve."""
    missing = 1 - availability
    if missing == 0:
        return 1.0

    def exactly(lost: int) -> float:
        # By logarithms: the binomial's factors leave the range of a float from some thousand machines on.
        ways = lgamma(machines + 1) - lgamma(lost + 1) - lgamma(machines - lost + 1)
        return exp(ways + lost * log(missing) + (machines - lost) * log(availability))

    return sum(exactly(lost) for lost in range(machines - wanted + 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiPrice:
    """What an API asks for a million tokens, list price."""

    id: str
    name: str
    provider: str
    usd_per_million_blended: float
    """For `input_per_output` input tokens to one output token."""
    input_per_output: float
    usd_per_million_input: float | None = None
    usd_per_million_output: float | None = None
    """Both None where no dated source has them apart."""
    source: Source | None = None
    """Of the two prices apart; the blended one is the article's."""

    def usd_per_million(self, input_tokens: float, output_tokens: float) -> float:
        """Dollars for a million tokens of that mix; the blended price where input and output are not known apart."""
        if self.usd_per_million_input is None or self.usd_per_million_output is None:
            return self.usd_per_million_blended
        paid = input_tokens * self.usd_per_million_input + output_tokens * self.usd_per_million_output
        return paid / (input_tokens + output_tokens)


def api_prices() -> tuple[ApiPrice, ...]:
    """The APIs that the article compares itself with, cheapest first."""
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
    """Share of its rate at which a fleet's million tokens cost what the API's do. Above 1 the fleet is never cheaper.

    `tokens_per_s` is the fleet's total rate. Raises ValueError unless rate and price are above zero.
    """
    if tokens_per_s <= 0 or usd_per_million <= 0:
        raise ValueError("a break-even needs a rate and a price above zero")
    return usd_per_hour / (tokens_per_s * SECONDS_PER_HOUR / 1e6 * usd_per_million)


def usd_per_month(bill: Bill, duty: Duty) -> float:
    """Dollars a month of 730 hours: the whole bill while it runs, what stays otherwise. Known prices only."""
    running = bill.usd_per_hour_known * duty.share + bill.residual_usd_per_hour * (1 - duty.share)
    return running * HOURS_PER_MONTH
