"""What a change does to the servers, in the words of the engine: its release, options, variables, and the number of replicas."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from fleet.preview.compare.changes import PropertyChange, ResourceChange

_DEPLOYMENT: Final = "kubernetes:apps/v1:Deployment"
_OPTION: Final = re.compile(r"\.containers\[vllm\]\.args\[--(.+)\]$")
_VARIABLE: Final = re.compile(r"\.containers\[vllm\]\.env\[(\w+)\](?:\.value)?$")
_IMAGE: Final = ".containers[vllm].image"
_LONGEST: Final = 40
"""Characters of a value; the resource's own line has it whole."""


def engine_words(resources: Iterable[ResourceChange]) -> str:
    """`replicas 12 → 16, max-model-len 2560 → 4096, prefix caching off`; empty where no server changes."""
    words = [
        word
        for resource in resources
        if resource.type == _DEPLOYMENT and any(_is_of_a_server(edit) for edit in resource.properties)
        for word in _of_a_server(resource.properties)
    ]
    return ", ".join(dict.fromkeys(words))


def _is_of_a_server(edit: PropertyChange) -> bool:
    return "[vllm]" in edit.path or edit.path == "spec.replicas"


def _of_a_server(edits: Iterable[PropertyChange]) -> Iterator[str]:
    options: dict[str, PropertyChange] = {}
    for edit in edits:
        if edit.path == "spec.replicas":
            yield f"replicas {_value(edit.before)} → {_value(edit.after)}"
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
    before, after = (
        str(side).partition("@")[0].rpartition(":")[2].removeprefix("v") for side in (edit.before, edit.after)
    )
    return f"vLLM {before} → {after}" if before != after else f"another image of vLLM {after}"


def _value(value: Any) -> str:
    """An option's value without its flag; a variable's without its name."""
    if isinstance(value, dict):
        value = value.get("value", "a reference")
    text = str(value)
    if text.startswith("--"):
        _, equals, text = text.partition("=")
        text = text if equals else "on"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
