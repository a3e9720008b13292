"""What a preview is compared with: the program of a git reference, or an exported state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from types import TracebackType

    from preview.baseline_state import StateBaseline
    from preview.recording import Recording


class BaselineError(Exception):
    """There is nothing to compare with. The message is for a person."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """The old side of a comparison."""

    resources: Recording | StateBaseline
    label: str
    """What it is, in words: `main (1a2b3c4d)`."""
    remarks: tuple[str, ...] = ()
    """What the reader should know about it; whole sentences."""


class RunningBaseline(Protocol):
    """Baselines in the making. Close it, or use it as a context manager: it may hold a process and a folder."""

    def wait(self, stack: str) -> Baseline:
        """The baseline of one stack, once it is there. Raises BaselineError when it cannot be had."""

    def __enter__(self) -> RunningBaseline:
        """Itself."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the process, remove the folder."""


def start(against: str, root: Path, stacks: Sequence[str]) -> RunningBaseline:
    """Begin to fetch what `against` names for these stacks: an exported state if it is a file, else a git reference.

    Returns at once for a git reference: its program is recorded by a process of its own while this one goes on.
    Raises BaselineError for what is neither.
    """
    if is_state(against):
        return _State(Path(against), stacks)
    from preview.baseline_git import GitBaseline

    return GitBaseline(against, root, stacks)


def is_state(against: str) -> bool:
    """Whether this names a file rather than a git reference; `.json` is taken for a file that is missing."""
    return against.endswith(".json") or Path(against).is_file()


class _State:
    """The state of one stack, read at once."""

    def __init__(self, path: Path, stacks: Sequence[str]) -> None:
        from preview.baseline_state import read_state

        if len(stacks) > 1:
            raise BaselineError(f"{path} holds the state of one stack, and this is a preview of {len(stacks)}")
        self._path, self._state = path, read_state(path)

    def wait(self, stack: str) -> Baseline:
        """The state, if it is this stack's."""
        state = self._state
        if state.resources and state.stack != stack:
            raise BaselineError(
                f"{self._path} is the state of stack {state.stack}, and this is a preview of {stack}: pass "
                f"--stack {state.stack}, or the export of {stack}"
            )
        remarks = ["What is live and what only the cloud decides counts as unchanged as long as what it comes from is."]
        if not state.resources:
            remarks = [f"{self._path} holds no resources: everything is new."]
        return Baseline(resources=state, label=state.label, remarks=tuple(remarks))

    def __enter__(self) -> RunningBaseline:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """There is nothing to clean up."""
