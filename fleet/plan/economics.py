"""API prices and break-even load. API prices: facts/data/economics.yaml."""

from __future__ import annotations

from dataclasses import dataclass

from facts import ledger
from facts.cost import SECONDS_PER_HOUR
from facts.ledger import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiPrice:
    """List price of an API per million tokens."""

    id: str
    name: str
    provider: str
    usd_per_million_blended: float
    """In the article's mix: two input tokens per output token."""
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
