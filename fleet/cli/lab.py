"""The toolbox's one door to the lab: the commands that prove things on this machine, and what they need of it.

The lab is a distribution of its own (lab/pyproject.toml): without it, `fleet rehearse` says what to install.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Final

import typer

from facts.user_error import UserError
from fleet.doctor.packages import LAB_INSTALL

if TYPE_CHECKING:
    from fleet.doctor.machine import Prerequisite

_IS_THERE = find_spec("lab") is not None


def _missing(arguments: Annotated[list[str] | None, typer.Argument(hidden=True)] = None) -> int:
    """Apply a stack to a local Kubernetes control plane with a simulated Google Cloud. Needs the package vllm-fleet-lab."""
    raise UserError(
        f"fleet rehearse{''.join(f' {one}' for one in arguments or ())}: the lab is not installed; run: {LAB_INSTALL}"
    )


WITHOUT: Final = {"ignore_unknown_options": True}
"""Whatever is asked of `fleet rehearse` is answered with what to install."""
CONTEXT: Final = None if _IS_THERE else WITHOUT

if _IS_THERE:
    from lab.commands.rehearse import rehearse as rehearse
else:
    rehearse = _missing


def _lab() -> Prerequisite:
    from fleet.doctor.machine import prerequisite

    why = "the control plane, the simulated cloud and the drills: a package of their own"
    return prerequisite(name="lab", steps=("rehearse",), ok=False, found="missing", why=why, mend=LAB_INSTALL)


def prerequisites() -> tuple[Callable[[], Prerequisite], ...]:
    """Checks of what a rehearsal needs, for `fleet doctor`. Imported when asked for: they would take a tenth of `fleet --help`."""
    if not _IS_THERE:
        return (_lab,)
    from lab.commands.prerequisites import go, system

    return system, go
