"""Profiles: named sets of engine flags, each with the traffic it is for and what is known about it, by name from profiles.yaml.

Looking one up validates that one only: a preview pays for what it shows.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from facts.engines import DEFAULT
from facts.ledger import LedgerError
from settings import profile_file
from settings.sections.engine import Engine
from settings.sections.model import Model
from settings.sections.section import Section, tuples

NAMES: tuple[str, ...] = profile_file.names()
"""Every profile, those for use first, then the article's phases in its order."""


Evidence = Literal["measured there", "inferred", "unmeasured"]
"""`measured there`: by the article on B200, or by the trial on an H200, as the reason says. `inferred`: follows from
vLLM's code or from arithmetic. `unmeasured`: nobody has published or taken a figure."""


class Difference(Section):
    """One point in which a profile leaves the record, and why."""

    setting: str
    """Path below `server` in the stack file, e.g. "engine.maxNumSeqs"."""
    record: str
    """What the record has there, in words where it has nothing."""
    here: str
    why: str
    evidence: Evidence


class Profile(Section):
    """A named set of engine flags. The engine's own docstrings say what each flag does."""

    name: str
    title: str
    """One line for lists and reports."""
    engine: Engine
    model_id: str
    """Hugging Face repository of the model."""
    model: Model | None
    """The model with its pinned revision. None: no revision is published for it, so the stack names one itself."""
    workload: str
    """What the profile is for: a workload of the ledger (facts/data/workloads.yaml), or one without figures."""
    context_tokens: Annotated[int, Field(ge=1)]
    """Longest prompt plus answer that this workload needs, in tokens."""
    concurrency_per_replica: Annotated[int, Field(ge=1)]
    """Requests in flight per replica at peak, of as many GPUs as its engines have."""
    versions: tuple[str, ...] = (DEFAULT,)
    """Releases of vLLM that it holds for: their parsers and configurations accept it, and no known defect speaks against it."""
    reproduces: str | None = None
    """The published row this profile repeats, as the ledger addresses it, e.g. "phases.tp8"."""
    lessons_reproduced: Annotated[frozenset[str], Field(alias="lessons", strict=False)] = frozenset()
    """Lessons that the row teaches: shown as findings instead of refused, as long as the stack leaves the flag
    alone."""
    assumptions: tuple[str, ...] = ()
    """What the article leaves open and this profile had to choose."""
    differences: tuple[Difference, ...] = ()
    """Every point in which the profile deliberately leaves the record."""


class UnknownProfileError(LookupError):
    """No profile has that name. The message names those there are, and the nearest."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.nearest = next(iter(get_close_matches(name, NAMES, n=1)), None)
        hint = f"; did you mean {self.nearest}?" if self.nearest else ""
        super().__init__(f"no profile is called {name!r}{hint} Profiles: {', '.join(NAMES)}")

    def __str__(self) -> str:
        return str(self.args[0])


@cache
def profile(name: str) -> Profile:
    """The profile of that name. Raises UnknownProfileError, and LedgerError where the file has it wrong."""
    if name not in NAMES:
        raise UnknownProfileError(name)
    return validated(profile_file.entry(name))


def validated(entry: Mapping[str, Any]) -> Profile:
    """The profile of an entry as `profile_file.resolved` gives it. Raises LedgerError with every key that is wrong."""
    try:
        return Profile.model_validate(tuples(entry))
    except ValidationError as error:
        wrong = "; ".join(
            f"{'.'.join(str(part) for part in detail['loc'])}: {detail['msg']}"
            # Of a missing key pydantic tells the whole section.
            + ("" if detail["type"] == "missing" else f", got {detail['input']!r}")
            for detail in error.errors(include_url=False)
        )
        raise LedgerError(f"{profile_file.NAME}, {entry['name']}: {wrong}") from None
