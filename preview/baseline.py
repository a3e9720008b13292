"""What a preview is compared with: the program of a git reference, or an exported state."""

from __future__ import annotations

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
    """A baseline in the making. Close it, or use it as a context manager: it may hold a process and a folder."""

    def wait(self) -> Baseline:
        """The baseline, once it is there. Raises BaselineError when it cannot be had."""

    def __enter__(self) -> RunningBaseline:
        """Itself."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the process, remove the folder."""


def start(against: str, root: Path, stack: str) -> RunningBaseline:
    """Begin to fetch what `against` names: an exported state if it is a file, else a git reference.

    Returns at once for a git reference: its program is recorded by a process of its own while this one goes on.
    Raises BaselineError for what is neither.
    """
    if is_state(against):
        return _Fetched(_from_state(Path(against), stack))
    from preview.baseline_git import GitBaseline

    return GitBaseline(against, root, stack)


def is_state(against: str) -> bool:
    """Whether this names a file rather than a git reference; no reference ends in `.json`."""
    return against.endswith(".json") or Path(against).is_file()


def _from_state(path: Path, stack: str) -> Baseline:
    from preview.baseline_state import read_state

    state = read_state(path)
    remarks = [
        "Compared with a state: what only the cloud can decide counts as unchanged as long as what it comes from is, and "
        "encrypted values may change."
    ]
    if state.resources and state.stack != stack:
        raise BaselineError(
            f"{path} is the state of stack {state.stack}, and this is a preview of {stack}: name that stack's export"
        )
    if not state.resources:
        remarks.append(f"{path} holds no resources: everything is new.")
    return Baseline(resources=state, label=state.label, remarks=tuple(remarks))


class _Fetched:
    """A baseline that was there at once."""

    def __init__(self, baseline: Baseline) -> None:
        self._baseline = baseline

    def wait(self) -> Baseline:
        """The baseline."""
        return self._baseline

    def __enter__(self) -> RunningBaseline:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """There is nothing to clean up."""
