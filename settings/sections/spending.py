"""Section `spending`: a limit that pauses the fleet."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from settings.sections.section import Moment, Section


def _is_a_date(text: str) -> str:
    """The text. Raises ValueError for a date or time that does not exist."""
    try:
        datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("an existing date and time") from None
    return text


Instant = Annotated[Moment, AfterValidator(_is_a_date)]


class Spending(Section):
    """A guard in the cluster that counts the fleet's cost, warns at thresholds, and pauses the fleet at a limit or a time."""

    limit: Annotated[float, Field(gt=0, le=1e9)] | None = None
    """Amount in USD at which the fleet is paused; raising it resumes the fleet. Default: none, only `until` applies."""
    every: Literal["month"] | None = None
    """`month`: the limit is for each calendar month in UTC; a new month starts a new sum and ends a pause. Default: one sum."""
    until: Instant | None = None
    """Time at which the fleet is paused regardless of cost, e.g. "2027-03-01T18:00:00Z"; a later time resumes it. Default: none."""
    since: Instant | None = None
    """Name of the sum, as a time. Changing it starts a new sum; nothing else does, but a new month with `every`. Default: the guard's
    first start."""
    then: Literal["pause", "warn"]
    """`pause` deletes the GPU pods and prevents new ones; `warn` only warns. Required, because pausing must be an explicit choice."""
