"""What a profile is: a named set of engine flags with the traffic it is for and what is known about it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from settings.sections.engine import Engine
from settings.sections.model import Model
from settings.sections.section import Section

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
    """Requests in flight per replica (eight GPUs) at peak."""
    reproduces: str | None = None
    """The published row this profile repeats, as the ledger addresses it, e.g. "phases.tp8"."""
    lessons_reproduced: Annotated[frozenset[str], Field(alias="lessons", strict=False)] = frozenset()
    """Lessons that the row teaches: shown as findings instead of refused, as long as the stack leaves the flag
    alone."""
    assumptions: tuple[str, ...] = ()
    """What the article leaves open and this profile had to choose."""
    differences: tuple[Difference, ...] = ()
    """Every point in which the profile deliberately leaves the record."""
