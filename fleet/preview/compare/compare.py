"""Compares two versions of one stack: the engine's operation per resource, and the effect on a running fleet.

The order is the engine's: resources are matched by URN and alias, inputs are compared, changes that a provider cannot make
in place become replacements, and dependents of replaced resources are compared again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from fleet.preview.compare.blast_radius import measure
from fleet.preview.compare.changes import Changes, Danger, Operation, PropertyChange, ReplaceReason, ResourceChange
from fleet.preview.compare.deltas import deltas
from fleet.preview.compare.identity import match
from fleet.preview.compare.replacement import decisive, deletes_first, reasons
from fleet.preview.compare.structural_diff import Difference, Path, differences, path_text, touches, unknown_paths
from fleet.preview.record.recording import STACK_REFERENCE_TYPE, RecordedResource, Recording
from fleet.preview.record.redact import KUBERNETES_SECRET, Redactor
from fleet.preview.record.values import Secret, Value

_SECRET_PARTS: Final = ("data", "stringData")
_OPTIONS: Final = ("protect", "retain_on_delete", "deleted_with")
"""Reported resource options, by attribute of RecordedResource."""


def compare(old: Recording, new: Recording, *, against: str = "", remarks: Iterable[str] = ()) -> Changes:
    """What `pulumi up` of `new` would do to a stack that is as `old` says. Both are recorded in preview mode."""
    comparison = _Comparison(old, new)
    resources = comparison.run()
    changes = with_blast_radius(
        Changes(
            against=against,
            resources=resources,
            outputs=comparison.outputs(),
            deltas=deltas(comparison.old_resources, old.outputs, comparison.new_resources, new.outputs),
            dangers=tuple(
                Danger(id="alias-conflict", message=f"{text}; the engine refuses this.")
                for text in comparison.matches.conflicts
            ),
            remarks=tuple(remarks),
        ),
        comparison.old_resources,
        comparison.new_resources,
    )
    # The old version may have let a secret pass into a name or value used in a sentence.
    return comparison.redactor.whole(changes)


def with_blast_radius(changes: Changes, old: Sequence[RecordedResource], new: Sequence[RecordedResource]) -> Changes:
    """The changes with their effect on a running fleet."""
    found = measure(changes, old, new)
    return replace(
        changes,
        blast_radius=found.radius,
        effects=found.effects,
        price_and_rate=found.price,
        dangers=(*changes.dangers, *found.dangers),
    )


class _Comparison:
    """A comparison in progress; a resource is decided before its dependents."""

    def __init__(self, old: Recording, new: Recording) -> None:
        self._old, self._new = old, new
        self.old_resources = tuple(resource for resource in old.resources if resource.type != STACK_REFERENCE_TYPE)
        self.new_resources = tuple(resource for resource in new.resources if resource.type != STACK_REFERENCE_TYPE)
        self._old_by_urn = {resource.urn: resource for resource in self.old_resources}
        self.matches = match(self.new_resources, self._old_by_urn, stack=new.stack, project=new.project)
        self._new_by_old = {old_urn: urn for urn, old_urn in self.matches.old_by_new.items()}
        self._fates: dict[str, ResourceChange] = {}
        self.redactor = Redactor(new.plaintexts | old.plaintexts)

    def run(self) -> tuple[ResourceChange, ...]:
        """The operation for every resource: new ones in order, then deletes, dependents first."""
        for resource in self.new_resources:
            self._fates[resource.urn] = self._fate(resource)
        kept = set(self.matches.old_by_new.values())
        gone = (self._deleted(resource) for resource in reversed(self.old_resources) if resource.urn not in kept)
        return (*self._fates.values(), *gone)

    def outputs(self) -> tuple[PropertyChange, ...]:
        """Exports that differ."""
        found = differences(dict(self._old.outputs), dict(self._new.outputs))
        return tuple(self._printed(one, "") for one in found)

    def _fate(self, one: RecordedResource) -> ResourceChange:
        old = self._old_by_urn.get(self.matches.old_by_new.get(one.urn, ""))
        if old is None:
            return self._change(one, "", "create")
        options = tuple(self._options(old, one))
        if not one.custom:
            return self._change(one, old.urn, "same", options=options)
        found = self._differences(old, one)
        why = list(reasons(one.type, decisive(one.type, old.inputs, one.inputs, found), one.replace_on_changes))
        for provider_reason in self._provider(old, one):
            why.append(provider_reason)
        operation: Operation = "replace" if why else "update" if found else "same"
        return self._change(
            one,
            old.urn,
            operation,
            properties=tuple(self._printed(difference, one.type) for difference in found),
            options=options,
            reasons=tuple(sorted(why, key=lambda reason: (reason.maybe, reason.certainty == "guess"))),
            delete_first=bool(why) and deletes_first(one.type, old.inputs, one.inputs, one.delete_before_replace),
            retained=bool(why) and old.retain_on_delete,
            protected=bool(why) and old.protect,
        )

    def _change(self, one: RecordedResource, old_urn: str, operation: Operation, **fields: Any) -> ResourceChange:
        return ResourceChange(
            urn=one.urn,
            old_urn=old_urn,
            type=one.type,
            name=one.name,
            parent=one.parent,
            custom=one.custom,
            operation=operation,
            **fields,
        )

    def _deleted(self, one: RecordedResource) -> ResourceChange:
        return self._change(one, one.urn, "delete", retained=one.retain_on_delete, protected=one.protect)

    def _differences(self, old: RecordedResource, new: RecordedResource) -> list[Difference]:
        """Differences in the inputs; values from other resources change only if those do."""
        before, after = old.inputs, new.inputs
        found: list[Difference] = []
        for key in sorted(before.keys() | after.keys()):
            mine = {key: before.get(key)}, {key: after.get(key)}
            unsettled = self._unsettled(key, old, new)
            for difference in differences(*mine):
                if difference.kind == "may change" and unsettled is False:
                    continue  # its source is unchanged
                found.append(difference)
            if unsettled:
                found += _may_change(before.get(key), after.get(key), (key,), found)
        ignored = new.ignore_changes
        return [one for one in found if not any(touches(one, pattern) for pattern in ignored)]

    def _unsettled(self, key: str, old: RecordedResource, new: RecordedResource) -> bool | None:
        """Whether the property's source resources change; None without a registered source."""
        now = {urn for urn in new.property_dependencies.get(key, ()) if urn in self._fates}
        before = {self._new_by_old.get(urn, urn) for urn in old.property_dependencies.get(key, ())}
        before = {urn for urn in before if urn in self._fates or urn in self._old_by_urn}
        if not now and not before:
            return None
        ending = ("create", "replace", "delete")
        gone = any((fate := self._fates.get(urn)) is None or fate.operation in ending for urn in now | before)
        return gone or now != before

    def _provider(self, old: RecordedResource, new: RecordedResource) -> Iterator[ReplaceReason]:
        """Replaces resources of a replaced provider, which may reach another cluster."""
        before, after = (one.provider.rpartition("::")[0] for one in (old, new))
        if after and (fate := self._fates.get(after)) is not None and fate.operation == "replace":
            yield ReplaceReason(
                path="",
                certainty="the engine",
                source=f"its provider {fate.name} is replaced",
                maybe=fate.maybe,
            )
        elif self._new_by_old.get(before, before) != after:
            yield ReplaceReason(
                path="",
                certainty="the engine",
                source="it has a different provider, which may reach another cluster",
                maybe=True,
            )

    def _options(self, old: RecordedResource, new: RecordedResource) -> Iterator[PropertyChange]:
        before = {name: getattr(old, name) for name in _OPTIONS}
        after = {name: getattr(new, name) for name in _OPTIONS}
        before["deleted_with"] = self._new_by_old.get(old.deleted_with, old.deleted_with)
        names = {"retain_on_delete": "retainOnDelete", "deleted_with": "deletedWith"}
        for name in _OPTIONS:
            if before[name] != after[name]:
                yield PropertyChange(path=names.get(name, name), kind="changed", before=before[name], after=after[name])

    def _printed(self, one: Difference, type_: str) -> PropertyChange:
        redacted = self.redactor.value
        # A Secret's inputs are its contents.
        bare = type_ == KUBERNETES_SECRET and bool(one.path) and one.path[0] in _SECRET_PARTS
        before, after = (
            redacted(Secret(value)) if bare and value is not None else redacted(value)
            for value in (one.before, one.after)
        )
        return PropertyChange(
            path=path_text(one.path),
            kind=one.kind,
            before=before,
            after=after,
            secret=one.hidden or bare,
        )


def _may_change(before: Value, after: Value, path: Path, found: Sequence[Difference]) -> Iterator[Difference]:
    """Values unknown on both sides whose sources change."""
    told = {one.path for one in found}
    was = dict(unknown_paths(before, path))
    for where, value in unknown_paths(after, path):
        if where not in told and where in was:
            yield Difference(path=where, kind="may change", before=was[where], after=value)
