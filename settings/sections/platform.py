"""Section `platform`: where the cluster comes from."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from settings.sections.section import Section


class Platform(Section):
    """Where the cluster comes from: this stack, or another one that already has it."""

    stack: Annotated[str, Field(pattern=r"^[^/\s]+(/[^/\s]+/[^/\s]+)?$")] | None = None
    """Name of the stack whose cluster this server joins, of this project; `organization/project/stack` for one elsewhere.
    Default: this stack makes its own."""
