"""The files that a pod mounts whose programs run here, in folders of this machine."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lab.control_plane.api import CONFIG_MAP, SECRET, Kind
from lab.results.result import RehearsalError

if TYPE_CHECKING:
    from lab.control_plane.api import ClusterApi, Manifest

SECRET_PROVIDER_CLASS: Final = Kind("secrets-store.csi.x-k8s.io/v1", "SecretProviderClass")


_EMPTY: Final = {"emptyDir", "persistentVolumeClaim", "ephemeral"}
"""Volumes that are empty here: simulated servers read no weights."""


def stored_value(resource: str) -> str:
    """What the simulated Secret Manager holds: `projects/P/secrets/NAME/versions/V`. A placeholder of the name."""
    return f"value-of-{resource.split('/')[3]}"


def mounted(api: ClusterApi, pod: Manifest, container: Mapping[str, Any], folder: Path) -> dict[str, Path]:
    """Write what the container mounts below `folder`; the folder of each path. Raises RehearsalError for what is not there."""
    volumes = {one["name"]: one for one in pod["spec"].get("volumes") or ()}
    found: dict[str, Path] = {}
    for mount in container.get("volumeMounts") or ():
        if _is_token(mount):
            continue
        here = folder / mount["name"]
        here.mkdir(parents=True, exist_ok=True)
        for name, content in _content(api, pod["metadata"]["namespace"], volumes[mount["name"]]):
            file = here / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        found[mount["mountPath"].rstrip("/")] = here
    return found


def has_token(pod: Manifest, container: Mapping[str, Any]) -> bool:
    """Whether the container has the token of the pod's service account, mounted by the kubelet or by itself. It is a kubeconfig here."""
    mounts = container.get("volumeMounts") or ()
    return bool(pod["spec"].get("automountServiceAccountToken")) or any(map(_is_token, mounts))


def _is_token(mount: Mapping[str, Any]) -> bool:
    return str(mount["mountPath"]).startswith("/var/run/secrets/kubernetes.io/")


def _content(api: ClusterApi, namespace: str, volume: Mapping[str, Any]) -> Iterator[tuple[str, bytes]]:
    if "configMap" in volume:
        object_ = _object(api, CONFIG_MAP, volume["configMap"]["name"], namespace)
        data: dict[str, str] = object_.get("data") or {}
        paths = {one["key"]: one["path"] for one in volume["configMap"].get("items") or ()} or dict(
            zip(data, data, strict=True)
        )
        yield from ((path, data[name].encode()) for name, path in paths.items())
    elif "secret" in volume:
        object_ = _object(api, SECRET, volume["secret"]["secretName"], namespace)
        yield from ((name, base64.b64decode(value)) for name, value in (object_.get("data") or {}).items())
    elif "csi" in volume:
        name = volume["csi"]["volumeAttributes"]["secretProviderClass"]
        object_ = _object(api, SECRET_PROVIDER_CLASS, name, namespace)
        for one in json.loads(object_["spec"]["parameters"]["secrets"]):
            yield one["path"], stored_value(one["resourceName"]).encode()
    elif not volume.keys() & _EMPTY:
        raise RehearsalError(
            f"volume {volume['name']}: a pod whose programs run here mounts ConfigMaps, secrets, claims and empty folders"
        )


def _object(api: ClusterApi, kind: Kind, name: str, namespace: str) -> Manifest:
    found = api.get(kind, name, namespace)
    if found is None:
        raise RehearsalError(f"{kind.kind}/{name} does not exist, which a router's pod mounts")
    return found
