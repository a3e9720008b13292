"""Section `budget`: a billing budget."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from settings.sections.section import Section, like


class Budget(Section):
    """A billing budget that warns; it never stops spending."""

    billing_account: Annotated[
        str, like(r"^[0-9A-F]{6}-[0-9A-F]{6}-[0-9A-F]{6}$", "three groups of six digits and capitals A to F")
    ]
    """The billing account, e.g. "01ABCD-234567-89EFAB"."""
    usd_per_month: Annotated[int, Field(gt=0)]
    """The month's amount in whole USD; the account's currency must be USD."""
    thresholds: tuple[Annotated[float, Field(gt=0, le=2)], ...] = (0.5, 0.9, 1.0)
    """Shares of the amount that send a warning; 1.0 is 100 %."""
