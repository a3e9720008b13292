"""Baselines of a comparison: the recording of a git reference, or an exported state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from facts.user_error import UserError
from fleet.preview.record.values import reveal

if TYPE_CHECKING:
    from types import TracebackType

    from fleet.preview.judges import Tree
    from fleet.preview.record.recording import RecordedResource, Recording


class BaselineError(UserError):
    """The baseline is not available."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateBaseline:
    """A stack as recorded in an exported state."""

    project: str
    stack: str
    resources: tuple[RecordedResource, ...]
    outputs: Mapping[str, Any]
    label: str
    """Label of the source."""
    ids: Mapping[str, str] = field(default_factory=dict)
    """Cloud id of every resource that has one, by URN."""

    @property
    def project_number(self) -> str | None:
        """Of the Google project, from the stack's output `platform`: a data source told it, which nothing else stores."""
        platform = reveal(self.outputs.get("platform"))
        number = platform.get("projectNumber") if isinstance(platform, Mapping) else None
        return number if isinstance(number, str) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """The old side of a comparison."""

    resources: Recording | StateBaseline
    label: str
    """Label of the baseline: `main (1a2b3c4d)`."""
    remarks: tuple[str, ...] = ()
    """Remarks for the reader, as sentences."""


class RunningBaseline(Protocol):
    """Baselines being loaded. Close it, or use it as a context manager: it may own a process and a folder."""

    @property
    def tree(self) -> Tree | None:
        """Its files, while it is open; None for a state."""

    def wait(self, stack: str) -> Baseline:
        """Waits for the baseline of one stack. Raises BaselineError if it is not available."""

    def __enter__(self) -> RunningBaseline:
        """Itself."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the process, remove the folder."""
