"""Section `budget`: a billing budget."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from settings.sections.section import Section, like


class Budget(Section):
    """A billing budget, which warns at 50, 90 and 100 % of the amount and never stops spending."""

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
