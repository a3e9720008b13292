"""Findings about order: what one object needs of another that the graph does not put before it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, Final

from fleet.rehearse.apply.catalogue import Catalogue, Entry
from fleet.rehearse.results import Finding

ALWAYS_THERE: Final = frozenset({"default", "kube-system", "kube-public", "kube-node-lease"})
"""Namespaces of every cluster."""
_RETRY: Final = "the provider tries five times within about half a minute, and a destroy takes both down at once"


def findings(catalogue: Catalogue) -> Iterator[Finding]:
    """One object declared twice, namespaces that may come too late, what pods mount."""
    yield from _twice(catalogue)
    for entry in catalogue.entries:
        yield from _namespace(entry, catalogue)
        yield from _mounted(entry, catalogue)


def _twice(catalogue: Catalogue) -> Iterator[Finding]:
    seen: dict[tuple[str, str, str, str], list[Entry]] = defaultdict(list)
    for entry in catalogue.entries:
        seen[entry.group, entry.kind, entry.namespace, entry.name].append(entry)
    for several in seen.values():
        urns = sorted({entry.resource.urn for entry in several})
        if len(urns) > 1:
            first = several[0]
            where = f" in {first.namespace}" if first.namespace else ""
            names = " and ".join(urn.rpartition("::")[2] for urn in urns)
            yield Finding(
                severity="error",
                subject=urns[0],
                message=f"{first.title}{where} is declared by {names}: whichever comes second takes the object over or "
                "conflicts with it, and deleting one deletes it for both",
                fix="give one of them another metadata.name, or drop it",
            )


def _namespace(entry: Entry, catalogue: Catalogue) -> Iterator[Finding]:
    if not entry.namespace or entry.namespace in ALWAYS_THERE:
        return
    namespace = catalogue.find("Namespace", entry.namespace)
    if namespace is None:
        if not entry.of_chart:
            yield Finding(
                severity="warning",
                subject=entry.resource.urn,
                message=f"{entry.title} goes into the namespace {entry.namespace}, which the program does not create",
                fix=f"create the namespace in the program, or see that {entry.namespace} is there before",
            )
    elif not catalogue.comes_after(entry, namespace):
        yield Finding(
            severity="error",
            subject=entry.resource.urn,
            message=f"{entry.title} goes into the namespace {entry.namespace} but does not depend on it: {_RETRY}",
            fix="take metadata.namespace from the Namespace's output, or name it in depends_on",
        )


def _mounted(entry: Entry, catalogue: Catalogue) -> Iterator[Finding]:
    """Claims, config maps, secrets and accounts of the program that the pods use."""
    for kind, name, optional in references(entry):
        needed = catalogue.find(kind, name, entry.namespace)
        if needed is None or optional or catalogue.comes_after(entry, needed):
            continue
        if catalogue.comes_after(needed, entry) and waits_for_pods(entry):
            yield Finding(
                severity="error",
                subject=entry.resource.urn,
                message=f"the pods of {entry.title} cannot start without {needed.title}, which is created only after "
                f"{entry.title} is ready: both wait for ever",
                fix=f"drop the dependency of {needed.title} on {entry.title}",
            )
            continue
        yield Finding(
            severity="warning",
            subject=entry.resource.urn,
            message=f"the pods of {entry.title} use {needed.title}, on which it does not depend: whether they start at once "
            "or fail first depends on chance",
            fix=f"name {needed.title} in depends_on",
        )


def waits_for_pods(entry: Entry) -> bool:
    """Whether Pulumi waits until this object's pods are ready."""
    return entry.pod is not None and not entry.options.skip_await and not entry.of_chart


def references(entry: Entry) -> Iterator[tuple[str, str, bool]]:
    """What the pods of an object use: kind, name, and whether they start without it."""
    pod = entry.pod
    if pod is None:
        return
    spec: Mapping[str, Any] = pod.get("spec") or {}
    if account := spec.get("serviceAccountName"):
        yield "ServiceAccount", account, False
    for volume in spec.get("volumes") or ():
        yield from _of_volume(volume)
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        for source in container.get("envFrom") or ():
            yield from _of_source(source, "configMapRef", "secretRef")
        for variable in container.get("env") or ():
            yield from _of_source(variable.get("valueFrom") or {}, "configMapKeyRef", "secretKeyRef")


def _of_volume(volume: Mapping[str, Any]) -> Iterator[tuple[str, str, bool]]:
    if claim := (volume.get("persistentVolumeClaim") or {}).get("claimName"):
        yield "PersistentVolumeClaim", claim, False
    if config_map := volume.get("configMap"):
        yield "ConfigMap", config_map.get("name", ""), bool(config_map.get("optional"))
    if secret := volume.get("secret"):
        yield "Secret", secret.get("secretName", ""), bool(secret.get("optional"))
    attributes = (volume.get("csi") or {}).get("volumeAttributes") or {}
    if provider := attributes.get("secretProviderClass"):
        yield "SecretProviderClass", provider, False
    for source in (volume.get("projected") or {}).get("sources") or ():
        yield from _of_source(source, "configMap", "secret")


def _of_source(source: Mapping[str, Any], config_map: str, secret: str) -> Iterator[tuple[str, str, bool]]:
    for key, kind in ((config_map, "ConfigMap"), (secret, "Secret")):
        if key in source:
            yield kind, source[key].get("name", ""), bool(source[key].get("optional"))
