"""What a comparison found: every resource's fate, what forces it, and what it means for a running fleet.

Plain data, ready to print: values are redacted when they are compared, so no secret ever gets this far.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias, get_args

from fleet.report.words import sentence

Operation = Literal["create", "update", "replace", "delete", "same"]
OPERATIONS: Final[tuple[Operation, ...]] = get_args(Operation)

Printable: TypeAlias = Any
"""Text, number, boolean, None, a list or a map of these. Secrets read `[secret]`, unknown values `[unknown]`."""

PropertyChangeKind = Literal["added", "removed", "changed", "may change"]
"""`may change`: one side is unknown until the engine runs, or is a secret that cannot be opened here."""

Certainty = Literal[
    "provider source",
    "provider documentation",
    "Kubernetes immutable field",
    "pulumi-kubernetes provider",
    "the program",
    "the engine",
    "guess",
]
"""Who says that a change replaces a resource. `provider source`: the schema of the Terraform provider that pulumi-gcp is
built on. `the program`: its own replace_on_changes. `the engine`: its rules on replaced providers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertyChange:
    """One place at which a resource's inputs, options or outputs differ."""

    path: str
    """E.g. `spec.template.spec.containers[server].image`; keyed lists by key, others by index of the new side."""
    kind: PropertyChangeKind
    before: Printable
    """None where the property is added."""
    after: Printable
    """None where the property is removed."""
    secret: bool = False
    """Whether the value is hidden on either side."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaceReason:
    """Why the engine would make a new resource instead of changing the one there is."""

    path: str
    """The property that forces it; empty where none does (a changed type, a replaced provider)."""
    certainty: Certainty
    source: str
    """Where that is written, or what the guess rests on; one phrase."""
    maybe: bool = False
    """The value is unknown on one side: it replaces only if it really changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceChange:
    """What would become of one resource."""

    urn: str
    """The URN after the change; for a delete the one it has now."""
    old_urn: str
    """The URN before; the same as `urn` unless an alias led there, empty for a create."""
    type: str
    name: str
    parent: str
    """URN of the parent, empty for the stack."""
    custom: bool
    """False for components, which cost and restart nothing."""
    operation: Operation
    properties: tuple[PropertyChange, ...] = ()
    """Inputs that differ. Of a create or a delete there are none: all of them would."""
    options: tuple[PropertyChange, ...] = ()
    """Resource options that differ, such as `protect`; they alone make no update of the cloud resource."""
    reasons: tuple[ReplaceReason, ...] = ()
    """Only of a replace, surest first."""
    delete_first: bool = False
    """A replace that removes the old resource before it makes the new one."""
    retained: bool = False
    """A delete or replace that only forgets the old resource: retain_on_delete keeps it in the cloud."""
    protected: bool = False
    """A delete or replace that `pulumi up` refuses, because the resource is protected in the state it starts from."""

    @property
    def moved(self) -> bool:
        """Whether the resource keeps its life under a new URN, by an alias."""
        return bool(self.old_urn) and self.old_urn != self.urn

    @property
    def guessed(self) -> bool:
        """Whether nothing but a guess says that it is replaced."""
        return bool(self.reasons) and all(one.certainty == "guess" for one in self.reasons)

    @property
    def maybe(self) -> bool:
        """Whether it is replaced only if a value that is unknown here turns out to differ."""
        return bool(self.reasons) and all(one.maybe for one in self.reasons)

    @property
    def silent(self) -> bool:
        """Whether there is nothing to tell a reader."""
        return self.operation == "same" and not self.options and not self.moved


@dataclass(frozen=True, slots=True, kw_only=True)
class Danger:
    """Something to stop for before the change is merged."""

    id: str
    """Stable, kebab-case: see docs/compare.md."""
    message: str
    """One sentence: what happens, and what it costs."""
    urns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """One number before and after."""

    id: str
    """Stable, kebab-case: see docs/compare.md."""
    label: str
    """What a reader calls it, e.g. "dollars an hour"."""
    unit: str
    """E.g. "$/h"; empty for a count."""
    before: float | None
    """None where it is not known or nothing was published for that shape."""
    after: float | None
    before_at_least: bool = False
    """The number is a lower bound, because a part of it has no price."""
    after_at_least: bool = False

    @property
    def difference(self) -> float | None:
        """After minus before, where both are known."""
        return None if self.before is None or self.after is None else self.after - self.before

    @property
    def changed(self) -> bool:
        """Whether the two sides differ, also in what is known of them."""
        return self.before != self.after or self.before_at_least != self.after_at_least


@dataclass(frozen=True, slots=True, kw_only=True)
class BlastRadius:
    """What the change does to what is running, counted."""

    replicas_restarted: int = 0
    """Replicas running now that stop and start again."""
    replicas_removed: int = 0
    replicas_added: int = 0
    gpus_restarted: int = 0
    at_once: bool = False
    """Whether the restarted replicas go down together rather than a few at a time."""
    maybe: bool = False
    """Whether they restart only if a value that is unknown here turns out to differ."""
    minutes_of_reduced_capacity: float = 0.0
    """Minutes during which fewer replicas serve than before; by the assumption below."""
    assumption: str = ""
    """What the minutes rest on, in words; empty where there are none."""
    volumes_replaced: int = 0
    """Weights volumes and disks replaced or deleted."""
    clusters_replaced: int = 0
    """Clusters replaced or deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Everything a comparison of two states of one stack found."""

    against: str
    """What it was compared with, in words: `main (1a2b3c4d)` or `state of 2026-11-21, state.json`."""
    resources: tuple[ResourceChange, ...]
    """Every resource of either side: those of the new side in dependency order, then the deletes."""
    outputs: tuple[PropertyChange, ...] = ()
    """Stack exports that differ."""
    effects: tuple[str, ...] = ()
    """The blast radius in words, most weighty first; one line each. Never empty."""
    price_and_rate: tuple[str, ...] = ()
    """Dollars and tokens before and after, where they differ; one line each."""
    dangers: tuple[Danger, ...] = ()
    deltas: tuple[Delta, ...] = ()
    """Every number, changed or not; empty where neither side's could be told."""
    blast_radius: BlastRadius = field(default_factory=BlastRadius)
    remarks: tuple[str, ...] = ()
    """What the reader should know about the comparison itself."""

    @property
    def headline(self) -> tuple[str, ...]:
        """Everything that the change does, in words, with what the minutes rest on."""
        assumed = self.blast_radius.assumption
        return (*self.effects, *([sentence(assumed).rstrip(".")] if assumed else []), *self.price_and_rate)

    @property
    def summary(self) -> Mapping[Operation, int]:
        """Count of resources by operation, zeros included."""
        counts: dict[Operation, int] = dict.fromkeys(OPERATIONS, 0)
        for one in self.resources:
            counts[one.operation] += 1
        return counts

    @property
    def changed(self) -> tuple[ResourceChange, ...]:
        """The resources there is something to tell of."""
        return tuple(one for one in self.resources if not one.silent)

    @property
    def pending(self) -> bool:
        """Whether `pulumi up` would have anything to do or to write down."""
        return bool(self.changed or self.outputs)
