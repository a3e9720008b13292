"""What one `pulumi up` or `pulumi destroy` did: the engine's events, and what the providers saw."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from facts.finding import Finding
from fleet.preview.policy import Violation
from fleet.preview.record.redact import Redactor
from lab.engine.events import Events, Outcome, Step
from lab.providers.observed import Observed
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
    """The engine's error and the cluster's reason; "" for an error of no resource."""
    began_seconds: float = 0.0
    """First call for a Kubernetes object, simulated; the end, if there was none."""
    started_seconds: Mapping[str, float] = field(default_factory=dict)
    finished_seconds: Mapping[str, float] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()

    @classmethod
    def of(cls, outcome: Outcome, observed: Observed, redactor: Redactor) -> UpReport:
        """The report of the operation that `observed` has seen last."""
        done = _done(outcome.done)
        violated = {one.urn: one.message for one in _mandatory(outcome)}
        failed = {**violated, **outcome.failures, **observed.failed}
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
            began_seconds=observed.began_seconds,
            started_seconds=dict(observed.started_seconds),
            finished_seconds=dict(observed.finished_seconds),
            findings=tuple(observed.findings),
        )

    @property
    def duration_seconds(self) -> Mapping[str, float]:
        """Simulated seconds per resource, waiting included."""
        return {urn: end - self.started_seconds[urn] for urn, end in self.finished_seconds.items()}

    @property
    def changed(self) -> bool:
        """Whether anything was done."""
        return bool(self.created or self.updated or self.replaced or self.deleted or self.failed)


@dataclass(frozen=True, slots=True, kw_only=True)
class DestroyReport:
    """Result of one `pulumi destroy`."""

    began_seconds: float = 0.0
    """As of an `UpReport`."""
    deleted: tuple[str, ...] = ()
    failed: Mapping[str, str] = field(default_factory=dict)
    retained: tuple[Retained, ...] = ()
    """What remains because the program retains it."""
    unexpected: tuple[str, ...] = ()
    """What remains unexpectedly: `Kind/name`."""
    findings: tuple[Finding, ...] = ()


def _done(events: Events) -> dict[str, tuple[str, ...]]:
    """URNs by operation, of provider resources whose operation has ended well."""
    ended = {step.urn for step in events.steps if step.phase == "done" and _is_work(step)}
    failed = {step.urn for step in events.steps if step.phase == "failed"}
    found: dict[str, list[str]] = {"create": [], "update": [], "replace": [], "delete": [], "same": []}
    for urn, operation in events.operations.items():
        if urn in ended - failed and operation in found:
            found[operation].append(urn)
    return {operation: tuple(urns) for operation, urns in found.items()}


def _mandatory(outcome: Outcome) -> Iterator[Violation]:
    return (violation for violation in _violations(outcome) if violation.level == "mandatory")


def _violations(outcome: Outcome) -> Iterator[Violation]:
    yield from outcome.planned.violations
    yield from outcome.done.violations


def _is_work(step: Step) -> bool:
    return bool(step.provider) and not step.type.startswith(NO_PROVIDER)
