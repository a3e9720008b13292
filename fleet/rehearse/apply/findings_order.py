"""Findings about order: missing dependencies between objects."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, Final

from fleet.rehearse.apply.catalogue import Catalogue, Entry
from fleet.rehearse.results import Finding

ALWAYS_THERE: Final = frozenset({"default", "kube-system", "kube-public", "kube-node-lease"})
"""Namespaces of every cluster."""
_RETRY: Final = "the provider retries five times within about 30 seconds, and destroy deletes both at the same time"


def findings(catalogue: Catalogue) -> Iterator[Finding]:
    """Duplicate objects, and missing dependencies on namespaces and on objects that pods use."""
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
                message=f"{first.title}{where} is declared by {names}: the second one overwrites or conflicts with the first, "
                "and deleting one deletes the object of both",
                fix="change metadata.name of one of them, or remove it",
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
                message=f"{entry.title} uses the namespace {entry.namespace}, which the program does not create",
                fix=f"create the namespace in the program, or make sure that {entry.namespace} exists before",
            )
    elif not catalogue.comes_after(entry, namespace):
        yield Finding(
            severity="error",
            subject=entry.resource.urn,
            message=f"{entry.title} uses the namespace {entry.namespace} but does not depend on it: {_RETRY}",
            fix="take metadata.namespace from the Namespace's output, or add the Namespace to depends_on",
        )


def _mounted(entry: Entry, catalogue: Catalogue) -> Iterator[Finding]:
    """Claims, ConfigMaps, Secrets and ServiceAccounts that the pods use."""
    for kind, name, optional in references(entry):
        needed = catalogue.find(kind, name, entry.namespace)
        if needed is None or optional or catalogue.comes_after(entry, needed):
            continue
        if catalogue.comes_after(needed, entry) and waits_for_pods(entry):
            yield Finding(
                severity="error",
                subject=entry.resource.urn,
                message=f"the pods of {entry.title} cannot start without {needed.title}, which is created only after "
                f"{entry.title} is ready: both wait forever",
                fix=f"remove the dependency of {needed.title} on {entry.title}",
            )
            continue
        yield Finding(
            severity="warning",
            subject=entry.resource.urn,
            message=f"the pods of {entry.title} use {needed.title}, but {entry.title} does not depend on it: the pods may fail "
            "before they start",
            fix=f"add {needed.title} to depends_on",
        )


def waits_for_pods(entry: Entry) -> bool:
    """Whether Pulumi waits for this object's pods to be Ready."""
    return entry.pod is not None and not entry.options.skip_await and not entry.of_chart


def references(entry: Entry) -> Iterator[tuple[str, str, bool]]:
    """Objects that an object's pods use: kind, name, and whether it is optional."""
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
