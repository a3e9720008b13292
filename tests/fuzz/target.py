"""What a fuzzer is: inputs, and a judge of one input. What every judge demands of a text, and of a command."""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from facts.finding import Finding
from settings.problems import SettingsError
from tests.support.canaries import shown

LONGEST_PROBLEM = 4_000
"""Characters of one message. Assumed: twice the longest list of allowed values, that of the machine types."""
LONGEST_OUTPUT = 100_000
"""Characters of all that a command prints, or of all messages about one input. Assumed: what a terminal keeps."""
HERE = Path(__file__).parent
_UNNAMED = re.compile(r"'[^']*'|\"[^\"]*\"|\[[^]]*\]|\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One fuzzer."""

    inputs: st.SearchStrategy[Any]
    """Draws what can be written as JSON, so that an input is a file."""
    judge: Callable[[Any], bool]
    """Whether the program accepted the input. Any exception is a defect."""


class BrokenError(AssertionError):
    """A promise is broken. `what` names it without the input's own words: one defect has one name."""

    def __init__(self, what: str, evidence: object = "") -> None:
        super().__init__(f"{what}: {str(evidence)[:2_000]}")
        self.what = what


def require(kept: object, what: str, evidence: object = "") -> None:
    """Raises BrokenError unless `kept`."""
    if not kept:
        raise BrokenError(what, evidence)


def require_text(text: str, place: str, longest: int = LONGEST_OUTPUT) -> None:
    """No secret, no value in full, no control character that a terminal obeys."""
    require(not shown(text), f"a secret is shown by {place}", text)
    require(len(text) <= longest, f"{place} is longer than {longest:,} characters", f"{len(text):,}: {text[:300]}")


def require_problems(problems: tuple[Finding, ...]) -> None:
    """Each names a key, what is allowed, why, and what to write instead."""
    for one in problems:
        for part in ("subject", "allowed", "why", "write"):
            require(getattr(one, part), f"{one.id} has no {part}", one)
        require_text(one.text(), "a problem", LONGEST_PROBLEM)
    require_text(SettingsError("x", problems).text(), "the text of all problems")


@dataclass(frozen=True, slots=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str


def fleet(*arguments: str, place: str = "") -> Done:
    """Runs the command in this process and judges how it ends; `place` names it in a defect."""
    place = place or " ".join(arguments[:2])
    with _streams(["fleet", *arguments]) as (out, err):
        code, error = _run()
    done = Done(code, out.getvalue(), err.getvalue())
    text = f"{done.out}\n{done.err}"
    if "This is a bug in fleet" in text and error is not None:
        raise error
    require("Traceback (most" not in text, f"a traceback from {place}", text)
    require(done.code in (0, 1, 2), f"exit code {done.code} from {place}", text)
    require(done.code != 2 or done.err.strip(), f"exit code 2 without a word from {place}", text)
    require_text(text, place)
    return done


@contextlib.contextmanager
def _streams(arguments: list[str]) -> Iterator[tuple[io.StringIO, io.StringIO]]:
    before = sys.argv, sys.stdout, sys.stderr
    sys.argv, sys.stdout, sys.stderr = arguments, io.StringIO(), io.StringIO()
    try:
        yield sys.stdout, sys.stderr
    finally:
        sys.argv, sys.stdout, sys.stderr = before


def _run() -> tuple[int, Exception | None]:
    """The exit code, and the error that `fleet` put into words, for its place in the code."""
    from fleet.cli import main as entry

    os.environ["SOURCE_DATE_EPOCH"] = "1787184000"  # prices age, and a finding says so
    worded, told = entry.error_text, []

    def remembered(error: Exception) -> str:
        told.append(error)
        return worded(error)

    entry.error_text = remembered
    try:
        return entry.main(), (told or [None])[-1]
    finally:
        entry.error_text = worded


@contextlib.contextmanager
def working_folder(folder: Path) -> Iterator[None]:
    """For commands whose defaults are beneath the current folder."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def name_of(error: BaseException) -> str:
    """One name for one defect: the kind of error and the line of the project that raised it, or the broken promise."""
    if isinstance(error, BrokenError):
        return error.what
    frame, place = error.__traceback__, "?"
    root = HERE.parents[1]
    while frame is not None:
        file = Path(frame.tb_frame.f_code.co_filename)
        if file.is_relative_to(root) and not file.is_relative_to(HERE) and root / ".venv" not in file.parents:
            place = f"{file.relative_to(root)}:{frame.tb_lineno}"
        frame = frame.tb_next
    words = _UNNAMED.sub("_", str(error)[:120]) if place == "?" else ""
    return f"{type(error).__name__} at {place}{words and ': '}{words}"
