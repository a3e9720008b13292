"""Findings about PersistentVolumeClaims that are not bound within Pulumi's fixed timeout."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from fleet.rehearse.apply.catalogue import Catalogue, Entry
from fleet.rehearse.results import Finding

CLAIM_MINUTES: Final = 5
"""Source: pulumi-kubernetes, provider/pkg/await/awaiters.go (fixed there), and issue 4179 of 2026: 300 s."""


def findings(catalogue: Catalogue) -> Iterator[Finding]:
    """Claims with a missing or late class or source, or an ineffective timeout."""
    for claim in catalogue.of_kind("PersistentVolumeClaim"):
        if claim.options.skip_await or claim.of_chart:
            continue
        storage_class = _class_of(claim, catalogue)
        yield from _class(claim, storage_class, catalogue)
        if not (storage_class and _mode(storage_class) == "WaitForFirstConsumer"):
            yield from _source(claim, catalogue)
            yield from _timeout(claim)


def _class(claim: Entry, storage_class: Entry | None, catalogue: Catalogue) -> Iterator[Finding]:
    name = _spec(claim).get("storageClassName")
    if storage_class is None:
        if name:
            yield Finding(
                severity="warning",
                subject=claim.resource.urn,
                message=f"{claim.title} has the class {name}, which the program does not create",
                fix=f"create StorageClass {name}, or make sure that it exists before",
            )
        return
    if catalogue.comes_after(claim, storage_class):
        return
    waiting = _mode(storage_class) == "WaitForFirstConsumer"
    why = (
        "if the class does not exist when the provider checks, it waits for the claim to be Bound, and no pod binds it"
        if waiting
        else "the claim stays Pending until the class exists"
    )
    yield Finding(
        severity="error" if waiting else "warning",
        subject=claim.resource.urn,
        message=f"{claim.title} has the class {storage_class.name} but does not depend on it: {why}",
        fix=f"add {storage_class.title} to depends_on",
    )


def _source(claim: Entry, catalogue: Catalogue) -> Iterator[Finding]:
    """Findings about the snapshot or claim from which the volume is filled."""
    given = _spec(claim).get("dataSource") or _spec(claim).get("dataSourceRef")
    if not given:
        return
    source = catalogue.find(given["kind"], given["name"], claim.namespace)
    title = f"{given['kind']}/{given['name']}"
    if source is None:
        yield Finding(
            severity="warning",
            subject=claim.resource.urn,
            message=f"{claim.title} is filled from {title}, which the program does not create: without it the claim is "
            f"never bound, and Pulumi gives up after {CLAIM_MINUTES} minutes",
            fix=f"create {title} in the program, or make sure that it exists before",
        )
    elif not catalogue.comes_after(claim, source):
        yield Finding(
            severity="error",
            subject=claim.resource.urn,
            message=f"{claim.title} is filled from {title} but does not depend on it: Pulumi waits {CLAIM_MINUTES} minutes "
            "for it to be Bound, including the creation of its source",
            fix=f"add {title} to depends_on",
        )
    elif source.kind == "VolumeSnapshot" and not source.options.wait_for:
        yield Finding(
            severity="error",
            subject=claim.resource.urn,
            message=f"{claim.title} is filled from {title}, which Pulumi considers created once it is accepted: the claim's "
            f"{CLAIM_MINUTES} minutes then include the creation of the snapshot",
            fix=f'annotate {title} with pulumi.com/waitFor: "jsonpath={{.status.readyToUse}}=true"',
        )


def _timeout(claim: Entry) -> Iterator[Finding]:
    given = claim.resource.custom_timeouts.get("create")
    if given:
        yield Finding(
            severity="warning",
            subject=claim.resource.urn,
            message=f"{claim.title} has a custom timeout of {given}, but the provider always waits {CLAIM_MINUTES} minutes for a "
            "claim: a volume that takes longer to fill fails the update",
            fix='annotate it with pulumi.com/skipAwait: "true" (its pods wait for the volume anyway), or use a smaller volume',
        )


def _class_of(claim: Entry, catalogue: Catalogue) -> Entry | None:
    name = _spec(claim).get("storageClassName")
    return catalogue.find("StorageClass", name) if name else None


def _mode(storage_class: Entry) -> str:
    return str(storage_class.manifest.get("volumeBindingMode", "Immediate"))


def _spec(entry: Entry) -> dict[str, Any]:
    return entry.manifest.get("spec") or {}
