"""A provider's answer to `Diff`: what differs, and what of it replaces the resource.

The fields that replace are those of the offline preview (fleet/preview/compare): the providers' own schemas, transcribed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from pulumi.runtime.proto import provider_pb2

from fleet.preview.compare.replacement import decisive, deletes_first, reasons
from fleet.preview.compare.structural_diff import Difference, Element, Path, differences, path_text
from fleet.preview.record.values import Secret, Value

_PLAIN: Final = re.compile(r"[\w-]+")
_KINDS: Final[Mapping[str, str]] = {"added": "ADD", "removed": "DELETE", "changed": "UPDATE", "may change": "UPDATE"}


def diff_response(type_: str, old: dict[str, Any], new: dict[str, Any], *, reuses_name: bool | None = None) -> Any:
    """The answer for a resource of the type.

    `reuses_name`: whether a replacement has the old one's name, so that the old one must go first; by default the inputs tell.
    """
    found = list(differences(old, new))
    deciding = decisive(type_, old, new, found)
    if type_.startswith("kubernetes:"):
        deciding = [_bare(one) for one in deciding]
    replacing = {reason.path for reason in reasons(type_, deciding)}
    detailed = {property_path(one.path): _kind(one, path_text(one.path) in replacing) for one in found}
    replaces = sorted({str(one.path[0]) for one in found if path_text(one.path) in replacing})
    some = bool(detailed or replaces)
    return provider_pb2.DiffResponse(
        changes=provider_pb2.DiffResponse.DIFF_SOME if some else provider_pb2.DiffResponse.DIFF_NONE,
        diffs=sorted({str(one.path[0]) for one in found}),
        replaces=replaces,
        deleteBeforeReplace=bool(replaces) and deletes_first(type_, old, new, reuses_name),
        detailedDiff=detailed,
        hasDetailedDiff=True,
    )


def drifted(inputs: Value, before: Value, live: Value) -> Value:
    """The inputs with what has changed in the cluster since: `before` is the object as the last operation left it.

    A value that the API server writes otherwise than the program, such as "1000m", is no drift.
    """
    if isinstance(inputs, Secret) or live == before:
        return inputs
    if isinstance(inputs, Mapping) and isinstance(live, Mapping):
        was = before if isinstance(before, Mapping) else {}
        return {
            key: drifted(value, was.get(key), live[key]) if key in live else value
            for key, value in inputs.items()
            if key in live or key not in was
        }
    if isinstance(inputs, list) and isinstance(live, list) and len(inputs) == len(live):
        former = before if isinstance(before, list) and len(before) == len(live) else [None] * len(live)
        return [drifted(input_, old, new) for input_, old, new in zip(inputs, former, live, strict=True)]
    return live


def property_path(path: Path) -> str:
    """A path as the engine writes it: list elements by their position, keys with a dot in quotes."""
    text = ""
    for step in path:
        if isinstance(step, Element):
            text += f"[{step.index}]"
        elif _PLAIN.fullmatch(step):
            text += f".{step}" if text else step
        else:
            quoted = step.replace('"', '\\"')
            text += f'["{quoted}"]'
    return text


def _bare(difference: Difference) -> Difference:
    """An unknown value without what it may hold: it replaces a resource if its own path does, not by a path below it. Otherwise a
    replaced Secret would delete and create each Deployment whose `spec` depends on it.

    Source: pulumi-kubernetes, provider/pkg/provider/provider.go (addPatchValueToDiff: unknown values are null in the patch) and
    provider/pkg/openapi/match.go (a path below null is not found).
    """
    return replace(difference, before=None, after=None) if difference.kind == "may change" else difference


def _kind(difference: Difference, replaces: bool) -> Any:
    name = _KINDS[difference.kind] + ("_REPLACE" if replaces else "")
    return provider_pb2.PropertyDiff(kind=provider_pb2.PropertyDiff.Kind.Value(name), inputDiff=True)
