"""Section `budget`: a billing budget."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from settings.sections.section import Section, like


class Budget(Section):
    """A billing budget, which sends warnings and never stops spending."""

    billing_account: Annotated[
        str,
        like(
            r"^[0-9A-F]{6}-[0-9A-F]{6}-[0-9A-F]{6}$",
            "three groups of six hexadecimal digits, in uppercase, with dashes",
        ),
    ]
    """Id of the billing account, e.g. "01ABCD-234567-89EFAB"."""
    usd_per_month: Annotated[int, Field(gt=0, le=1_000_000_000)]
    """Amount a month in whole USD; the billing account's currency must be USD."""
    thresholds: Annotated[tuple[Annotated[float, Field(gt=0, le=2)], ...], Field(min_length=1, max_length=100)] = (
        0.5,
        0.9,
        1.0,
    )
    """Shares of the amount that trigger a warning; 1.0 is 100 %."""
