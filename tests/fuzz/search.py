"""Tries a target's inputs for a bounded time: Hypothesis in rounds, each with a seed of its own that follows from the printed one.

Hypothesis draws and shrinks. What it does not know: an end by the clock, and to go on after a defect. So each round ends in time,
a defect that has a name already does not stop a later round, and the smallest input of each is kept here.
"""

from __future__ import annotations

import json
import os
import signal
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import hypothesis
from hypothesis import HealthCheck, Phase, Verbosity

from tests.fuzz.target import BrokenError, Target, name_of

PER_INPUT_SECONDS = 10
"""Of processor time: a busy machine must not make a defect. Assumed: ten times the dearest sound input, a whole preview."""
SHRINK_SECONDS = 20
"""Within the time of the run. Assumed: the first smaller inputs come in the first seconds."""
_ROUND = hypothesis.settings(
    max_examples=500,
    database=None,
    deadline=None,
    derandomize=False,
    verbosity=Verbosity.quiet,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=[*HealthCheck],
)


class _EndOfTimeError(KeyboardInterrupt):
    """The round ends; Hypothesis lets it pass."""


@dataclass(slots=True)
class Defect:
    """Something that must not be."""

    name: str
    input: str
    """The smallest input that was found, as JSON."""
    evidence: str
    """Traceback."""


@dataclass(slots=True)
class Found:
    """What a search saw."""

    tried: int = 0
    accepted: int = 0
    defects: dict[str, Defect] = field(default_factory=dict)


def written(value: Any) -> str:
    """An input as a file: JSON in ASCII, so that a lone surrogate survives."""
    return json.dumps(value, indent=1)


def judge(target: Target, value: Any) -> bool:
    """Whether the input is accepted. Raises whatever is wrong, also that it takes too long."""

    def too_slow(_signal: int, _frame: FrameType | None) -> None:
        raise BrokenError(f"more than {PER_INPUT_SECONDS} s of processor time")

    before = signal.signal(signal.SIGVTALRM, too_slow)
    signal.setitimer(signal.ITIMER_VIRTUAL, PER_INPUT_SECONDS)
    try:
        return target.judge(value)
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def search(
    target: Target, seed: int, seconds: float, trying: Path, tell: Callable[[Found], None], most: int | None = None
) -> Found:
    """Every defect of the time or of the first inputs. `trying` always holds the input in hand, for a process that is killed."""
    found = Found()
    until = time.monotonic() + seconds
    number = 0
    with trying.open("wb") as file:
        while time.monotonic() < until and (most is None or found.tried < most):
            _round(target, seed * 1_000_003 + number, until, most, found, file.fileno())
            tell(found)
            number += 1
    return found


def _round(target: Target, seed: int, until: float, most: int | None, found: Found, file: int) -> None:
    known = set(found.defects)
    end = [until]

    @hypothesis.seed(seed)
    @_ROUND
    @hypothesis.given(target.inputs)
    def attempt(value: Any) -> None:
        if time.monotonic() > end[0] or (most is not None and found.tried >= most and found.defects.keys() == known):
            raise _EndOfTimeError
        text = written(value)
        os.pwrite(file, text.encode(), 0)
        os.ftruncate(file, len(text))
        found.tried += 1
        try:
            found.accepted += judge(target, value)
        except Exception as error:
            name = name_of(error)
            if name in known:
                return
            kept = found.defects.get(name)
            if kept is None:
                end[0] = min(until, time.monotonic() + SHRINK_SECONDS)
            if kept is None or len(text) < len(kept.input):
                found.defects[name] = Defect(name, text, "".join(traceback.format_exception(error)))
            raise

    try:
        attempt()
    except _EndOfTimeError:
        return
    except Exception:
        if found.defects.keys() == known:
            raise  # of the strategy itself
