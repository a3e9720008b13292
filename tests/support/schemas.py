"""Strict validation of manifests: core kinds by the published OpenAPI schemas, custom resources by their definitions."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import yaml

from lab.control_plane.custom_resources.definitions import gke_definitions

KUBERNETES_VERSION = "1.36"
# Its reader parses megabytes anew for each manifest.
kubernetes_validate.utils.schema_contents = functools.cache(kubernetes_validate.utils.schema_contents)
_OTHERS = Path(__file__).with_suffix(".yaml")
_BUILT_IN = frozenset(
    {"networking.k8s.io", "storage.k8s.io", "rbac.authorization.k8s.io", "resource.k8s.io", "scheduling.k8s.io"}
)


def problems(manifest: dict[str, Any]) -> list[str]:
    """Everything that an API server with strict field validation would refuse in this manifest; a kind without a schema is a problem."""
    group = manifest["apiVersion"].rpartition("/")[0]
    if "." not in group or (group.endswith((".k8s.io", "policy")) and group in _BUILT_IN):
        try:
            kubernetes_validate.validate(manifest, KUBERNETES_VERSION, strict=True)
        except kubernetes_validate.ValidationError as error:
            return [f"{'.'.join(str(part) for part in error.path)}: {error.message}"]
        return []
    schema = _schemas().get(f"{manifest['apiVersion']} {manifest['kind']}")
    if schema is None:
        return [f"no schema for {manifest['apiVersion']} {manifest['kind']}"]
    validator = jsonschema.Draft202012Validator(schema)
    found = sorted(validator.iter_errors(manifest), key=lambda one: list(map(str, one.absolute_path)))
    return [f"{'.'.join(str(part) for part in error.absolute_path)}: {error.message}" for error in found]


def others() -> dict[str, dict[str, Any]]:
    """Schemas by version and kind, of definitions that come with a Go module."""
    found: dict[str, dict[str, Any]] = yaml.load(
        _OTHERS.read_text(encoding="utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    )
    return found


@functools.cache
def _schemas() -> dict[str, dict[str, Any]]:
    """By version and kind."""
    found = others()
    for definition in gke_definitions():
        spec = definition["spec"]
        for version in spec["versions"]:
            found[f"{spec['group']}/{version['name']} {spec['names']['kind']}"] = version["schema"]["openAPIV3Schema"]
    strict = {name: _strict(schema) for name, schema in found.items()}
    for schema in strict.values():
        schema["properties"].update(apiVersion={}, kind={}, metadata={})
    return strict


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
