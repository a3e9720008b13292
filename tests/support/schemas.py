"""Strict validation of manifests: core kinds by the published OpenAPI schemas, GKE's kinds by their real CRDs."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import yaml

KUBERNETES_VERSION = "1.36"
CRD_FOLDER = Path(__file__).resolve().parents[3] / "shared" / "crds"
"""Beside the repository; without it, custom resources are not checked here."""

_NO_COPY = frozenset({"snapshot.storage.k8s.io", "gateway.networking.k8s.io", "helm.sh", "keda.sh"})
"""Groups whose CRDs are not in that folder: Go modules carry them."""


def problems(manifest: dict[str, Any]) -> list[str]:
    """Everything that an API server with strict field validation would refuse in this manifest."""
    group = manifest["apiVersion"].rpartition("/")[0]
    if "." not in group or (group.endswith((".k8s.io", "policy")) and group in _BUILT_IN):
        try:
            kubernetes_validate.validate(manifest, KUBERNETES_VERSION, strict=True)
        except kubernetes_validate.ValidationError as error:
            return [f"{'.'.join(str(part) for part in error.path)}: {error.message}"]
        return []
    if group in _NO_COPY or not CRD_FOLDER.is_dir():
        return []
    schema = _schemas().get((manifest["apiVersion"], manifest["kind"]))
    if schema is None:
        return [f"no schema for {manifest['apiVersion']} {manifest['kind']}"]
    validator = jsonschema.Draft202012Validator(schema)
    found = sorted(validator.iter_errors(manifest), key=lambda one: list(map(str, one.absolute_path)))
    return [f"{'.'.join(str(part) for part in error.absolute_path)}: {error.message}" for error in found]


_BUILT_IN = frozenset({"networking.k8s.io", "storage.k8s.io", "rbac.authorization.k8s.io", "scheduling.k8s.io"})


@functools.cache
def _schemas() -> dict[tuple[str, str], dict[str, Any]]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for path in sorted(CRD_FOLDER.rglob("*.yaml")):
        spec = yaml.load(path.read_text(), Loader=loader)["spec"]
        for version in spec["versions"]:
            schema = _strict(version["schema"]["openAPIV3Schema"])
            schema["properties"].update(apiVersion={}, kind={}, metadata={})
            found[(f"{spec['group']}/{version['name']}", spec["names"]["kind"])] = schema
    return found


def _strict(schema: Any) -> Any:
    """The schema with every unknown field refused, as the API server does with `fieldValidation=Strict`."""
    if isinstance(schema, list):
        return [_strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    strict = {
        key: {name: _strict(value) for name, value in inner.items()} if key == "properties" else _strict(inner)
        for key, inner in schema.items()
        if key not in ("default", "enum", "required", "description")
    }
    strict.update({key: schema[key] for key in ("enum", "required") if key in schema})
    if "properties" in schema and not schema.get("x-kubernetes-preserve-unknown-fields"):
        strict["additionalProperties"] = False
    if schema.get("x-kubernetes-int-or-string"):
        strict.pop("type", None)
    if schema.get("nullable"):
        return {"anyOf": [strict, {"type": "null"}]}
    return strict
