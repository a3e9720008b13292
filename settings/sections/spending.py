"""Section `spending`: a limit that stops the fleet, where a budget only mails."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from settings.sections.section import Moment, Section


def _is_a_date(text: str) -> str:
    """The text. Raises ValueError for a day or an hour that no calendar has."""
    try:
        datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("a moment that the calendar has") from None
    return text


Instant = Annotated[Moment, AfterValidator(_is_a_date)]


class Spending(Section):
    """A guard in the cluster that counts what the fleet costs, warns at steps, and pauses it at the limit or at a moment."""

    limit: Annotated[float, Field(gt=0, le=1e9)] | None = None
    """USD that may be spent before the fleet is paused; a higher one resumes it. Default: none, and `until` decides alone."""
    until: Instant | None = None
    """Moment at which the fleet is paused whatever was spent, e.g. "2027-03-01T18:00:00Z"; a later one resumes it. Default: none."""
    since: Instant | None = None
    """Name of the sum, as a moment. Another one starts a new sum at once, and nothing else does. Default: the guard's first start."""
    then: Literal["pause", "warn"]
    """`pause` deletes the GPU pods and lets none start; `warn` only says so. Required: stopping a fleet is chosen by a person."""
    on_unknown: Literal["warn", "pause"] = "warn"
    """What happens when the sum cannot be trusted: a price is unknown, the sum was lost, or nobody counted for more than a day."""
    warn_at: Annotated[tuple[Annotated[float, Field(gt=0, lt=1)], ...], Field(max_length=10)] = (0.5, 0.8, 0.95)
    """Shares of the limit that send a warning."""
