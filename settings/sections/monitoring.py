"""Section `monitoring`: managed Prometheus."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from settings.sections.section import Section


class Monitoring(Section):
    """Managed Prometheus."""

    enabled: bool = True
    """Scrape the server (and the endpoint picker)."""
    interval_seconds: Annotated[int, Field(ge=5, le=300)] = 15
    """Seconds between two scrapes."""
