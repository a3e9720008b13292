"""What an operation of the engine did: its event log as typed values.

Source of the format: pulumi/pulumi, sdk/go/common/apitype/events.go.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from fleet.preview.policy import Violation

Phase = Literal["started", "done", "failed"]

_COLOUR: Final = re.compile(r"<\{%.*?%\}>")
"""Marks that the command line turns into colours."""
_PHASES: Final[Mapping[str, Phase]] = {
    "resourcePreEvent": "started",
    "resOutputsEvent": "done",
    "resOpFailedEvent": "failed",
}
_REPLACING: Final = frozenset({"replace", "create-replacement", "delete-replaced", "discard-replaced"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Start or end of one operation on one resource."""

    urn: str
    operation: str
    """The engine's word: same, create, update, delete, replace, create-replacement, delete-replaced, read, refresh, import, ..."""
    phase: Phase
    provider: str

    @property
    def type(self) -> str:
        """Type token."""
        return type_of(self.urn)

    @property
    def name(self) -> str:
        """The resource's name in the program."""
        return name_of(self.urn)


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """A message of the engine, a provider or the program."""

    severity: str
    """info, info#err (the program's stderr), warning, error."""
    message: str
    urn: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The end of a preview or an update."""

    of_preview: bool
    changes: Mapping[str, int]
    """Number of resources by operation."""
    result: str
    """succeeded, failed or canceled."""


Event = Step | Diagnostic | Violation | Summary


class Events(tuple[Event, ...]):
    """Events of a preview or an update, in the engine's order."""

    __slots__ = ()

    @property
    def steps(self) -> tuple[Step, ...]:
        """Starts and ends of operations."""
        return tuple(one for one in self if isinstance(one, Step))

    @property
    def operations(self) -> Mapping[str, str]:
        """URN -> same, create, update, delete, replace, read, ...; a replacement's parts are one `replace`."""
        found: dict[str, str] = {}
        for step in self.steps:
            if step.operation in _REPLACING:
                found[step.urn] = "replace"
            else:
                found.setdefault(step.urn, step.operation)
        return found

    def urns(self, operation: str, phase: Phase = "done") -> tuple[str, ...]:
        """Resources on which this operation has reached that phase."""
        return tuple(step.urn for step in self.steps if step.operation == operation and step.phase == phase)

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """Messages."""
        return tuple(one for one in self if isinstance(one, Diagnostic))

    @property
    def violations(self) -> tuple[Violation, ...]:
        """Findings of policy packs."""
        return tuple(one for one in self if isinstance(one, Violation))

    @property
    def failures(self) -> Mapping[str, str]:
        """Error messages by URN; "" for those of no resource. A failed resource without a message has an empty one."""
        found = {step.urn: "" for step in self.steps if step.phase == "failed"}
        for diagnostic in self.diagnostics:
            if diagnostic.severity == "error":
                found[diagnostic.urn] = "\n".join(filter(None, (found.get(diagnostic.urn), diagnostic.message)))
        return found

    @property
    def summary(self) -> Summary | None:
        """None if the engine was ended before."""
        return next((one for one in reversed(self) if isinstance(one, Summary)), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """An operation that has ended."""

    code: int
    """Exit code; 128 plus the signal if one ended it."""
    output: str
    """What the command printed, stdout and stderr together."""
    planned: Events = field(repr=False)
    """Of the preview; empty with `--skip-preview`."""
    done: Events = field(repr=False)
    """Of the update; empty if the preview failed, and for `pulumi preview`."""

    @property
    def succeeded(self) -> bool:
        """Whether the command ended with 0."""
        return self.code == 0

    @property
    def failures(self) -> Mapping[str, str]:
        """Of the preview and the update, see `Events.failures`."""
        return {**self.planned.failures, **self.done.failures}


def split(events: Iterable[Event], *, is_previewed: bool) -> tuple[Events, Events]:
    """Those of the preview, which come first if there is one, and those of the update."""
    everything = tuple(events)
    ends = [place for place, one in enumerate(everything, 1) if isinstance(one, Summary) and one.of_preview]
    end = 0 if not is_previewed else ends[-1] if ends else len(everything)
    return Events(everything[:end]), Events(everything[end:])


def type_of(urn: str) -> str:
    """Type token of a URN, without its parents' types."""
    return urn.split("::")[2].rsplit("$", 1)[-1]


def name_of(urn: str) -> str:
    """Resource name of a URN."""
    return urn.split("::", 3)[3]


def parsed(lines: Iterable[str]) -> Iterable[Event]:
    """Events of a log's lines. Kinds that this module has no type for are left out."""
    for line in lines:
        document = json.loads(line)
        for kind, content in document.items():
            event = _event(kind, content)
            if event is not None:
                yield event


def _event(kind: str, content: Any) -> Event | None:
    if kind in _PHASES:
        return _step(content["metadata"], _PHASES[kind])
    if kind == "diagnosticEvent":
        return Diagnostic(severity=content["severity"], message=_plain(content["message"]), urn=content.get("urn", ""))
    if kind == "policyEvent":
        return Violation(
            policy=content["policyName"],
            level=content["enforcementLevel"],
            message=_plain(content["message"]),
            urn=content.get("resourceUrn", ""),
        )
    if kind == "errorEvent":
        return Diagnostic(severity="error", message=_plain(content["error"]))
    if kind == "summaryEvent":
        return Summary(
            of_preview=content["isPreview"], changes=content["resourceChanges"] or {}, result=content.get("result", "")
        )
    return None


def _step(metadata: Mapping[str, Any], phase: Phase) -> Step:
    return Step(urn=metadata["urn"], operation=metadata["op"], phase=phase, provider=metadata["provider"])


def _plain(text: str) -> str:
    return _COLOUR.sub("", text).strip()
