"""Recording of one offline run: resources, outputs and messages."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from facts.redact import plaintexts_in
from facts.user_error import UserError

Mode = Literal["preview", "known"]
"""`preview`: what an engine could not know is unknown. `known`: plausible outputs fill it in, so manifests render."""

STACK_TYPE = "pulumi:pulumi:Stack"
STACK_REFERENCE_TYPE = "pulumi:pulumi:StackReference"
ORGANIZATION = "organization"
"""As the engine calls it where there is no Pulumi Cloud."""


class ProgramError(UserError):
    """The program could not be recorded. `message` is for a person: one line, or a `Finding` in its own. `cause`: the exception itself."""

    def __init__(self, message: str, cause: BaseException | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.cause = cause

    def for_user(self) -> str:
        """The message; a refused setting keeps its lines."""
        gap = "\n\n" if "\n" in self.message else " "
        return f"fleet: the program could not be recorded:{gap}{self.message}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """Something the program, the SDK or the recorder has to say about the run."""

    severity: Literal["info", "warning", "error"]
    message: str
    urn: str = ""
    """The resource it is about, or empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StackOutputs:
    """The outputs of another stack, and where they were taken from."""

    values: Mapping[str, Any] | None
    """Plain values, `Secret` and `UNKNOWN`; None when nothing is known of that stack."""
    source: str
    """One phrase for the reader, e.g. "recorded from Pulumi.base.yaml"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alias:
    """A former identity of a resource; a part that is None is as it is now."""

    urn: str | None = None
    name: str | None = None
    type: str | None = None
    stack: str | None = None
    project: str | None = None
    parent_urn: str | None = None
    no_parent: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedResource:
    """One registration, as the engine would have received it."""

    urn: str
    type: str
    name: str
    parent: str = ""
    """URN of the parent; empty for the stack itself."""
    provider: str = ""
    """`<urn>::<id>` of an explicit provider; empty for components and for a default provider."""
    dependencies: tuple[str, ...] = ()
    property_dependencies: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Only properties that depend on something are listed."""
    custom: bool = True
    """False for components and the stack."""
    protect: bool = False
    retain_on_delete: bool = False
    custom_timeouts: Mapping[str, str] = field(default_factory=dict)
    aliases: tuple[Alias, ...] = ()
    ignore_changes: tuple[str, ...] = ()
    replace_on_changes: tuple[str, ...] = ()
    additional_secret_outputs: tuple[str, ...] = ()
    deleted_with: str = ""
    delete_before_replace: bool | None = None
    inputs: Mapping[str, Any] = field(default_factory=dict)
    outputs: Mapping[str, Any] = field(default_factory=dict)
    """Known mode: inputs and synthesised outputs. Preview mode: the inputs, or nothing where the engine would not ask the provider,
    because its configuration is unknown. Components: what they announced."""
    source_position: str = ""
    """`file:line` of the program that made the resource, relative to the project's root; empty if none did."""

    @property
    def is_kubernetes(self) -> bool:
        """Whether the Kubernetes provider makes it: an object or a Helm release."""
        return self.custom and self.type.startswith("kubernetes:")


@dataclass(frozen=True, kw_only=True)
class Recording:
    """The program of one stack, recorded."""

    project: str
    stack: str
    mode: Mode
    resources: tuple[RecordedResource, ...]
    """Every resource after all it needs; ties are sorted by URN, so the order never varies."""
    outputs: Mapping[str, Any]
    """The stack's exports."""
    diagnostics: tuple[Diagnostic, ...]
    secrets: frozenset[str] = field(default=frozenset(), repr=False)
    """Plaintexts of secret config values."""

    @cached_property
    def by_urn(self) -> Mapping[str, RecordedResource]:
        """The resources by URN."""
        return {resource.urn: resource for resource in self.resources}

    @cached_property
    def plaintexts(self) -> frozenset[str]:
        """What whoever prints has to hide: secret config values, and what stands readable where the program wrote it."""
        # Here because the process that records another version's program must not import this version's settings.
        return self.secrets | plaintexts_in(resource.inputs for resource in self.resources)


def urn_of(*, stack: str, project: str, parent: str, type_: str, name: str) -> str:
    """The URN the engine would give: the parent's qualified type is a prefix, unless the parent is the stack."""
    parent_type = parent.split("::")[2] if parent else ""
    qualified = f"{parent_type}${type_}" if parent_type and parent_type != STACK_TYPE else type_
    return f"urn:pulumi:{stack}::{project}::{qualified}::{name}"


def needs_of(resource: RecordedResource) -> set[str]:
    """URNs that must exist before this resource."""
    needs = {resource.parent, resource.deleted_with, resource.provider.rpartition("::")[0], *resource.dependencies}
    for urns in resource.property_dependencies.values():
        needs.update(urns)
    return needs - {""}


def in_dependency_order(resources: Iterable[RecordedResource]) -> tuple[RecordedResource, ...]:
    """Every resource after all it needs, ties sorted by URN."""
    by_urn = {resource.urn: resource for resource in resources}
    waiting: dict[str, set[str]] = {urn: needs_of(one) & by_urn.keys() - {urn} for urn, one in by_urn.items()}
    needed_by: dict[str, list[str]] = {urn: [] for urn in by_urn}
    for urn, needs in waiting.items():
        for need in needs:
            needed_by[need].append(urn)
    ready = [urn for urn, needs in waiting.items() if not needs]
    heapq.heapify(ready)
    ordered: list[RecordedResource] = []
    while ready:
        urn = heapq.heappop(ready)
        ordered.append(by_urn[urn])
        for dependent in needed_by[urn]:
            waiting[dependent].discard(urn)
            if not waiting[dependent]:
                heapq.heappush(ready, dependent)
    if len(ordered) < len(by_urn):
        circle = ", ".join(sorted(urn for urn, needs in waiting.items() if needs))
        raise ProgramError(f"these resources wait for each other, so none can be created: {circle}")
    return tuple(ordered)
