"""Section `results`: the bucket that keeps benchmark results."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from settings.sections.section import Section


class Results(Section):
    """The bucket that keeps benchmark results."""

    retention_days: Annotated[int, Field(ge=1, le=3650)] = 90
    """Days after which a result is deleted."""
