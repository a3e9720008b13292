"""The toolbox's one door to the lab: the commands that prove things on this machine, and what they need of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from lab.commands.rehearse import rehearse as rehearse

if TYPE_CHECKING:
    from fleet.doctor.machine import Prerequisite


def prerequisites() -> tuple[Callable[[], Prerequisite], ...]:
    """Checks of what a rehearsal needs, for `fleet doctor`. Imported when asked for: they would take a tenth of `fleet --help`."""
    from lab.commands.prerequisites import go, system

    return system, go
