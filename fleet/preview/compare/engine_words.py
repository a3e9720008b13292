"""What a change does to the servers, in the words of the engine: its release, model, options, variables, replicas, and region."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from fleet.preview.compare.changes import Changes, PropertyChange

_DEPLOYMENT: Final = "kubernetes:apps/v1:Deployment"
_OPTION: Final = re.compile(r"\.containers\[vllm\]\.args\[--(.+)\]$")
_VARIABLE: Final = re.compile(r"\.containers\[vllm\]\.env\[(\w+)\](?:\.value)?$")
_IMAGE: Final = ".containers[vllm].image"
_REVISION: Final = 'spec.template.metadata.annotations["vllm-fleet.dev/model-revision"]'
_SHOWN_OF_A_REVISION: Final = 12
"""Characters, as Hugging Face shows a commit."""
_LONGEST: Final = 40
"""Characters of a value; the resource's own line has it whole."""


def engine_words(changes: Changes) -> tuple[str, ...]:
    """`replicas 12 → 16`, `max-model-len 2560 → 4096`, `prefix caching off`; empty where no server changes and the region is the same."""
    words = [
        word
        for resource in changes.resources
        if resource.type == _DEPLOYMENT and any(_is_of_a_server(edit) for edit in resource.properties)
        for word in _of_a_server(resource.properties)
    ]
    region = (
        f"region {edit.before} → {edit.after}"
        for edit in changes.outputs
        if edit.path == "region" and edit.kind == "changed"
    )
    return tuple(dict.fromkeys((*region, *words)))


def _is_of_a_server(edit: PropertyChange) -> bool:
    return "[vllm]" in edit.path or edit.path in ("spec.replicas", _REVISION)


def _of_a_server(edits: Iterable[PropertyChange]) -> Iterator[str]:
    options: dict[str, PropertyChange] = {}
    for edit in edits:
        if edit.path == "spec.replicas":
            yield f"replicas {_value(edit.before)} → {_value(edit.after)}"
        elif edit.path == _REVISION:
            before, after = (str(side)[:_SHOWN_OF_A_REVISION] for side in (edit.before, edit.after))
            yield f"model revision {before} → {after}"
        elif edit.path.endswith(_IMAGE):
            yield _image(edit)
        elif option := _OPTION.search(edit.path):
            options[option[1]] = edit
        elif variable := _VARIABLE.search(edit.path):
            yield _changed(variable[1], edit)
    for name, edit in options.items():
        other = options.get(name.removeprefix("no-") if name.startswith("no-") else f"no-{name}")
        if other is None:
            yield _changed(name, edit)
        elif edit.kind == "added":  # the pair --enable-x and --no-enable-x: told once, by what is on now
            what = name.removeprefix("no-").removeprefix("enable-").replace("-", " ")
            yield f"{what} {'off' if name.startswith('no-') else 'on'}"


def _changed(name: str, edit: PropertyChange) -> str:
    if edit.secret:
        return f"{name} (a secret)"
    if edit.kind == "removed":
        return f"{name} removed"
    after = _value(edit.after)
    return f"{name} {_value(edit.before)} → {after}" if edit.kind != "added" else f"{name} {after} added"


def _image(edit: PropertyChange) -> str:
    sides = [str(side).partition("@") for side in (edit.before, edit.after)]
    before, after = (name.rpartition(":")[2].removeprefix("v") for name, _, _ in sides)
    if before != after:
        return f"vLLM {before} → {after}"
    (old, _, was), (new, _, digest) = sides
    is_the_same = was == digest and old.rpartition("/")[2] == new.rpartition("/")[2]
    return f"vLLM {after} from another registry" if is_the_same else f"another image of vLLM {after}"


def _value(value: Any) -> str:
    """An option's value without its flag; a variable's without its name."""
    if isinstance(value, dict):
        value = value.get("value", "a reference")
    text = str(value)
    if text.startswith("--"):
        _, equals, text = text.partition("=")
        text = text if equals else "on"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
