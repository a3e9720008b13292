"""All drills, in the order in which they are played."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from lab.drills import bring_up, disruption, scaling, shortage
from lab.drills.drill import Drill
from lab.results.result import RehearsalError

DRILLS: tuple[Drill, ...] = (*bring_up.DRILLS, *disruption.DRILLS, *shortage.DRILLS, *scaling.DRILLS)


def chosen(names: Sequence[str]) -> tuple[Drill, ...]:
    """The named drills, or all, in the catalogue's order. Raises RehearsalError for an unknown name."""
    known = {drill.name: drill for drill in DRILLS}
    for name in names:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]}?" if near else "."
            raise RehearsalError(f"--drill {name}: unknown drill{hint} `fleet rehearse --list` lists all drills")
    return tuple(drill for drill in DRILLS if not names or drill.name in names)
