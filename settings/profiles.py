"""Profiles from profiles.yaml: named sets of engine flags with their expected traffic and evidence.

Only the profile that is looked up is validated, for speed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from facts.ledger import LedgerError
from facts.releases import ARTICLES
from facts.texts import nearest
from settings import profile_file
from settings.sections.engine import Engine
from settings.sections.model import Model
from settings.sections.section import Section, tuples

NAMES: tuple[str, ...] = profile_file.names()
"""Every profile, in the order of the file."""


Evidence = Literal["measured there", "inferred", "unmeasured"]
"""`measured there`: by the article on B200 or the trial on an H200, as the reason says. `inferred`: from vLLM's source or arithmetic.
`unmeasured`: no figure exists."""


class Difference(Section):
    """One difference of a profile from `record`, with its reason."""

    setting: str
    """Path below `server` in the stack file, e.g. "engine.maxNumSeqs"."""
    record: str
    """What the record has there, in words where it has nothing."""
    here: str
    why: str
    evidence: Evidence


class Profile(Section):
    """A named set of engine flags, which settings/sections/engine.py documents."""

    name: str
    title: str
    """One line for lists and reports."""
    engine: Engine
    model_id: str
    """Hugging Face repository of the model."""
    model: Model | None
    """The model with its pinned revision. None: no revision is known, so the stack must set one."""
    workload: str
    """Workload of the profile: one of facts/data/workloads.yaml, or one without figures."""
    context_tokens: Annotated[int, Field(ge=1)]
    """Longest prompt plus output of the workload, in tokens."""
    concurrency_per_replica: Annotated[int, Field(ge=1)]
    """Peak requests in flight per replica with its own number of GPUs."""
    versions: tuple[str, ...] = (ARTICLES,)
    """vLLM releases that accept the profile and have no known defect with it."""
    reproduces: str | None = None
    """The published row that this profile reproduces, as in the ledger, e.g. "phases.mtp1-092". Lessons that the row breaks are
    deliberate exceptions (facts/lessons/deliberate.py)."""
    assumptions: tuple[str, ...] = ()
    """Choices of this profile where the article gives no value."""
    differences: tuple[Difference, ...] = ()
    """Every difference from `record`."""


class UnknownProfileError(LookupError):
    """No profile has that name. The message lists all names and the closest one."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.nearest = nearest(name, NAMES)
        hint = f"; did you mean {self.nearest}?" if self.nearest else ""
        super().__init__(f"unknown profile {name!r}{hint} Profiles: {', '.join(NAMES)}")

    def __str__(self) -> str:
        return str(self.args[0])


@cache
def profile(name: str) -> Profile:
    """The profile with that name. Raises UnknownProfileError, or LedgerError for an error in the file."""
    if name not in NAMES:
        raise UnknownProfileError(name)
    return validated(profile_file.entry(name))


def valid_for(release: str) -> Iterator[Profile]:
    """Every profile that this vLLM release runs, in order."""
    return (chosen for chosen in map(profile, NAMES) if release in chosen.versions)


def validated(entry: Mapping[str, Any]) -> Profile:
    """The profile of a resolved entry. Raises LedgerError with every wrong key."""
    try:
        return Profile.model_validate(tuples(entry))
    except ValidationError as error:
        wrong = "; ".join(
            f"{'.'.join(str(part) for part in detail['loc'])}: {detail['msg']}"
            # For a missing key pydantic quotes the whole section.
            + ("" if detail["type"] == "missing" else f", got {detail['input']!r}")
            for detail in error.errors(include_url=False)
        )
        raise LedgerError(f"{profile_file.NAME}, {entry['name']}: {wrong}") from None
