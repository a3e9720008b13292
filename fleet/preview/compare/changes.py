"""Result of a comparison: each resource's operation, its cause, and the effect on a running fleet.

Plain data, safe to print: values are redacted when they are compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias, get_args

from fleet.report.words import sentence

Operation = Literal["create", "update", "replace", "delete", "same"]
OPERATIONS: Final[tuple[Operation, ...]] = get_args(Operation)

Printable: TypeAlias = Any
"""Text, number, boolean, None, a list or a map of these. Secrets read `[secret]`, unknown values `[unknown]`."""

PropertyChangeKind = Literal["added", "removed", "changed", "may change"]
"""`may change`: one side is unknown until the engine runs, or is an encrypted secret."""

Certainty = Literal[
    "provider source",
    "provider documentation",
    "Kubernetes immutable field",
    "pulumi-kubernetes provider",
    "the program",
    "the engine",
    "guess",
]
"""Evidence that a change replaces a resource. `provider source`: the schema of the Terraform provider that pulumi-gcp is
built on. `the program`: its replace_on_changes. `the engine`: its rules for replaced providers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertyChange:
    """One difference in a resource's inputs, options or outputs."""

    path: str
    """E.g. `spec.template.spec.containers[server].image`; keyed lists by key, others by index of the new side."""
    kind: PropertyChangeKind
    before: Printable
    """None if the property is added."""
    after: Printable
    """None if the property is removed."""
    secret: bool = False
    """Whether the value is hidden on either side."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaceReason:
    """Why the engine would replace a resource instead of updating it."""

    path: str
    """The property that forces it; empty for a changed type or a replaced provider."""
    certainty: Certainty
    source: str
    """Source of the rule, or basis of the guess; one phrase."""
    maybe: bool = False
    """The value is unknown on one side: it replaces only if the value changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceChange:
    """The planned operation for one resource."""

    urn: str
    """The URN after the change; for a delete, the current one."""
    old_urn: str
    """The URN before; equal to `urn` unless an alias applies, empty for a create."""
    type: str
    name: str
    parent: str
    """URN of the parent, empty for the stack."""
    custom: bool
    """False for components."""
    operation: Operation
    properties: tuple[PropertyChange, ...] = ()
    """Inputs that differ; empty for a create or a delete."""
    options: tuple[PropertyChange, ...] = ()
    """Resource options that differ, such as `protect`; alone they do not update the cloud resource."""
    reasons: tuple[ReplaceReason, ...] = ()
    """Reasons of a replace, most certain first."""
    delete_first: bool = False
    """Whether a replace deletes the old resource first."""
    retained: bool = False
    """Whether a delete or replace keeps the old resource in the cloud (retain_on_delete)."""
    protected: bool = False
    """Whether `pulumi up` refuses the delete or replace because the resource is protected in the old state."""

    @property
    def moved(self) -> bool:
        """Whether the resource continues under a new URN, by an alias."""
        return bool(self.old_urn) and self.old_urn != self.urn

    @property
    def guessed(self) -> bool:
        """Whether the replacement is only a guess."""
        return bool(self.reasons) and all(reason.certainty == "guess" for reason in self.reasons)

    @property
    def maybe(self) -> bool:
        """Whether it is replaced only if an unknown value differs."""
        return bool(self.reasons) and all(reason.maybe for reason in self.reasons)

    @property
    def silent(self) -> bool:
        """Whether there is nothing to report."""
        return self.operation == "same" and not self.options and not self.moved


@dataclass(frozen=True, slots=True, kw_only=True)
class Danger:
    """A consequence to check before the change is merged."""

    id: str
    """Stable, kebab-case: see docs/compare.md."""
    message: str
    """One sentence: the effect and its cost."""
    urns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """One number before and after."""

    id: str
    """Stable, kebab-case: see docs/compare.md."""
    label: str
    """Label, e.g. "USD an hour"."""
    unit: str
    """Unit, e.g. "USD an hour"; empty for a count."""
    before: float | None
    """None if unknown or not published for this shape."""
    after: float | None
    before_at_least: bool = False
    """Whether the number is a lower bound, because part of it has no price."""
    after_at_least: bool = False

    @property
    def difference(self) -> float | None:
        """After minus before; None if either is unknown."""
        return None if self.before is None or self.after is None else self.after - self.before

    @property
    def changed(self) -> bool:
        """Whether value or bound differs."""
        return self.before != self.after or self.before_at_least != self.after_at_least


def counterpart(one: ResourceChange, resources: Iterable[ResourceChange]) -> ResourceChange | None:
    """Of a deleted resource the one of its type that its component creates, and the reverse; None without one. An object of another name
    is another resource, not a replacement.
    """
    other = {"delete": "create", "create": "delete"}.get(one.operation)
    found = (each for each in resources if (each.operation, each.type, each.parent) == (other, one.type, one.parent))
    return next(found, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class BlastRadius:
    """Counts of the change's effect on a running fleet."""

    replicas_restarted: int = 0
    """Running replicas that restart."""
    replicas_removed: int = 0
    replicas_added: int = 0
    gpus_restarted: int = 0
    minutes_of_reduced_capacity: float = 0.0
    """Minutes with fewer replicas than before, under `assumption`."""
    assumption: str = ""
    """Assumption behind the minutes; empty without any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Result of comparing two versions of one stack."""

    against: str
    """Label of the baseline: `main (1a2b3c4d)`."""
    resources: tuple[ResourceChange, ...]
    """Every resource of either side: the new side in dependency order, then deletes."""
    outputs: tuple[PropertyChange, ...] = ()
    """Stack exports that differ."""
    effects: tuple[str, ...] = ()
    """Headline sentences of the blast radius, most important first. Never empty."""
    price_and_rate: tuple[str, ...] = ()
    """Price and throughput changes, one line each."""
    upgrade: tuple[str, ...] = ()
    """What another release of vLLM changes for the servers, one line each."""
    aftermath: tuple[str, ...] = ()
    """What else happens: Jobs that run, and another manager of the replicas."""
    dangers: tuple[Danger, ...] = ()
    deltas: tuple[Delta, ...] = ()
    """Every number known for either side, changed or not."""
    blast_radius: BlastRadius = field(default_factory=BlastRadius)
    remarks: tuple[str, ...] = ()
    """Remarks about the comparison itself."""

    @property
    def headline(self) -> tuple[str, ...]:
        """All effects as sentences: restarts and minutes, price and rate, what else happens, the assumption behind the minutes."""
        assumed = self.blast_radius.assumption
        return (
            *self.effects,
            *self.price_and_rate,
            *self.upgrade,
            *self.aftermath,
            *([sentence(assumed).rstrip(".")] if assumed else []),
        )

    @property
    def summary(self) -> Mapping[Operation, int]:
        """Number of resources by operation, including zeros."""
        counts: dict[Operation, int] = dict.fromkeys(OPERATIONS, 0)
        for resource in self.resources:
            counts[resource.operation] += 1
        return counts

    @property
    def changed(self) -> tuple[ResourceChange, ...]:
        """The resources with something to report."""
        return tuple(resource for resource in self.resources if not resource.silent)

    @property
    def pending(self) -> bool:
        """Whether `pulumi up` would change anything."""
        return bool(self.changed or self.outputs)
