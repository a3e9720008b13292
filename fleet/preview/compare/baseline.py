"""What a preview is compared with, once it is there: the recording of a git reference, or an exported state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from types import TracebackType

    from fleet.preview.record.recording import RecordedResource, Recording


class BaselineError(Exception):
    """There is nothing to compare with. The message is for a person."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateBaseline:
    """A stack as its state has it."""

    project: str
    stack: str
    resources: tuple[RecordedResource, ...]
    outputs: Mapping[str, Any]
    label: str
    """Where it comes from, in words."""


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
