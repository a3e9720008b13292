"""What one `pulumi up` or `pulumi destroy` did, from the engine's events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from facts.finding import Finding
from fleet.preview.policy import Violation
from fleet.preview.record.redact import Redactor
from lab.autopilot.verdicts import verdict
from lab.engine.events import Events, Outcome, Step
from lab.results.result import Retained

NO_PROVIDER = "pulumi:"
"""Types that the engine itself manages: stacks, providers, references."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpReport:
    """Result of one `pulumi up`. Resources by URN, without components and providers."""

    created: tuple[str, ...] = ()
    updated: tuple[str, ...] = ()
    """Changed in place, or waited for again because they were not ready after the last update."""
    replaced: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    failed: Mapping[str, str] = field(default_factory=dict)
    """The engine's error and the provider's reason; "" for an error of no resource."""
    started: Mapping[str, int] = field(default_factory=dict)
    finished: Mapping[str, int] = field(default_factory=dict)
    """Place among the engine's events at which a resource's operation started and ended well."""
    findings: tuple[Finding, ...] = ()
    """Autopilot's verdicts, in what the API server said."""

    @classmethod
    def of(cls, outcome: Outcome, redactor: Redactor) -> UpReport:
        """The report of an operation that has ended."""
        done = _done(outcome.done)
        violated = {one.urn: one.message for one in _mandatory(outcome)}
        failed = {**violated, **outcome.failures}
        if len(failed) > 1:
            failed.pop("", None)  # "update failed", because of the others
        if outcome.code and not failed:
            failed = {"": outcome.output.strip()[-600:] or f"pulumi ended with exit code {outcome.code}"}
        return cls(
            created=done["create"],
            updated=done["update"],
            replaced=done["replace"],
            deleted=done["delete"],
            unchanged=done["same"],
            failed={urn: redactor.text(text) for urn, text in failed.items()},
            started=_places(outcome.done, "started"),
            finished=_places(outcome.done, "done"),
            findings=tuple(dict.fromkeys(_findings(outcome))),
        )

    @property
    def changed(self) -> bool:
        """Whether anything was done."""
        return bool(self.created or self.updated or self.replaced or self.deleted or self.failed)


@dataclass(frozen=True, slots=True, kw_only=True)
class DestroyReport:
    """Result of one `pulumi destroy`."""

    deleted: tuple[str, ...] = ()
    failed: Mapping[str, str] = field(default_factory=dict)
    retained: tuple[Retained, ...] = ()
    """What remains because the program retains it."""
    unexpected: tuple[str, ...] = ()
    """What remains unexpectedly: `Kind/name`."""


def _done(events: Events) -> dict[str, tuple[str, ...]]:
    """URNs by operation, of provider resources whose operation has ended well."""
    ended = {step.urn for step in events.steps if step.phase == "done" and _is_work(step)}
    failed = {step.urn for step in events.steps if step.phase == "failed"}
    found: dict[str, list[str]] = {"create": [], "update": [], "replace": [], "delete": [], "same": []}
    for urn, operation in events.operations.items():
        if urn in ended - failed and operation in found:
            found[operation].append(urn)
    return {operation: tuple(urns) for operation, urns in found.items()}


def _places(events: Events, phase: str) -> dict[str, int]:
    return {step.urn: place for place, step in enumerate(events.steps) if step.phase == phase and _is_work(step)}


def _findings(outcome: Outcome) -> Iterator[Finding]:
    for diagnostic in (*outcome.planned.diagnostics, *outcome.done.diagnostics):
        for line in diagnostic.message.splitlines():
            if (found := verdict(line)) is not None:
                yield found.finding(diagnostic.urn)


def _mandatory(outcome: Outcome) -> Iterator[Violation]:
    return (violation for violation in _violations(outcome) if violation.level == "mandatory")


def _violations(outcome: Outcome) -> Iterator[Violation]:
    yield from outcome.planned.violations
    yield from outcome.done.violations


def _is_work(step: Step) -> bool:
    return bool(step.provider) and not step.type.startswith(NO_PROVIDER)
