"""Section `platform`: where the cluster comes from."""

from __future__ import annotations

from typing import Annotated

from settings.sections.section import Section, like


class Platform(Section):
    """Where the cluster comes from: this stack, or another one that already has it."""

    stack: (
        Annotated[
            str,
            like(
                r"^[A-Za-z0-9_.-]{1,100}(/[A-Za-z0-9_.-]{1,100}/[A-Za-z0-9_.-]{1,100})?$",
                "a stack, or organization/project/stack",
            ),
        ]
        | None
    ) = None
    """Name of the stack whose cluster this server joins, of this project; `organization/project/stack` for one elsewhere.
    Default: this stack makes its own."""
